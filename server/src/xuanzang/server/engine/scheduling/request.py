"""Sentences that are submitted together, on their way through the queue and the workers, and back to the event loop."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import math
import os
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVarTuple

from xuanzang.server.engine.decoding.decoder import BatchShape
from xuanzang.server.engine.decoding.hypotheses import Sentence, TargetHypothesis
from xuanzang.server.engine.scheduling.call import CallContext, SentenceTimeline
from xuanzang.server.engine.scheduling.forecast import predicted_cost, predicted_target_tokens
from xuanzang.server.engine.scheduling.rendering import SentenceRenderer
from xuanzang.server.engine.types import FinishReason, Hypothesis

Ts = TypeVarTuple("Ts")

_LOGGER = logging.getLogger(__name__)

# Hypotheses of a sentence that has one place in a batch, as many as by default, and continuations to draw from.
_BEAM_OF_PLACE = 4
_CANDIDATES_OF_PLACE = 64
# Unlike those of os, and asyncio's own way, they do not give the interpreter's lock away: a thread that wakes the loop
# would get it back only when the loop has dealt with the call and all that comes of it.
_SYSTEM = ctypes.PyDLL(None)
_BUFFER = ctypes.create_string_buffer(4096)

AbandonReason = Literal["deadline", "cancelled", "error"]
"""Why a request is given up."""


class PlannedSearch(NamedTuple):
    """A sentence to search, and the renderer of its hypotheses."""

    sentence: Sentence
    renderer: SentenceRenderer
    lexicon_ids: tuple[int, ...] = ()
    """The whole translation, if the lexicon of the bundle has it; see `expansion.lexicon_first`."""


class SentenceResult(NamedTuple):
    """Hypotheses of one sentence, best first, as ids and as text, and when they were found."""

    found: Sequence[TargetHypothesis]
    hypotheses: Sequence[Hypothesis]
    timeline: SentenceTimeline


class SearchWatch(Protocol):
    """Has the searches of a call recorded, for an explanation."""

    def begin(self, searches: Sequence[PlannedSearch]) -> None:
        """Look at the sentences before they are searched.

        Raises:
            InvalidInputError: They cannot be explained.
        """

    def end(self, searches: Sequence[PlannedSearch], results: Sequence[SentenceResult]) -> None:
        """Take what was found, in the same order."""


class SentenceListener(Protocol):
    """Receives the results of single sentences in the event loop."""

    def on_prefix(self, position: int, text: str) -> None:
        """Take the beginning of a sentence that will not change, more than the last time."""

    def on_result(self, position: int, result: SentenceResult) -> None:
        """Take the result of a sentence."""


@dataclass(slots=True, eq=False, kw_only=True)
class QueuedSentence:
    """A sentence of a request. The scheduler owns it while it waits, then the worker that took it."""

    request: Request
    position: int
    """Position among the sentences of the request."""
    sentence: Sentence
    renderer: SentenceRenderer
    source_tokens: int
    """Source ids, end token counted."""
    cost: int
    """Predicted tokens."""
    target_tokens: int
    """Predicted target tokens."""
    cache_bytes: int
    """Memory for keys and values that it takes at most."""
    shape: BatchShape
    """Shape of the batches that it may join."""
    places: int
    """Places that it takes in a batch: one, or more if it makes steps longer than others do."""
    queued_at: float
    number: int = 0
    """Number in the order of arrival; set when it is queued."""
    tier: int = 0
    """Number of the tier in whose batches it is decoded; set when it joins."""
    goes_first_at: float = math.inf
    """Time from which it goes before others of its caller, so that its deadline can be met; constant while it waits."""

    def cost_of(self, steps: int) -> int:
        """Return the part of the predicted tokens that has been worked on."""
        return self.worked(min(steps, self.target_tokens))

    def worked(self, steps: int) -> int:
        """Return the tokens that have gone through the network after some steps, which may be more than predicted."""
        return self.source_tokens + (self.cost - self.source_tokens) * steps // self.target_tokens

    def render(
        self, found: Sequence[TargetHypothesis], *, cut: FinishReason, timeline: SentenceTimeline
    ) -> SentenceResult:
        """Make the result of the sentence, in the thread of a worker.

        Args:
            found: Hypotheses, best first.
            cut: Why those of them ended that the model did not end.
            timeline: When they were found.
        """
        hypotheses = [self.renderer.render(self.sentence, hypothesis, cut=cut) for hypothesis in found]
        return SentenceResult(found, hypotheses, timeline)


def places_of(shape: BatchShape, *, edits_follow_tokens: bool) -> int:
    """Return the places that a sentence takes in a batch of a shape.

    Args:
        shape: Shape of its batch.
        edits_follow_tokens: Whether its options look at all tokens of each hypothesis in each step.
    """
    wide = max(-(-shape.beam_size // _BEAM_OF_PLACE), -(-shape.candidate_count // _CANDIDATES_OF_PLACE))
    return 2 * wide if edits_follow_tokens else wide


class DoneSentence(NamedTuple):
    """A sentence that has left its batch."""

    queued: QueuedSentence
    cost: int
    """Tokens that went through the network."""
    seconds: float
    """Time from its joining a batch to its last step."""
    target_tokens: int
    """Steps that were taken in this time."""
    is_whole: bool = True
    """False if it was given up."""


class LoopInbox:
    """Calls for one event loop, which it makes in the order in which they are left, many in one turn."""

    _of_loops: ClassVar[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopInbox]] = weakref.WeakKeyDictionary()

    @classmethod
    def of_running_loop(cls) -> LoopInbox:
        """Return the inbox of the running loop, which is made with the first call."""
        loop = asyncio.get_running_loop()
        if (inbox := cls._of_loops.get(loop)) is None:
            inbox = cls._of_loops[loop] = cls(loop)
        return inbox

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the loop look for calls; `of_running_loop` calls this."""
        # The loop holds the inbox, and goes with it.
        self._loop = weakref.ref(loop)
        self._calls: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._woken = False
        self._read_end, self._write_end = os.pipe()
        for end in (self._read_end, self._write_end):
            os.set_blocking(end, False)
            weakref.finalize(self, os.close, end).atexit = False  # threads may write to the last
        loop.add_reader(self._read_end, self._make_calls)

    def leave(self, callback: Callable[[*Ts], None], *arguments: *Ts) -> None:
        """Leave a call, from any thread; it is dropped if the loop has ended, and with it all that could await it."""
        loop = self._loop()
        if loop is None or loop.is_closed():
            _LOGGER.warning("result dropped: the event loop is closed")
            return
        self._calls.append((callback, arguments))
        # Two threads may both write, which does no harm.
        if not self._woken:
            self._woken = True
            _SYSTEM.write(self._write_end, b"\0", 1)

    def _make_calls(self) -> None:
        _SYSTEM.read(self._read_end, _BUFFER, len(_BUFFER))
        # What is left from now on wakes the loop again.
        self._woken = False
        while self._calls:
            callback, arguments = self._calls.popleft()
            try:
                callback(*arguments)
            except Exception as error:  # noqa: BLE001 - the calls of others must be made
                self._report(error)

    def _report(self, error: Exception) -> None:
        if loop := self._loop():
            loop.call_exception_handler({"message": "a call left for the event loop failed", "exception": error})


class Request:
    """Sentences to search for one call, and a future for their results.

    Belongs to the event loop that made it. Workers only call `deliver`, `report_prefix` and `fail`, which hand over to
    the loop, and read `abandoned`, which goes from None to a reason once; the scheduler sets `started` under its lock.
    """

    def __init__(
        self,
        context: CallContext,
        searches: Sequence[PlannedSearch],
        *,
        listener: SentenceListener | None = None,
        on_result: Callable[[int, SentenceResult], None] | None = None,
    ) -> None:
        """Make a request of the running event loop.

        Args:
            context: Context of the call.
            searches: Sentences with their renderers, at least one.
            listener: Receiver of the results of single sentences, and of their beginnings.
            on_result: Function that is called with the position and the result of each sentence.
        """
        self.context = context
        self.model = context.model
        """Model that translates."""
        self.flow = context.flow
        self.cutoff = context.cutoff
        """Time at which the best found so far is the answer, on the clock of `time.monotonic`."""
        self.useful_until = context.useful_until
        """Time after which its sentences need not be begun, on the clock of `time.monotonic`."""
        self.cost = 0
        """Predicted tokens of all sentences."""
        self.longest = 0
        """Predicted target tokens of the longest sentence."""
        self.submitted_at = time.monotonic()
        self.sentence_count = len(searches)
        self.places = 0
        """Places that all sentences take in batches."""
        self.sentences = self._queued(searches)
        self.estimate: float | None = None
        """Seconds from submission to the results, as estimated then; None before anything has been measured."""
        self.abandoned: AbandonReason | None = None
        self.started = False
        self._listener, self._on_result = listener, on_result
        self.has_listener = listener is not None
        """True if prefixes are to be reported."""
        self._inbox = LoopInbox.of_running_loop()
        self._results: dict[int, SentenceResult] = {}
        self.done: asyncio.Future[list[SentenceResult]] = asyncio.get_running_loop().create_future()
        """Results, in the order of the sentences."""

    def _queued(self, searches: Sequence[PlannedSearch]) -> Sequence[QueuedSentence]:
        """Return the sentences of searches, and count what they take."""
        sentences = []
        for position, (sentence, renderer, _) in enumerate(searches):
            target_tokens = predicted_target_tokens(sentence)
            cost = predicted_cost(sentence, target_tokens)
            self.cost += cost
            self.longest = max(self.longest, target_tokens)
            shape = BatchShape.of(sentence.options.decoding)
            places = places_of(shape, edits_follow_tokens=sentence.options.edits_follow_tokens)
            self.places += places
            queued = QueuedSentence(
                request=self,
                position=position,
                sentence=sentence,
                renderer=renderer,
                source_tokens=len(sentence.source_ids),
                cost=cost,
                target_tokens=target_tokens,
                cache_bytes=self.model.cache_bytes_of(sentence),
                shape=shape,
                places=places,
                queued_at=self.submitted_at,
            )
            sentences.append(queued)
        return sentences

    @property
    def timelines(self) -> list[SentenceTimeline]:
        """Timelines of the sentences with a result, in the order of the text."""
        return [self._results[position].timeline for position in sorted(self._results)]

    def deliver(self, position: int, result: SentenceResult) -> None:
        """Hand over the result of a sentence, from any thread."""
        self._inbox.leave(self._keep, position, result)

    def report_prefix(self, position: int, target_ids: Sequence[int]) -> None:
        """Hand over the beginning of a sentence that will not change, from any thread."""
        if self._listener:
            self._inbox.leave(self._keep_prefix, position, self.context.codec.decode(target_ids))

    def fail(self, error: Exception) -> None:
        """End the request with an error, unless it is answered already, from any thread."""
        self._inbox.leave(self._keep_error, error)

    def close(self) -> None:
        """Let go of the sentences: they have their request, so that each would keep the other."""
        self.sentences = ()

    def _keep_prefix(self, position: int, text: str) -> None:
        try:
            if self._listener:
                self._listener.on_prefix(position, text)
        except Exception as error:  # noqa: BLE001 - a fault of its caller, who gets it
            self._keep_error(error)

    def _keep(self, position: int, result: SentenceResult) -> None:
        self._results[position] = result
        try:
            if self._on_result:
                self._on_result(position, result)
            if self._listener:
                self._listener.on_result(position, result)
        except Exception as error:  # noqa: BLE001 - as above
            self._keep_error(error)
        if len(self._results) == self.sentence_count and not self.done.done():
            self.done.set_result(list(map(self._results.__getitem__, range(self.sentence_count))))

    def _keep_error(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
