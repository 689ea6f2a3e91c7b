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

# Set before grpc is imported: its core writes lines to stderr that are not JSON and quote callers' headers.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

if TYPE_CHECKING:
    from xuanzang.server.bundles.errors import BundleError as BundleError
    from xuanzang.server.bundles.repository import find_bundles as find_bundles
    from xuanzang.server.engine.errors import DeadlineExceededError as DeadlineExceededError
    from xuanzang.server.engine.errors import DetectionUnavailableError as DetectionUnavailableError
    from xuanzang.server.engine.errors import DrainingError as DrainingError
    from xuanzang.server.engine.errors import EngineError as EngineError
    from xuanzang.server.engine.errors import FieldViolation as FieldViolation
    from xuanzang.server.engine.errors import InvalidInputError as InvalidInputError
    from xuanzang.server.engine.errors import MemoryLimitError as MemoryLimitError
    from xuanzang.server.engine.errors import ModelNotFoundError as ModelNotFoundError
    from xuanzang.server.engine.errors import OverloadedError as OverloadedError
    from xuanzang.server.engine.errors import UnservedLanguageError as UnservedLanguageError
    from xuanzang.server.engine.types import FinishReason as FinishReason
    from xuanzang.server.engine.types import Quality as Quality
    from xuanzang.server.engine.types import QualityFlag as QualityFlag
    from xuanzang.server.in_process.aio_translator import AsyncTranslator as AsyncTranslator
    from xuanzang.server.in_process.aio_translator import TranslatorSettings as TranslatorSettings
    from xuanzang.server.in_process.aio_translator import check_options as check_options
    from xuanzang.server.in_process.translations import Hypothesis as Hypothesis
    from xuanzang.server.in_process.translations import ProgressiveTranslation as ProgressiveTranslation
    from xuanzang.server.in_process.translations import StreamedTranslation as StreamedTranslation
    from xuanzang.server.in_process.translations import Translation as Translation
    from xuanzang.server.in_process.translator import Translator as Translator
    from xuanzang.server.published import HubError as HubError
    from xuanzang.text.language_detection import DetectedLanguage as DetectedLanguage
    from xuanzang.text.types import GlossaryMatch as GlossaryMatch
    from xuanzang.text.types import GlossaryOutcome as GlossaryOutcome
    from xuanzang.text.types import ProtectedPattern as ProtectedPattern
    from xuanzang.text.types import TokenDetail as TokenDetail
    from xuanzang.values.models import DecodingDefaults as DecodingDefaults
    from xuanzang.values.models import Model as Model
    from xuanzang.values.options import ContentFormat as ContentFormat
    from xuanzang.values.options import TranslateOptions as TranslateOptions
    from xuanzang.values.provenance import EffectiveOptions as EffectiveOptions
    from xuanzang.values.provenance import Pivot as Pivot
    from xuanzang.values.provenance import Provenance as Provenance
    from xuanzang.values.provenance import SamplingOptions as SamplingOptions
    from xuanzang.values.provenance import SentenceProvenance as SentenceProvenance

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
        ".engine.types": ("FinishReason", "Quality", "QualityFlag"),
        ".in_process.aio_translator": ("AsyncTranslator", "TranslatorSettings", "check_options"),
        ".in_process.translations": ("Hypothesis", "ProgressiveTranslation", "StreamedTranslation", "Translation"),
        ".in_process.translator": ("Translator",),
        ".published": ("HubError",),
        "xuanzang.text.language_detection": ("DetectedLanguage",),
        "xuanzang.text.types": ("GlossaryMatch", "GlossaryOutcome", "ProtectedPattern", "TokenDetail"),
        "xuanzang.values.models": ("DecodingDefaults", "Model"),
        "xuanzang.values.options": ("ContentFormat", "TranslateOptions"),
        "xuanzang.values.provenance": (
            "EffectiveOptions",
            "Pivot",
            "Provenance",
            "SamplingOptions",
            "SentenceProvenance",
        ),
    }
)

__all__ = [name for names in _NAMES.values() for name in names]

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
