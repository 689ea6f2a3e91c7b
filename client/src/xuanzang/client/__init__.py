"""Translate text through a xuanzang server.

>>> from xuanzang.client import TranslationClient
>>> with TranslationClient("localhost:50051") as client:
...     client.translate_one("我有一只猫。", target_language="en").text  # doctest: +SKIP
'I have a cat.'
"""

from __future__ import annotations

from xuanzang.client._aio_client import AsyncTranslationClient
from xuanzang.client._client import TranslationClient
from xuanzang.client._errors import (
    AccessDeniedError,
    CallCancelledError,
    DeadlineExceededError,
    FieldViolation,
    GlossaryNotFoundError,
    InvalidRequestError,
    ModelNotFoundError,
    OverloadedError,
    ServerFaultError,
    ServerUnavailableError,
    StatusCode,
    TranslationError,
    UnservedLanguageError,
)
from xuanzang.client._values.capsule import Capsule, Difference, Exchange, Replay
from xuanzang.client._values.explanations import (
    Attention,
    AttentionKind,
    CandidateFate,
    CandidateReason,
    Explanation,
    SearchCandidate,
    SearchStep,
    SourceToken,
    TargetToken,
    TokenAlternative,
)
from xuanzang.client._values.options import ProtectedPattern, TLSConfig
from xuanzang.client._values.results import (
    DetectedLanguage,
    DocumentTranslation,
    FinishReason,
    GlossaryMatch,
    GlossaryOutcome,
    Hypothesis,
    ProgressiveTranslation,
    Quality,
    QualityFlag,
    StoredGlossary,
    StreamedTranslation,
    TokenDetail,
    Translation,
    Usage,
)
from xuanzang.values.models import DecodingDefaults, Model
from xuanzang.values.options import ContentFormat, ExplainOptions, TranslateOptions
from xuanzang.values.provenance import EffectiveOptions, Pivot, Provenance, SamplingOptions, SentenceProvenance

__all__ = [
    "AccessDeniedError",
    "AsyncTranslationClient",
    "Attention",
    "AttentionKind",
    "CallCancelledError",
    "CandidateFate",
    "CandidateReason",
    "Capsule",
    "ContentFormat",
    "DeadlineExceededError",
    "DecodingDefaults",
    "DetectedLanguage",
    "Difference",
    "DocumentTranslation",
    "EffectiveOptions",
    "Exchange",
    "ExplainOptions",
    "Explanation",
    "FieldViolation",
    "FinishReason",
    "GlossaryMatch",
    "GlossaryNotFoundError",
    "GlossaryOutcome",
    "Hypothesis",
    "InvalidRequestError",
    "Model",
    "ModelNotFoundError",
    "OverloadedError",
    "Pivot",
    "ProgressiveTranslation",
    "ProtectedPattern",
    "Provenance",
    "Quality",
    "QualityFlag",
    "Replay",
    "SamplingOptions",
    "SearchCandidate",
    "SearchStep",
    "SentenceProvenance",
    "ServerFaultError",
    "ServerUnavailableError",
    "SourceToken",
    "StatusCode",
    "StoredGlossary",
    "StreamedTranslation",
    "TLSConfig",
    "TargetToken",
    "TokenAlternative",
    "TokenDetail",
    "TranslateOptions",
    "Translation",
    "TranslationClient",
    "TranslationError",
    "UnservedLanguageError",
    "Usage",
]
