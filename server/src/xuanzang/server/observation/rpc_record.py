"""Cost of one RPC, summed over its calls."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from xuanzang.server.engine.calls.record import CallRecord
from xuanzang.server.observation.callers import CallerFacts

if TYPE_CHECKING:
    # OpenTelemetry is needed only where it is installed and wanted.
    from xuanzang.server.observation.spans import RpcSpan

# Calls, and sentences of a call, whose records are kept until the RPC has ended; larger ones are summed up at once.
_MAX_CALLS = 32
_MAX_SENTENCES = 32
_SIZES = ("texts", "characters", "sentences", "source_tokens", "target_tokens")
_PHASES = ("tokenize", "queue", "encode", "decode")


@dataclass(slots=True, kw_only=True)
class RpcRecord:
    """Observer of the calls of one RPC: one call, or one for each text of a stream.

    Belongs to the event loop until the RPC has ended, and then to the thread that makes lines and spans. So that the
    event loop has little to do, records of calls are only kept at first.
    """

    request_id: str
    method: str
    """Name of the method, without its service."""
    caller: CallerFacts
    span: RpcSpan | None = None
    """Span of the RPC; None unless it is traced and sampled."""
    code: str = ""
    """Name of the status code. It and the next three hold once the RPC has ended."""
    code_number: int = 0
    seconds: float = 0.0
    ended_at: int = 0
    """Time by the calendar, nanoseconds."""
    reason: str | None = None
    """Word for why it was refused; None if it was not."""
    fields: tuple[str, ...] = ()
    """Faulty fields of the request."""
    model: str | None = None
    """Model of the last call, None before the first. It and the following fields hold once the calls are summed up."""
    version: int | None = None
    first_model: str | None = None
    """First of two models of the last call that had two, such as "zh-en/1"; `model` is the second."""
    sums: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SIZES, 0))
    """Sizes of all calls together."""
    longest: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_PHASES, 0.0))
    """Seconds of the longest phases: to split and tokenise the texts of a call and, of a sentence, its wait for a
    worker, the time until it had joined the batch, and its time there from the first step to the last."""
    _calls: list[CallRecord] = field(default_factory=list)

    @property
    def exemplar(self) -> dict[str, str] | None:
        """Ids of the trace and the span; None unless the RPC is sampled."""
        return None if self.span is None else self.span.exemplar

    def call_ended(self, record: CallRecord) -> None:
        """Take an ended call; one that never reached the engine adds nothing."""
        if record.first:
            self.call_ended(record.first)
            self.first_model = f"{record.first.model}/{record.first.version}"
        if not record.model:
            return
        self._calls.append(record)
        if len(self._calls) > _MAX_CALLS or record.sentences > _MAX_SENTENCES:
            self.sum_up()

    def end(self, code: str, code_number: int, seconds: float) -> None:
        """Take down the end of the RPC."""
        self.code, self.code_number, self.seconds = code, code_number, seconds
        self.ended_at = time.time_ns()

    def sum_up(self) -> None:
        """Add the calls that are kept to the sums and to the span."""
        for record in self._calls:
            self._add(record)
            if self.span is not None:
                self.span.add_call(record)
        self._calls.clear()

    def finish(self) -> None:
        """Sum up an RPC that has ended, and end its span."""
        self.sum_up()
        if self.span is not None:
            self.span.end(self.ended_at, self.code, self.code_number, self._attributes())

    def facts(self) -> dict[str, object]:
        """Return the line of the access log of an RPC that is finished."""
        return {
            "time": date_of(self.ended_at),
            "request_id": self.request_id,
            "trace_id": None if self.span is None else self.span.exemplar["trace_id"],
            "method": self.method,
            "code": self.code,
            "reason": self.reason,
            "fields": list(self.fields),
            "seconds": round(self.seconds, 6),
            **{f"{phase}_seconds": round(seconds, 6) for phase, seconds in self.longest.items()},
            "model": self.model,
            "version": self.version,
            "first_model": self.first_model,
            **self.sums,
            "caller_kind": self.caller.kind,
            "caller_key": self.caller.key,
            "caller_address": self.caller.address,
        }

    def _attributes(self) -> dict[str, str | int | float]:
        """Return the attributes of the span."""
        attributes: dict[str, str | int | float] = {
            "xuanzang.request_id": self.request_id,
            "xuanzang.caller": self.caller.kind,
            **{f"xuanzang.{size}": number for size, number in self.sums.items()},
        }
        if self.model is not None and self.version is not None:
            attributes |= {"xuanzang.model": self.model, "xuanzang.version": self.version}
        if self.first_model is not None:
            attributes["xuanzang.first_model"] = self.first_model
        return attributes

    def _add(self, record: CallRecord) -> None:
        self.model, self.version = record.model, record.version
        for size in _SIZES:
            self.sums[size] += getattr(record, size) or 0
        if record.tokenized_at is not None:
            self._lasted("tokenize", record.tokenized_at - record.began_at)
        for search in record.searches:
            self._lasted("queue", search.queue_ended_at - search.submitted_at)
            for each in search.timelines:
                self._lasted("encode", each.encoded_at - each.taken_at)
                self._lasted("decode", each.finished_at - each.encoded_at)

    def _lasted(self, phase: str, seconds: float) -> None:
        self.longest[phase] = max(self.longest[phase], seconds)


def date_of(nanoseconds: int) -> str:
    """Write a time by the calendar, in nanoseconds, as logs have it."""
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC).isoformat(timespec="milliseconds")
