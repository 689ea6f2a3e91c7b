"""The calls that callers wait for: run, counted, recorded, and waited for at the end."""

from __future__ import annotations

import asyncio
import logging
import time
from bisect import bisect_left
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from xuanzang.server.engine.calls.call import Emit, RunningCall, SharedResources
from xuanzang.server.engine.calls.jobs import SearchWatch
from xuanzang.server.engine.calls.pivoting import SecondOfTwo
from xuanzang.server.engine.calls.record import Call, CallRecord
from xuanzang.server.engine.errors import (
    DeadlineExceededError,
    DrainingError,
    EngineError,
    InvalidInputError,
    MemoryLimitError,
    OverloadedError,
)
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.models.usage import ModelUsage
from xuanzang.server.engine.scheduling.request import CallContext
from xuanzang.server.engine.types import FinishReason, Hypothesis
from xuanzang.server.metric_series import Histogram
from xuanzang.server.metrics import LENGTH_CLASSES, PIVOT_STEPS, ModelMetrics
from xuanzang.text.traditional import TraditionalWriter

_LOGGER = logging.getLogger(__name__)

_LENGTHS, _LENGTH_BOUNDS = tuple(LENGTH_CLASSES), tuple(LENGTH_CLASSES.values())
# Counters of these failures; all others are errors.
_FAILED_AS: Mapping[str, str] = MappingProxyType(
    {"queue_timeout": "deadline", "deadline": "deadline", "cancelled": "cancelled"}
)


class RunningCalls:
    """Runs calls, and knows how many are in progress. Belongs to one event loop."""

    def __init__(self, shared: SharedResources, *, usage: ModelUsage) -> None:
        self._usage = usage
        self._shared = shared
        self._refuses = False
        self._running = 0
        self._idle = asyncio.Event()
        self._hurried = asyncio.Event()

    async def run(
        self,
        call: Call,
        context: CallContext,
        *,
        first: CallContext | None = None,
        record: CallRecord | None = None,
        writer: TraditionalWriter | None = None,
        emit: Emit | None = None,
        watch: SearchWatch | None = None,
    ) -> list[list[Hypothesis]]:
        """Translate the texts of a call, record it from its beginning to its end, and count it.

        The arguments are those of `RunningCall`, and the context of the first of two models, if there are two; without
        a record to fill in only metrics are written.

        Returns:
            Hypotheses of each text, best first.

        Raises:
            EngineError: The texts are not translated, as `Engine.translate` says.
        """
        record = record or CallRecord()
        if call.first and first:
            return await self._run_both(call, call.first, (first, context), record, writer=writer, emit=emit)
        make = partial(RunningCall, self._shared, call, context, record, writer=writer, emit=emit, watch=watch)
        return await self._counted(make, call, context, record)

    async def _run_both(
        self,
        call: Call,
        first_call: Call,
        contexts: tuple[CallContext, CallContext],
        record: CallRecord,
        *,
        writer: TraditionalWriter | None,
        emit: Emit | None,
    ) -> list[list[Hypothesis]]:
        """Let one model translate, and another its translations; each is in use only while it works."""
        first_context, context = contexts
        first_record = record.first = CallRecord(exemplar=record.exemplar, hold_sentences=record.hold_sentences)
        language = first_call.source_language or first_call.model.source_languages[0]
        self._running += 1
        try:
            with self._usage.kept(context.model):
                with _naming(context.model):
                    async with self._usage.of(context.model, context.deadline):
                        second = SecondOfTwo(
                            self._shared, call, context, record, source_language=language, writer=writer, emit=emit
                        )
                make_first = partial(second.first, first_call, first_context, first_record)
                await self._counted(make_first, first_call, first_context, first_record)
                with _naming(context.model):
                    answer = await self._counted(lambda: second, call, context, record)
                for context, step in zip(contexts, PIVOT_STEPS, strict=True):
                    context.model.metrics.pivoted_requests[step].inc()
                return answer
        finally:
            self._left()

    async def _counted(
        self, make: Callable[[], RunningCall], call: Call, context: CallContext, record: CallRecord
    ) -> list[list[Hypothesis]]:
        model = context.model
        record.begin(model.name, model.version, call.texts)
        self._usage.begin(model)
        self._running += 1
        try:
            if self._refuses and not call.first:
                raise DrainingError("the server is stopping")  # noqa: TRY301 - counted below
            if model.is_resting:
                await self._usage.wake(model, context.deadline)
            answer = await make().run()
            outcome, record.target_tokens = _outcome(model.metrics, answer)
            record.ended_at = time.monotonic()
            _count(model.metrics, call, record, outcome)
        except BaseException as error:
            record.ended_at = time.monotonic()
            reason = _failure_reason(error)
            model.metrics.request_failures[reason].inc()
            _count(model.metrics, call, record, _FAILED_AS.get(reason, "error"))
            raise
        finally:
            self._usage.end(model)
            self._left()
        return answer

    def _left(self) -> None:
        self._running -= 1
        if not self._running:
            self._idle.set()

    async def run_progressively(
        self,
        call: Call,
        context: CallContext,
        *,
        record: CallRecord,
        first: CallContext | None = None,
        writer: TraditionalWriter | None = None,
    ) -> AsyncGenerator[str | list[Hypothesis], None]:
        """Translate a text and yield its beginning as soon as it is final; closing the generator cancels the work.

        Yields:
            Next part of the best translation, and at the end all hypotheses, best first.

        Raises:
            EngineError: The text is not translated, as `Engine.translate` says.
        """
        started: float | None = time.monotonic()
        emitted: asyncio.Queue[str | None] = asyncio.Queue()
        run = self.run(call, context, first=first, record=record, writer=writer, emit=emitted.put_nowait)
        running = asyncio.ensure_future(run)
        running.add_done_callback(lambda _: emitted.put_nowait(None))
        try:
            while (more := await emitted.get()) is not None:
                if started is not None:
                    seconds, started = time.monotonic() - started, None
                    context.model.metrics.first_text_duration_seconds.observe(seconds, record.exemplar)
                yield more
            [hypotheses] = await running
            yield hypotheses
        finally:
            running.cancel()
            # Nothing else would retrieve its error if the caller has gone.
            await asyncio.gather(running, return_exceptions=True)

    def close(self) -> None:
        """Refuse new calls from now on; those in progress go on."""
        self._refuses = True

    def hurry(self) -> None:
        """Let `end` wait no longer."""
        self._hurried.set()

    async def end(self, timeout: float) -> bool:  # noqa: ASYNC109 - calls left by then are answered with an error
        """Wait for the calls in progress, some seconds at most; the rest then fails."""
        if self._running:
            self._idle.clear()
        else:
            self._idle.set()
        waits = [asyncio.create_task(event.wait()) for event in (self._idle, self._hurried)]
        await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        done = not self._running
        if not done:
            _LOGGER.warning("requests cut off", extra={"requests": self._running})
        for request in self._shared.requests:
            request.fail(DrainingError("the server stopped before the translation was done"))
        return done


@contextmanager
def _naming(model: LoadedModel) -> Iterator[None]:
    """Name the second of two models in the errors of its part."""
    name = f"{model.name}/{model.version}, the second of two models"
    try:
        yield
    except InvalidInputError as error:
        raise error.with_violations(
            replace(fault, description=f"{fault.description} ({name})") for fault in error.violations
        ) from None
    except EngineError as error:
        error.args = (f"{name}: {error}",)
        raise


def _failure_reason(error: BaseException) -> str:
    match error:
        case DeadlineExceededError():
            return "queue_timeout" if error.in_queue else "deadline"
        case asyncio.CancelledError():
            return "cancelled"
        case InvalidInputError():
            return "invalid"
        case OverloadedError() | MemoryLimitError():
            return "overloaded"
        case DrainingError():
            return "draining"
    return "backend"


def _outcome(metrics: ModelMetrics, answer: Iterable[Sequence[Hypothesis]]) -> tuple[str, int]:
    """Return how a request is counted that is answered, and the tokens of its best hypotheses; count its terms."""
    outcome, tokens = "eos", 0
    for best, *_ in answer:
        tokens += best.token_count
        # Of texts that ended differently, the deadline of one counts before the limit of another.
        if best.finish_reason is FinishReason.DEADLINE:
            outcome = "deadline"
        elif best.finish_reason is FinishReason.MAX_LENGTH and outcome == "eos":
            outcome = "length"
        if best.lost_placeholders:
            metrics.placeholder_losses.inc()
        for match in best.matches:
            metrics.glossary_matches[match.outcome.value].inc()
    return outcome, tokens


def _count(metrics: ModelMetrics, call: Call, record: CallRecord, outcome: str) -> None:
    """Write the metrics of a request that has ended."""
    seconds = record.ended_at - record.began_at
    metrics.requests[outcome].value += 1
    metrics.request_duration_seconds.observe(seconds, record.exemplar)
    if record.tokenized_at is None:
        return
    values = [(metrics.tokenize_duration_seconds, record.tokenized_at - record.began_at)]
    if record.sentences:
        values += (
            (metrics.request_source_tokens, record.source_tokens),
            (metrics.request_sentences, record.sentences),
            (metrics.request_beam_size, call.options.beam_size),
            (metrics.request_num_hypotheses, call.options.num_hypotheses),
        )
    if record.target_tokens is not None:
        values.append((metrics.request_target_tokens, record.target_tokens))
        length = _LENGTHS[bisect_left(_LENGTH_BOUNDS, record.source_tokens)]
        metrics.answer_duration_seconds[length].observe(seconds, record.exemplar)
    Histogram.observe_each(values)
    if record.constrained_sentences:
        metrics.constrained_sentences.inc(record.constrained_sentences)
