"""Spans of one RPC: facts and times recorded meanwhile, which the exporter turns into spans."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from opentelemetry.trace import SpanContext, TraceFlags, TraceState
from opentelemetry.trace import format_span_id as span_hex
from opentelemetry.trace import format_trace_id as trace_hex

from xuanzang.server.engine.calls.record import CallRecord, SearchRecord
from xuanzang.server.engine.scheduling.request import SentenceTimeline

MAX_SENTENCES = 32
"""Sentences of an RPC with spans of their own; the others of a call are one span together."""

# Statuses that are faults of the server, as OpenTelemetry's conventions for RPCs have them.
_SERVER_FAULTS = frozenset({"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"})

Attributes = Mapping[str, str | int | float]


class Part(NamedTuple):
    """A part of an RPC. Times are on the clock of `time.monotonic`."""

    name: str
    began_at: float
    ended_at: float
    attributes: tuple[tuple[str, int], ...]


@dataclass(slots=True, kw_only=True, eq=False)
class RpcSpan:
    """The span of an RPC that is sampled, and its parts."""

    context: ClassVar = SpanContext(1, 1, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    """Context that tells the SDK's queue that it is sampled; not its ids."""

    name: str
    trace_id: int
    span_id: int
    trace_state: TraceState | None
    parent_id: int | None
    attributes: Attributes
    """Attributes; all of them once it has ended."""
    export: Callable[[RpcSpan], None]
    fault: str = ""
    """Name of the status code, if it is a fault of the server."""
    parts: list[Part] = field(default_factory=list)
    """Parts of the calls so far."""
    began_at: int = field(default_factory=time.time_ns)
    ended_at: int = 0
    """Nanoseconds of the clock of `time.time`, as is `began_at`."""
    offset: int = field(init=False)
    """Nanoseconds to add to the times of the parts."""
    exemplar: dict[str, str] = field(init=False)
    """Labels of exemplars."""
    _sentences_left: int = MAX_SENTENCES

    def __post_init__(self) -> None:
        self.offset = self.began_at - time.monotonic_ns()
        self.exemplar = {"trace_id": trace_hex(self.trace_id), "span_id": span_hex(self.span_id)}

    def add_call(self, record: CallRecord) -> None:
        """Take the parts of a call; of a stream, those of its first calls."""
        if self._sentences_left:
            self.parts += _parts(record, self._sentences_left)
            self._sentences_left = max(0, self._sentences_left - max(1, record.sentences))

    def end(self, ended_at: int, code: str, number: int, attributes: Attributes) -> None:
        """End the span at a time of `time.time_ns`, with the name and number of a status, and export all."""
        self.ended_at = ended_at
        self.attributes = {**self.attributes, "rpc.grpc.status_code": number, **attributes}
        # The message of the status may quote the caller.
        self.fault = code if code in _SERVER_FAULTS else ""
        self.export(self)


def _parts(record: CallRecord, max_sentences: int) -> Iterator[Part]:
    if record.tokenized_at is not None:
        sizes = (("xuanzang.characters", record.characters), ("xuanzang.sentences", record.sentences))
        yield Part("tokenize", record.began_at, record.tokenized_at, sizes)
    first = 0
    for search in record.searches:
        sentences = ("xuanzang.sentences", search.sentences)
        yield Part("queue", search.submitted_at, search.queue_ended_at, (sentences,))
        yield from _sentence_parts(search, first, max_sentences)
        first += search.sentences
        max_sentences = max(0, max_sentences - search.sentences)


def _sentence_parts(search: SearchRecord, first: int, max_sentences: int) -> Iterator[Part]:
    for position, each in enumerate(search.timelines[:max_sentences], first):
        place = (
            ("xuanzang.sentence", position),
            ("xuanzang.worker", each.worker),
            ("xuanzang.batch_size", each.batch_size),
        )
        yield Part("encode", each.taken_at, each.encoded_at, place)
        yield Part("decode", each.encoded_at, each.finished_at, (*place, ("xuanzang.steps", each.steps)))
    if others := search.timelines[max_sentences:]:
        yield _summary(others)


def _summary(timelines: Sequence[SentenceTimeline]) -> Part:
    attributes = (
        ("xuanzang.sentences", len(timelines)),
        ("xuanzang.max_batch_size", max(each.batch_size for each in timelines)),
        ("xuanzang.steps", sum(each.steps for each in timelines)),
    )
    began_at = min(each.taken_at for each in timelines)
    return Part("other sentences", began_at, max(each.finished_at for each in timelines), attributes)
