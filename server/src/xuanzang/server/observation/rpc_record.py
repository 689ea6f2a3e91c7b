"""What one RPC took, summed over its calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xuanzang.server.engine.scheduling.call_record import CallRecord
from xuanzang.server.observation.callers import CallerFacts

if TYPE_CHECKING:
    # OpenTelemetry is needed only where it is installed and wanted.
    from xuanzang.server.observation.spans import RpcSpan


@dataclass(slots=True, kw_only=True)
class RpcRecord:
    """Observer of the calls of one RPC: one call, or one for each text of a stream. Belongs to the event loop."""

    request_id: str
    method: str
    """Name of the method, without its service."""
    caller: CallerFacts
    span: RpcSpan | None = None
    """Span of the RPC; None unless it is traced and sampled."""
    model: str | None = None
    """Model of the last call; None before the first."""
    version: int | None = None
    texts: int = 0
    characters: int = 0
    sentences: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    tokenize_seconds: float = 0.0
    """Longest time to split and tokenise the texts of a call."""
    queue_seconds: float = 0.0
    """Longest time that a sentence waited for a worker."""
    encode_seconds: float = 0.0
    """Longest time from a worker's taking a sentence until it had joined the batch."""
    decode_seconds: float = 0.0
    """Longest time of a sentence in a batch, from its first step to its last."""

    @property
    def exemplar(self) -> dict[str, str] | None:
        """Ids of the trace and the span; None unless the RPC is sampled."""
        return None if self.span is None else self.span.exemplar

    def call_ended(self, record: CallRecord) -> None:
        """Add a call that has ended."""
        self.model, self.version = record.model, record.version
        self.texts += record.texts
        self.characters += record.characters
        self.sentences += record.sentences
        self.source_tokens += record.source_tokens
        self.target_tokens += record.target_tokens
        self._add_times(record)
        if self.span is not None:
            self.span.add_call(record)

    def _add_times(self, record: CallRecord) -> None:
        if record.tokenized_at is not None:
            self.tokenize_seconds = max(self.tokenize_seconds, record.tokenized_at - record.began_at)
        for search in record.searches:
            self.queue_seconds = max(self.queue_seconds, search.queue_ended_at - search.submitted_at)
            for each in search.timelines:
                self.encode_seconds = max(self.encode_seconds, each.encoded_at - each.taken_at)
                self.decode_seconds = max(self.decode_seconds, each.finished_at - each.encoded_at)
