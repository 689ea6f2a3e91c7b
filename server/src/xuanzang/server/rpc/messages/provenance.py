"""How the translations of a request are made, for callers who ask for it."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from importlib.metadata import version

from xuanzang.server.engine.calls.journal import Journal, SentenceRecord
from xuanzang.server.engine.types import Runtime
from xuanzang.server.rpc.messages.requests import TranslationRequest
from xuanzang.translation.v1 import translation_pb2 as pb

_SERVER_VERSION = version("xuanzang-server")
# Sampling has a message of its own; the texts would make the answer many times as large as the request.
_SCALARS = tuple(
    field.name
    for field in pb.DecodingOptions.DESCRIPTOR.fields
    if field.name not in ("sampling", "target_prefix", "suppressed_texts")
)


class ProvenanceRecorder:
    """Says how the texts of one request were translated."""

    def __init__(self, request: TranslationRequest, runtime: Runtime, *, method: str) -> None:
        self._request = request
        self._runtime = runtime
        self._method = method
        self.journal = Journal()
        """Journal for the engine."""

    def provenance(self, text_index: int) -> pb.Provenance:
        """Say how a text was translated."""
        message = pb.Provenance(sentences=map(_sentence, self.journal.of_text(text_index)))
        message.MergeFrom(self._shared)
        return message

    @cached_property
    def _shared(self) -> pb.Provenance:
        """What all texts of the request have in common."""
        request, runtime = self._request, self._runtime
        return pb.Provenance(
            method=self._method,
            model=request.model.name,
            model_version=str(request.model.version),
            manifest_sha256=request.model.manifest_sha256,
            precision=request.model.precision,
            shortlist=request.model.uses_shortlist,
            execution_provider=runtime.execution_provider,
            kernels=runtime.kernels,
            kernels_reason=runtime.kernels_reason,
            server_version=_SERVER_VERSION,
            onnxruntime_version=runtime.onnxruntime_version,
            settings=effective_settings(request),
        )


def effective_settings(request: TranslationRequest) -> pb.TranslationSettings:
    """Return the settings in effect, without those that are texts."""
    options = request.options
    scalars = {name: value for name in _SCALARS if (value := getattr(options, name)) is not None}
    sampling = pb.SamplingOptions(**dataclasses.asdict(options.sampling)) if options.sampling else None
    return pb.TranslationSettings(
        target_language_code=request.target_language,
        options=pb.DecodingOptions(**scalars, sampling=sampling),
        return_alternatives=options.return_alternatives,
        return_scores=request.return_scores,
        token_details=options.token_details,
        return_quality=options.quality,
        return_provenance=request.return_provenance,
    )


def _sentence(record: SentenceRecord) -> pb.SentenceProvenance:
    timeline = record.timeline
    return pb.SentenceProvenance(
        sentence_index=record.sentence_index,
        worker=timeline.worker,
        batch_sentences=timeline.batch_size,
        queue_milliseconds=1000 * (timeline.taken_at - timeline.queued_at),
        encode_milliseconds=1000 * (timeline.encoded_at - timeline.taken_at),
        decode_milliseconds=1000 * (timeline.finished_at - timeline.encoded_at),
        steps=timeline.steps,
        searches=timeline.searches,
        max_target_length=record.max_target_length,
        kept_answer=timeline.is_kept,
        source_with_terms=record.source_with_terms,
        terms_required=timeline.terms_required,
    )
