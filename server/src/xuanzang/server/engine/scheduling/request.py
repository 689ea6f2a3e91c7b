"""Sentences that are submitted together, on their way through the queue and the workers, and back to the event loop."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, NamedTuple, Protocol

from xuanzang.server.engine.decoding.decoder import BatchShape
from xuanzang.server.engine.decoding.hypotheses import Sentence, TargetHypothesis
from xuanzang.server.engine.errors import DrainingError
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.forecast import predicted_cost, predicted_target_tokens
from xuanzang.server.engine.threads import LoopInbox
from xuanzang.server.engine.types import NO_CALLER, CallerId
from xuanzang.text.codec import TextCodec

# Hypotheses of a sentence that has one place in a batch, as many as by default, and continuations to draw from.
_BEAM_OF_PLACE = 4
_CANDIDATES_OF_PLACE = 64
# Source tokens of such a sentence: attention over more takes longer than the rest of an encoder run.
_SOURCE_OF_PLACE = 128

AbandonReason = Literal["deadline", "cancelled", "error"]
"""Why a request is given up."""


class FlowKey(NamedTuple):
    """Owner of a line in the queue: a caller, with a separate line for each model that has limits."""

    caller: CallerId
    limited: LoadedModel | None = None
    """Model with limits; None for all others together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """The scheduler's knowledge of a call: its caller, model and deadline."""

    model: LoadedModel
    caller: CallerId = NO_CALLER
    """Identity of the caller: callers take turns."""
    source_language: str = ""
    """Language that the model reads, or empty for its first."""
    target_language: str = ""
    """Language that the model writes, or empty for its first."""
    deadline: float = math.inf
    """On the clock of `time.monotonic`."""
    cutoff: float = math.inf
    """Time to answer with the best result so far, on the same clock."""
    flow: FlowKey = field(init=False)
    """Line that the sentences wait in."""
    useful_until: float = field(init=False)
    """Latest time to begin sentences, on the same clock."""
    accepts_part: bool = field(init=False)
    """True if translations that time has cut short are of use, too."""

    def __post_init__(self) -> None:
        """Derive what admission asks for again and again."""
        limits = self.model.limits
        limited = self.model if limits.workers or limits.memory_bytes else None
        object.__setattr__(self, "flow", FlowKey(self.caller, limited))
        object.__setattr__(self, "useful_until", min(self.deadline, self.cutoff))
        object.__setattr__(self, "accepts_part", not math.isinf(self.cutoff))

    @property
    def codec(self) -> TextCodec:
        """Codec between the languages."""
        return self.model.codec_between(self.source_language, self.target_language)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceTimeline:
    """Times of work on a sentence, and the size of its batches. Times are those of `time.monotonic`."""

    queued_at: float
    taken_at: float
    """Time when a worker took it from the queue to encode it."""
    encoded_at: float
    """Time when it had joined the batch: encoded, with all others of the same step."""
    finished_at: float
    """Time when it left the batch."""
    worker: int
    """Number of the worker, from 0."""
    batch_size: int
    """Sentences of the model that the worker decoded when it had joined, itself counted."""
    steps: int
    """Decoder steps until it left the batch, those of earlier searches counted."""
    searches: int = 1
    """Searches made: more than 1 if one found a repetition, or left out a term or an amount."""
    terms_required: bool = False
    """True if the best hypothesis is of a search that required the terms."""
    is_kept: bool = False
    """True if nothing was searched, because the answer was kept or another call was waiting for it."""
    from_lexicon: bool = False
    """True if the translation is the lexicon's."""
    max_target_length: int = 0
    """Maximum target tokens that were in effect, eos counted."""
    source_with_terms: str = ""
    """The sentence as the model read it, if translations were put in the place of terms."""


class Found(NamedTuple):
    """The result of a search, as ids."""

    hypotheses: Sequence[TargetHypothesis]
    """Best first; empty if time ended before the first step."""
    timeline: SentenceTimeline
    is_cut: bool = False
    """True if time ended the search."""


class Receiver(Protocol):
    """Takes what the workers find for the sentences of a request; an error ends the request."""

    def next(self, position: int, found: Found) -> Callable[[], None]:
        """Process the result of a sentence, in the event loop or a pool; return the remaining work for the loop."""

    def on_prefix(self, position: int, target_ids: Sequence[int]) -> None:
        """Take the beginning of the best hypothesis that this search will not change, in the event loop."""


@dataclass(slots=True, eq=False, kw_only=True)
class QueuedSentence:
    """A sentence of a request. The scheduler owns it while it waits, then the worker that took it."""

    request: Request
    position: int
    """Position among the sentences of the request."""
    sentence: Sentence
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
    number: int = 0
    """Number in the order of arrival; set when it is queued."""
    tier: int = 0
    """Number of its tier; set when it joins, as all fields below."""
    taken_at: float = 0.0
    encoded_at: float = 0.0
    batch_size: int = 0
    """Sentences of the model that the worker decoded then, itself counted."""
    first_step: int = 0
    """Number of the worker's step before its first."""
    reported_tokens: int = 0
    """Tokens at its beginning that its caller has read."""
    steps: int = 0
    """Steps that it took; set when it leaves, as all fields below."""
    finished_at: float = 0.0
    is_whole: bool = False
    """False if it was given up."""

    @property
    def is_long(self) -> bool:
        """True if its encoder run takes longer than that of short sentences with as many tokens."""
        return self.source_tokens > _SOURCE_OF_PLACE

    @property
    def worked(self) -> int:
        """Tokens that have gone through the network when it left, which may be more than predicted."""
        return self.source_tokens + (self.cost - self.source_tokens) * self.steps // self.target_tokens

    def timeline(self, worker: int) -> SentenceTimeline:
        """Return when a worker worked on it, once it has left."""
        return SentenceTimeline(
            queued_at=self.request.submitted_at,
            taken_at=self.taken_at,
            encoded_at=self.encoded_at,
            finished_at=self.finished_at,
            worker=worker,
            batch_size=self.batch_size,
            steps=self.steps,
            max_target_length=self.sentence.options.max_target_length,
        )


def places_of(shape: BatchShape, source_tokens: int, *, edits_follow_tokens: bool) -> int:
    """Return the places that a sentence takes in a batch.

    Args:
        shape: Shape of its batch.
        source_tokens: Source ids, end token counted.
        edits_follow_tokens: True if its options look at all tokens of each hypothesis in each step.
    """
    wide = max(-(-shape.beam_size // _BEAM_OF_PLACE), -(-shape.candidate_count // _CANDIDATES_OF_PLACE))
    return wide * -(-source_tokens // _SOURCE_OF_PLACE) * (1 + edits_follow_tokens)


class Request:
    """Sentences that are searched together, and a future that is done when all are found.

    Belongs to the event loop that made it. Workers only call `deliver`, `report_prefix` and `fail`, which hand over to
    the loop, and read `abandoned`, which goes from None to a reason once; the scheduler sets `started` under its lock.
    """

    def __init__(
        self,
        context: CallContext,
        sentences: Sequence[Sentence],
        receiver: Receiver,
        *,
        reads_along: bool = False,
        pool: Executor | None = None,
    ) -> None:
        """Make a request of the running event loop.

        Args:
            context: Context of the call.
            sentences: Sentences to search, at least one.
            receiver: Receiver of the results.
            reads_along: Whether it takes beginnings of sentences as well, which makes steps single ones.
            pool: Threads for the receiver's long work on results; None for the event loop.
        """
        self.context, self.model, self.flow = context, context.model, context.flow
        self.useful_until, self.accepts_part = context.useful_until, context.accepts_part
        self.cutoff = context.cutoff
        """Time to answer with the best result so far, on the clock of `time.monotonic`."""
        self.cost = 0
        """Predicted tokens of all sentences."""
        self.longest = 0
        """Predicted target tokens of the longest sentence."""
        self.places = 0
        """Places that all sentences take in batches."""
        self.submitted_at = time.monotonic()
        self.sentences: Sequence[QueuedSentence] = [self._queued(*each) for each in enumerate(sentences)]
        self.estimate = 0.0
        """Seconds from submission to the results, as estimated then; 0 before anything has been measured."""
        self.abandoned: AbandonReason | None = None
        self.started = False
        self.reads_along = reads_along
        self._receiver, self._pool, self._left = receiver, pool, len(sentences)
        self._inbox = LoopInbox.of_running_loop()
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def _queued(self, position: int, sentence: Sentence) -> QueuedSentence:
        """Return a sentence for the queue, and count its places."""
        options, target_tokens = sentence.options, predicted_target_tokens(sentence)
        shape = BatchShape.of(options.decoding)
        queued = QueuedSentence(
            request=self,
            position=position,
            sentence=sentence,
            source_tokens=len(sentence.source_ids),
            cost=predicted_cost(sentence, target_tokens),
            target_tokens=target_tokens,
            cache_bytes=self.model.cache_bytes_of(sentence),
            shape=shape,
            places=places_of(shape, len(sentence.source_ids), edits_follow_tokens=options.edits_follow_tokens),
        )
        self.cost += queued.cost
        self.longest = max(self.longest, target_tokens)
        self.places += queued.places
        return queued

    def deliver(self, position: int, found: Found) -> None:
        """Hand over the result of a sentence, from any thread."""

        def take() -> None:
            self._receiver.next(position, found)()

        if self._pool is None:
            self._inbox.leave(self._finish, take)
            return
        try:
            self._pool.submit(self._process, position, found)
        except DrainingError as error:
            self.fail(error)

    def report_prefix(self, position: int, target_ids: Sequence[int]) -> None:
        """Hand over the beginning of a sentence, from any thread."""
        self._inbox.leave(self._attempt, partial(self._receiver.on_prefix, position, target_ids))

    def fail(self, error: Exception) -> None:
        """End the request with an error, unless it is answered already, from any thread."""
        self._inbox.leave(self._end, error)

    def close(self) -> None:
        """Let go of the sentences: they have their request, so that each would keep the other."""
        self.sentences = ()

    def _process(self, position: int, found: Found) -> None:
        """Process a result in a thread of the pool; its fault ends its call alone, as in the event loop."""
        if self.done.done():
            return
        try:
            finish = self._receiver.next(position, found)
        except Exception as error:  # noqa: BLE001 - the fault of one sentence ends its call alone
            self.fail(error)
        else:
            self._inbox.leave(self._finish, finish)

    def _finish(self, work: Callable[[], None]) -> None:
        """Do the work that a sentence leaves for the event loop."""
        self._attempt(work)
        self._left -= 1
        if not self._left:
            self._end()

    def _attempt(self, work: Callable[[], None]) -> None:
        if self.done.done():
            return
        try:
            work()
        except Exception as error:  # noqa: BLE001 - as above
            self._end(error)

    def _end(self, error: Exception | None = None) -> None:
        if self.done.done():
            return
        if error is None:
            self.done.set_result(None)
        else:
            self.done.set_exception(error)
