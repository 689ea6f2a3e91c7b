"""Requests on their way through the queue and the workers."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, Required, TypedDict, TypeVarTuple

from xuanzang.server.engine.decoding.batch import BatchShape
from xuanzang.server.engine.decoding.hypotheses import Sentence, TargetHypothesis
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.load import predicted_cost, predicted_target_tokens
from xuanzang.server.engine.scheduling.requests.call_record import CallObserver
from xuanzang.server.engine.scheduling.requests.loop_inbox import LoopInbox
from xuanzang.server.engine.scheduling.requests.rendering import SentenceRenderer
from xuanzang.server.engine.scheduling.requests.timeline import SentenceTimeline
from xuanzang.server.engine.settings import UNLIMITED
from xuanzang.server.engine.terminology.terms import NO_TERMS, Terms
from xuanzang.server.engine.text.codec import TextCodec
from xuanzang.server.engine.text.traditional import TraditionalWriter
from xuanzang.server.engine.types import (
    ContentFormat,
    DecodingOptions,
    FinishReason,
    HoldSentences,
    Hypothesis,
    ServedModel,
)

Ts = TypeVarTuple("Ts")

_LOGGER = logging.getLogger(__name__)

# Hypotheses of a sentence that has one place in a batch, as many as by default, and continuations to draw from.
_BEAM_OF_PLACE = 4
_CANDIDATES_OF_PLACE = 64

AbandonReason = Literal["deadline", "cancelled", "error"]
"""Why a request is given up."""


class FlowKey(NamedTuple):
    """Whose sentences wait in one line: a caller's, with one line more for each model that has limits of its own."""

    caller: str
    limited: LoadedModel | None = None
    """Model with limits of its own; None for all others together."""


class PlannedSearch(NamedTuple):
    """A sentence to search, and the renderer of its hypotheses."""

    sentence: Sentence
    renderer: SentenceRenderer


class SentenceResult(NamedTuple):
    """Hypotheses of one sentence, best first, as ids and as text, and when they were found."""

    found: Sequence[TargetHypothesis]
    hypotheses: Sequence[Hypothesis]
    timeline: SentenceTimeline


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
    tier: int = 0
    """Number of the tier in whose batches it is decoded; set when it is taken."""
    queued_at: float = field(default_factory=time.monotonic)
    goes_first_at: float = math.inf
    """Time from which it goes before others of its caller, so that its deadline can be met; constant while it waits."""

    @property
    def source_tokens(self) -> int:
        """Source ids, end token counted."""
        return len(self.sentence.source_ids)

    def cost_of(self, steps: int) -> int:
        """Return the part of the predicted tokens that has been worked on."""
        decoded = self.cost - self.source_tokens
        return self.source_tokens + decoded * min(steps, self.target_tokens) // self.target_tokens

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
    """Predicted tokens that were worked on."""
    seconds: float
    """Time from its joining a batch to its last step."""
    target_tokens: int
    """Predicted target tokens of what was decoded in this time: all, or fewer if it was given up."""


class ContextArguments(TypedDict, total=False):
    """What a call may say of itself; `CallContext` has the meaning of each key, and what it is without."""

    caller: str
    source_language: str
    target_language: str
    content_format: ContentFormat
    terms: Terms
    kept_texts: Mapping[int, FinishReason]
    writer: TraditionalWriter | None
    hold_sentences: HoldSentences
    observer: CallObserver | None


class CallArguments(ContextArguments):
    """What a call asks of the engine."""

    model: Required[ServedModel]
    """One of the engine's."""
    options: Required[DecodingOptions]
    """Options within the ranges of the API and the limits of the model."""
    deadline: Required[float | None]
    """Deadline on the clock of `time.monotonic`; None for no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """What all sentences of one call have in common."""

    model: LoadedModel
    caller: str = ""
    """Identity of the caller, neither logged nor counted: callers take turns."""
    source_language: str = ""
    """One of the model's, or empty for its first."""
    target_language: str = ""
    """The same."""
    deadline: float = math.inf
    """On the clock of `time.monotonic`."""
    cutoff: float = math.inf
    """Time at which the best found so far is the answer, on the same clock."""
    content_format: ContentFormat = ContentFormat.TEXT
    """How the texts are written; with markup nothing is emitted before the end."""
    terms: Terms = NO_TERMS
    """What translations keep."""
    kept_texts: Mapping[int, FinishReason] = field(default_factory=dict)
    """Texts that are answered as they are, by their index, and why."""
    writer: TraditionalWriter | None = None
    """Writer of what the model writes; None to leave it as it is."""
    hold_sentences: HoldSentences = nullcontext
    """Places of the caller for sentences in translation."""
    is_counted: bool = True
    """Whether it is a request of a caller, which metrics of requests count."""
    observer: CallObserver | None = None
    """Who asks for the record of the call; None for no record."""

    @property
    def exemplar(self) -> dict[str, str] | None:
        """Labels of the exemplars of histograms; None for no exemplars."""
        return None if self.observer is None else self.observer.exemplar

    @property
    def useful_until(self) -> float:
        """Time after which sentences need not be begun, on the clock of `time.monotonic`."""
        return min(self.deadline, self.cutoff)

    @property
    def accepts_part(self) -> bool:
        """Whether translations that time has cut short are of use, too."""
        return not math.isinf(self.cutoff)

    @property
    def flow(self) -> FlowKey:
        """Line in which the sentences wait."""
        return FlowKey(self.caller, None if self.model.limits == UNLIMITED else self.model)

    @property
    def codec(self) -> TextCodec:
        """Codec between the languages."""
        return self.model.codec_between(self.source_language, self.target_language)


class Request:
    """Sentences to search for one call, and a future for their results.

    Belongs to the event loop that made it. Workers only call `deliver`, `report_prefix` and `fail`, which hand over to
    the loop, and read `abandoned`, which goes from None to a reason once; the scheduler sets `started` under its lock.
    """

    def __init__(
        self, context: CallContext, searches: Sequence[PlannedSearch], *, listener: SentenceListener | None = None
    ) -> None:
        """Make a request of the running event loop.

        Args:
            context: Context of the call.
            searches: Sentences with their renderers, at least one.
            listener: Receiver of the results of single sentences.
        """
        self.context = context
        self.model = context.model
        """Model that translates."""
        self.flow = context.flow
        self.useful_until = context.useful_until
        """Time after which its sentences need not be begun, on the clock of `time.monotonic`."""
        self.cost = 0
        """Predicted tokens of all sentences."""
        self.longest = 0
        """Predicted target tokens of the longest sentence."""
        self.sentences: Sequence[QueuedSentence] = [self._queued(*each) for each in enumerate(searches)]
        self.sentence_count = len(self.sentences)
        self.submitted_at = time.monotonic()
        self.estimate: float | None = None
        """Seconds from submission to the results, as estimated then; None before anything has been measured."""
        self.abandoned: AbandonReason | None = None
        self.started = False
        self._listener = listener
        self._inbox = LoopInbox.of_running_loop()
        self._results: dict[int, SentenceResult] = {}
        self.done: asyncio.Future[list[SentenceResult]] = asyncio.get_running_loop().create_future()
        """Results, in the order of the sentences."""

    def _queued(self, position: int, search: PlannedSearch) -> QueuedSentence:
        """Return the sentence of a search, and count what it takes."""
        sentence, renderer = search
        target_tokens = predicted_target_tokens(sentence)
        cost = predicted_cost(sentence, target_tokens)
        self.cost += cost
        self.longest = max(self.longest, target_tokens)
        shape = BatchShape.of(sentence.options.decoding)
        return QueuedSentence(
            request=self,
            position=position,
            sentence=sentence,
            renderer=renderer,
            cost=cost,
            target_tokens=target_tokens,
            cache_bytes=self.model.cache_bytes_of(sentence),
            shape=shape,
            places=places_of(shape, edits_follow_tokens=sentence.options.edits_follow_tokens),
        )

    @property
    def timelines(self) -> list[SentenceTimeline]:
        """Timelines of the sentences with a result, in the order of the text."""
        return [self._results[position].timeline for position in sorted(self._results)]

    @property
    def has_listener(self) -> bool:
        """Whether prefixes are to be reported."""
        return self._listener is not None

    def deliver(self, position: int, result: SentenceResult) -> None:
        """Hand over the result of a sentence, from any thread."""
        self._call_in_loop(self._keep, position, result)

    def report_prefix(self, position: int, target_ids: Sequence[int]) -> None:
        """Hand over the beginning of a sentence that will not change, from any thread."""
        if self._listener:
            self._call_in_loop(self._listener.on_prefix, position, self.context.codec.decode(target_ids))

    def fail(self, error: Exception) -> None:
        """End the request with an error, unless it is answered already, from any thread."""
        self._call_in_loop(self._keep_error, error)

    def close(self) -> None:
        """Let go of the sentences: they have their request, so that each would keep the other."""
        self.sentences = ()

    def _call_in_loop(self, callback: Callable[[*Ts], None], *arguments: *Ts) -> None:
        if not self._inbox.leave(callback, *arguments):
            # With the loop every task has ended that could await this.
            _LOGGER.warning("result dropped: the event loop is closed")

    def _keep(self, position: int, result: SentenceResult) -> None:
        self._results[position] = result
        if self._listener:
            self._listener.on_result(position, result)
        if len(self._results) == self.sentence_count and not self.done.done():
            self.done.set_result([self._results[position] for position in range(self.sentence_count)])

    def _keep_error(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
