"""The calls that callers wait for: run, counted, recorded, and waited for at the end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractContextManager, nullcontext

from xuanzang.server.engine.calls.call import Call, Emit, SharedResources
from xuanzang.server.engine.calls.journal import Journal
from xuanzang.server.engine.calls.request_metrics import CountedOutcome, count_answer
from xuanzang.server.engine.errors import DrainingError
from xuanzang.server.engine.scheduling.requests.call_record import CallObserver, CallRecord
from xuanzang.server.engine.scheduling.requests.request import CallContext
from xuanzang.server.engine.types import DecodingOptions, Hypothesis

_LOGGER = logging.getLogger(__name__)


class RunningCalls:
    """Runs calls, and knows how many are in progress. Belongs to one event loop."""

    def __init__(self, shared: SharedResources) -> None:
        """Run nothing yet.

        Args:
            shared: Parts of the engine that calls share.
        """
        self._shared = shared
        self._progress = _Progress()
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
        metrics = context.model.metrics
        with CountedOutcome(metrics, exemplar=context.exemplar), self._progress, _recording(context, texts) as record:
            call = Call(self._shared, context, options, emit=emit, journal=journal, record=record)
            answer = await call.run(texts)
            target_tokens = count_answer(metrics, answer)
            if record is not None:
                record.target_tokens = target_tokens
        return answer

    async def run_progressively(
        self, text: str, context: CallContext, options: DecodingOptions, *, journal: Journal | None = None
    ) -> AsyncGenerator[str | list[Hypothesis], None]:
        """Translate a text and yield its beginning as soon as it is certain; closing the generator cancels the work.

        Args:
            text: Text in the source language.
            context: Model, caller and deadline.
            options: Options within the ranges of the API.
            journal: Receiver of records of the searches.

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
        self._progress.refuses = True

    def hurry(self) -> None:
        """Let `end` wait no longer."""
        self._hurried.set()

    async def end(self, timeout: float) -> bool:  # noqa: ASYNC109 - calls left by then are answered with an error
        """Wait for the calls in progress; what is left after the time fails.

        Args:
            timeout: Maximum wait, seconds.

        Returns:
            Whether all have ended by themselves.
        """
        waits = [asyncio.create_task(event.wait()) for event in (self._progress.idle, self._hurried)]
        await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        done = not self._progress.calls
        if not done:
            _LOGGER.warning("requests cut off", extra={"requests": self._progress.calls})
        for request in self._shared.requests:
            request.fail(DrainingError("the server stopped before the translation was done"))
        return done


class _Progress:
    """Calls in progress, each from entering to leaving; one that may not begin cannot enter."""

    def __init__(self) -> None:
        self.refuses = False
        self.calls = 0
        self.idle = asyncio.Event()
        self.idle.set()

    def __enter__(self) -> None:
        if self.refuses:
            raise DrainingError("the server is stopping")
        self.calls += 1
        self.idle.clear()

    def __exit__(self, *_: object) -> None:
        self.calls -= 1
        if not self.calls:
            self.idle.set()


_UNRECORDED = nullcontext()


def _recording(context: CallContext, texts: Sequence[str]) -> AbstractContextManager[CallRecord | None]:
    """Return the record of a call while it is in progress, if anybody asks for it."""
    model, observer = context.model, context.observer
    if observer is None:
        return _UNRECORDED
    characters = sum(map(len, texts))
    record = CallRecord(model=model.name, version=model.version, texts=len(texts), characters=characters)
    return _Recording(record, observer)


class _Recording:
    """A record, which its observer gets when the call has ended."""

    def __init__(self, record: CallRecord, observer: CallObserver) -> None:
        self._record, self._observer = record, observer

    def __enter__(self) -> CallRecord:
        return self._record

    def __exit__(self, *_: object) -> None:
        self._record.ended_at = time.monotonic()
        self._observer.call_ended(self._record)
