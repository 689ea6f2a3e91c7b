"""The gRPC server of translation models: `rpc` above `engine` above `bundles`, and what starts and stops them.

Its public names are those of translation in the process of the caller, without a server. All else is private.

>>> from xuanzang.server import Translator
>>> with Translator("server/models") as translator:  # doctest: +SKIP
...     translator.translate_one("我有一只猫。", target_language="en").text
'I have a cat.'
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

# Set before onnxruntime is imported: its telemetry would give the machine an identifier and write files.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# Set before grpc is imported: its core writes lines of its own to stderr, which are no JSON and quote callers' headers.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

if TYPE_CHECKING:
    from xuanzang.server.bundles.errors import BundleError
    from xuanzang.server.bundles.repository import find_bundles
    from xuanzang.server.engine.errors import (
        DeadlineExceededError,
        DetectionUnavailableError,
        DrainingError,
        EngineError,
        FieldViolation,
        InvalidInputError,
        MemoryLimitError,
        ModelNotFoundError,
        OverloadedError,
        UnservedLanguageError,
    )
    from xuanzang.server.engine.text.language_detection import DetectedLanguage
    from xuanzang.server.engine.types import (
        FinishReason,
        GlossaryMatch,
        GlossaryOutcome,
        ProtectedPattern,
        Quality,
        QualityFlag,
        TokenDetail,
    )
    from xuanzang.server.in_process.aio_translator import AsyncTranslator, TranslatorSettings, check_options
    from xuanzang.server.in_process.options import ContentFormat, TranslateOptions
    from xuanzang.server.in_process.translations import (
        Hypothesis,
        ProgressiveTranslation,
        StreamedTranslation,
        Translation,
    )
    from xuanzang.server.in_process.translator import Translator
    from xuanzang.server.published import HubError
    from xuanzang.values.models import DecodingDefaults, Model
    from xuanzang.values.provenance import EffectiveOptions, Provenance, SamplingOptions, SentenceProvenance

__all__ = [
    "AsyncTranslator",
    "BundleError",
    "ContentFormat",
    "DeadlineExceededError",
    "DecodingDefaults",
    "DetectedLanguage",
    "DetectionUnavailableError",
    "DrainingError",
    "EffectiveOptions",
    "EngineError",
    "FieldViolation",
    "FinishReason",
    "GlossaryMatch",
    "GlossaryOutcome",
    "HubError",
    "Hypothesis",
    "InvalidInputError",
    "MemoryLimitError",
    "Model",
    "ModelNotFoundError",
    "OverloadedError",
    "ProgressiveTranslation",
    "ProtectedPattern",
    "Provenance",
    "Quality",
    "QualityFlag",
    "SamplingOptions",
    "SentenceProvenance",
    "StreamedTranslation",
    "TokenDetail",
    "TranslateOptions",
    "Translation",
    "Translator",
    "TranslatorSettings",
    "UnservedLanguageError",
    "check_options",
    "find_bundles",
]

# A module is imported when one of its names is first used: the engine needs numpy and onnxruntime.
_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        ".bundles.errors": ("BundleError",),
        ".bundles.repository": ("find_bundles",),
        ".engine.errors": (
            "DeadlineExceededError",
            "DetectionUnavailableError",
            "DrainingError",
            "EngineError",
            "FieldViolation",
            "InvalidInputError",
            "MemoryLimitError",
            "ModelNotFoundError",
            "OverloadedError",
            "UnservedLanguageError",
        ),
        ".engine.text.language_detection": ("DetectedLanguage",),
        ".engine.types": (
            "FinishReason",
            "GlossaryMatch",
            "GlossaryOutcome",
            "ProtectedPattern",
            "Quality",
            "QualityFlag",
            "TokenDetail",
        ),
        ".in_process.aio_translator": ("AsyncTranslator", "TranslatorSettings", "check_options"),
        ".in_process.options": ("ContentFormat", "TranslateOptions"),
        ".in_process.translations": ("Hypothesis", "ProgressiveTranslation", "StreamedTranslation", "Translation"),
        ".in_process.translator": ("Translator",),
        ".published": ("HubError",),
        "xuanzang.values.models": ("DecodingDefaults", "Model"),
        "xuanzang.values.provenance": ("EffectiveOptions", "Provenance", "SamplingOptions", "SentenceProvenance"),
    }
)

if not TYPE_CHECKING:  # type checkers would take any name

    def __getattr__(name: str) -> object:
        for module, names in _NAMES.items():
            if name in names:
                value = getattr(importlib.import_module(module, __name__), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
