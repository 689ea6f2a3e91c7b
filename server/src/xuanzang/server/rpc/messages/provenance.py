"""Provenance of the translations of a call, for callers who ask for it."""

from __future__ import annotations

import dataclasses
from importlib.metadata import version

from xuanzang.server.engine.scheduling.call import Call, CallRecord, SentenceTimeline
from xuanzang.server.engine.types import Runtime
from xuanzang.translation.v1 import translation_pb2 as pb

_SERVER_VERSION = version("xuanzang-server")
# Sampling has a message of its own; the texts would make the answer many times as large as the request.
_SCALARS = tuple(
    field.name
    for field in pb.DecodingOptions.DESCRIPTOR.fields
    if field.name not in ("sampling", "target_prefix", "suppressed_texts")
)


class Provenance:
    """Says how the texts of one call were translated."""

    def __init__(self, call: Call, record: CallRecord, runtime: Runtime, *, method: str) -> None:
        self._record = record
        self._shared = pb.Provenance(
            method=method,
            model=call.model.name,
            model_version=str(call.model.version),
            manifest_sha256=call.model.manifest_sha256,
            precision=call.model.precision,
            shortlist=call.model.uses_shortlist,
            execution_provider=runtime.execution_provider,
            kernels=runtime.kernels,
            kernels_reason=runtime.kernels_reason,
            server_version=_SERVER_VERSION,
            onnxruntime_version=runtime.onnxruntime_version,
            settings=effective_settings(call),
        )

    def of_text(self, text_index: int) -> pb.Provenance:
        """Say how a text was translated."""
        message = pb.Provenance(sentences=[_sentence(*each) for each in self._record.of_text(text_index)])
        message.MergeFrom(self._shared)
        return message


def effective_settings(call: Call) -> pb.TranslationSettings:
    """Return the settings in effect, without those that are texts."""
    options = call.options
    scalars = {name: value for name in _SCALARS if (value := getattr(options, name)) is not None}
    sampling = pb.SamplingOptions(**dataclasses.asdict(options.sampling)) if options.sampling else None
    return pb.TranslationSettings(
        target_language_code=call.target_language,
        options=pb.DecodingOptions(**scalars, sampling=sampling),
        return_alternatives=options.return_alternatives,
        return_scores=call.return_scores,
        token_details=options.token_details,
        return_quality=options.quality,
        return_provenance=call.return_provenance,
    )


def _sentence(sentence_index: int, timeline: SentenceTimeline) -> pb.SentenceProvenance:
    return pb.SentenceProvenance(
        sentence_index=sentence_index,
        worker=timeline.worker,
        batch_sentences=timeline.batch_size,
        queue_milliseconds=1000 * (timeline.taken_at - timeline.queued_at),
        encode_milliseconds=1000 * (timeline.encoded_at - timeline.taken_at),
        decode_milliseconds=1000 * (timeline.finished_at - timeline.encoded_at),
        steps=timeline.steps,
        searches=timeline.searches,
        max_target_length=timeline.max_target_length,
        kept_answer=timeline.is_kept,
        source_with_terms=timeline.source_with_terms,
        terms_required=timeline.terms_required,
    )
