"""The calls that callers wait for: run, counted, recorded, and waited for at the end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Iterable, Sequence

from xuanzang.server.engine.calls.call import Call, Emit, SharedResources
from xuanzang.server.engine.calls.journal import Journal
from xuanzang.server.engine.errors import (
    DeadlineExceededError,
    DrainingError,
    InvalidInputError,
    MemoryLimitError,
    OverloadedError,
)
from xuanzang.server.engine.models.version_states import ModelUsage
from xuanzang.server.engine.scheduling.call import CallContext, CallRecord
from xuanzang.server.engine.types import DecodingOptions, FinishReason, Hypothesis
from xuanzang.server.metrics import ModelMetrics

_LOGGER = logging.getLogger(__name__)


class RunningCalls:
    """Runs calls, and knows how many are in progress. Belongs to one event loop."""

    def __init__(self, shared: SharedResources, *, usage: ModelUsage) -> None:
        self._usage = usage
        self._shared = shared
        self._refuses = False
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._hurried = asyncio.Event()

    async def run(
        self,
        texts: Sequence[str],
        context: CallContext,
        options: DecodingOptions,
        *,
        emit: Emit | None = None,
        journal: Journal | None = None,
    ) -> list[list[Hypothesis]]:
        """Translate texts, and count the call from its beginning to its end.

        Args:
            texts: Texts in the source language.
            context: Model, caller and deadline.
            options: Options within the ranges of the API.
            emit: Receiver of the translation bit by bit, for a call with one text.
            journal: Receiver of records of the searches.

        Returns:
            Hypotheses of each text, best first.

        Raises:
            EngineError: The texts are not translated, as `Engine.translate` says.
        """
        model, metrics, record = context.model, context.model.metrics, None
        began = time.monotonic()
        self._usage.begin(model)
        try:
            if self._refuses:
                raise DrainingError("the server is stopping")  # noqa: TRY301 - counted below
            if context.observer is not None:
                characters = sum(map(len, texts))
                record = CallRecord(model=model.name, version=model.version, texts=len(texts), characters=characters)
            self._running += 1
            self._idle.clear()
            try:
                call = Call(self._shared, context, options, emit=emit, journal=journal, record=record)
                answer = await call.run(texts)
            finally:
                self._running -= 1
                if not self._running:
                    self._idle.set()
            target_tokens = _count_answer(metrics, answer)
            if record is not None:
                record.target_tokens = target_tokens
        except BaseException as error:
            _count_failure(metrics, _failure_reason(error))
            raise
        finally:
            now = time.monotonic()
            metrics.request_duration_seconds.observe(now - began, context.exemplar)
            if record is not None and context.observer is not None:
                record.ended_at = now
                context.observer.call_ended(record)
            self._usage.end(model)
        return answer

    async def run_progressively(
        self, text: str, context: CallContext, options: DecodingOptions, *, journal: Journal | None = None
    ) -> AsyncGenerator[str | list[Hypothesis], None]:
        """Translate a text and yield its beginning as soon as it is certain; closing the generator cancels the work.

        Yields:
            Next part of the best translation, and at the end all hypotheses, best first.

        Raises:
            EngineError: The text is not translated, as `Engine.translate_progressively` says.
        """
        started: float | None = time.monotonic()
        emitted: asyncio.Queue[str | None] = asyncio.Queue()
        running = asyncio.ensure_future(self.run([text], context, options, emit=emitted.put_nowait, journal=journal))
        running.add_done_callback(lambda _: emitted.put_nowait(None))
        try:
            while (more := await emitted.get()) is not None:
                if started is not None:
                    seconds, started = time.monotonic() - started, None
                    context.model.metrics.first_text_duration_seconds.observe(seconds, context.exemplar)
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
        """Wait for the calls in progress; what is left after the time fails.

        Args:
            timeout: Maximum wait, seconds.
        """
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


def _count_failure(metrics: ModelMetrics, reason: str) -> None:
    metrics.request_failures[reason].inc()
    finish_reason = {"queue_timeout": "deadline"}.get(reason, reason)
    metrics.requests[finish_reason if finish_reason in ("deadline", "cancelled") else "error"].inc()


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


def _count_answer(metrics: ModelMetrics, answer: Iterable[Sequence[Hypothesis]]) -> int:
    """Count a request that is answered.

    Args:
        metrics: Metrics of the model that translated.
        answer: Hypotheses of each text, best first.

    Returns:
        Target tokens of the best hypotheses, end tokens counted.
    """
    tokens, label = 0, "eos"
    for best, *_ in answer:
        tokens += best.token_count
        # Of texts that ended differently, the deadline of one counts before the limit of another.
        if best.finish_reason is FinishReason.DEADLINE:
            label = "deadline"
        elif best.finish_reason is FinishReason.MAX_LENGTH and label == "eos":
            label = "length"
        for match in best.matches:
            metrics.glossary_matches[match.outcome.value].inc()
    metrics.requests[label].inc()
    metrics.request_target_tokens.observe(tokens)
    return tokens
