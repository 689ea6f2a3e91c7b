"""A request on its way through the queue and the workers."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar, TypeVarTuple

from xuanzang.server.engine.decoding.hypotheses import Sentence, TargetHypothesis
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.cost import predicted_cost
from xuanzang.server.engine.text.codec import TextCodec
from xuanzang.server.engine.types import FinishReason

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
Ts = TypeVarTuple("Ts")

_LOGGER = logging.getLogger(__name__)

Reason = Literal["deadline", "cancelled", "error"]
"""Why a request is given up."""

Render = Callable[[int, Sequence[TargetHypothesis], FinishReason], T]
"""Makes the result of the sentence at a position of what was found, best first; the last argument tells why those
hypotheses ended that the model did not end. Called in the thread of a worker."""


class Listener(Protocol[T_contra]):
    """Is told, in the event loop, what becomes of each sentence."""

    def begun(self, position: int, text: str) -> None:
        """Take the text that the sentence at a position is sure to begin with."""

    def finished(self, position: int, result: T_contra) -> None:
        """Take the result of the sentence at a position."""


@dataclass(slots=True, eq=False, kw_only=True)
class QueuedSentence:
    """A sentence of a request. The scheduler owns it while it waits, then the worker that took it."""

    request: Request[Any]
    position: int
    """Among the sentences of the request."""
    sentence: Sentence
    cost: int
    """Predicted tokens."""
    queued_at: float = field(default_factory=time.monotonic)

    @property
    def source_tokens(self) -> int:
        """Source ids, end token counted."""
        return len(self.sentence.source_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a caller's request is bound to."""

    model: LoadedModel
    caller: str = ""
    """Who asks: callers take turns."""
    target_language: str = ""
    """One of the model's, or empty for its first."""
    deadline: float = math.inf
    """On the clock of `time.monotonic`."""
    cutoff: float = math.inf
    """When whatever has been found is the answer, on the same clock."""

    @property
    def text(self) -> TextCodec:
        """What splits, tokenises and joins text."""
        return self.model.text_into(self.target_language)


class Request(Generic[T]):
    """Sentences to search for one caller, and a future for what is found.

    Belongs to the event loop that made it. Workers only call `deliver`, `tell` and `fail`, which hand over to the loop,
    and read `abandoned`, which goes from None to a reason once; the scheduler sets `started` under its lock.
    """

    def __init__(
        self,
        terms: Terms,
        sentences: Sequence[Sentence],
        *,
        render: Render[T],
        listener: Listener[T] | None = None,
    ) -> None:
        """Make a request of the running event loop.

        Args:
            terms: Of the caller.
            sentences: At least one.
            render: Makes the results.
            listener: Of what becomes of the sentences.
        """
        self.terms = terms
        self.sentences = [
            QueuedSentence(request=self, position=position, sentence=sentence, cost=predicted_cost(sentence))
            for position, sentence in enumerate(sentences)
        ]
        self.cost = sum(queued.cost for queued in self.sentences)
        self.abandoned: Reason | None = None
        self.started = False
        self.followed = listener is not None
        """Whether anybody listens to what is told."""
        self._render = render
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._results: dict[int, T] = {}
        self.done: asyncio.Future[list[T]] = self._loop.create_future()
        """Results, in the order of the sentences."""

    @property
    def model(self) -> LoadedModel:
        """That is to translate."""
        return self.terms.model

    @property
    def caller(self) -> str:
        """Who asks."""
        return self.terms.caller

    def deliver(self, position: int, hypotheses: Sequence[TargetHypothesis], *, cut: FinishReason) -> None:
        """Hand over what was found for a sentence, from any thread.

        Args:
            position: Of the sentence.
            hypotheses: Best first, at least one.
            cut: Why those of them ended that are not finished.
        """
        self._call_in_loop(self._keep, position, self._render(position, hypotheses, cut))

    def tell(self, position: int, target_ids: Sequence[int]) -> None:
        """Hand over what a sentence is sure to begin with, from any thread.

        Args:
            position: Of the sentence.
            target_ids: More than were told before.
        """
        if self._listener:
            self._call_in_loop(self._listener.begun, position, self.terms.text.decode(target_ids))

    def fail(self, error: Exception) -> None:
        """Answer with an error what is not answered yet, from any thread.

        Args:
            error: What the one who waits gets.
        """
        self._call_in_loop(self._keep_error, error)

    def _call_in_loop(self, callback: Callable[[*Ts], None], *arguments: *Ts) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:
            # The loop is closed, and with it went everyone who could have waited for this.
            _LOGGER.warning("result dropped: the event loop is closed")

    def _keep(self, position: int, result: T) -> None:
        self._results[position] = result
        if self._listener:
            self._listener.finished(position, result)
        if len(self._results) == len(self.sentences) and not self.done.done():
            self.done.set_result([self._results[position] for position in range(len(self.sentences))])

    def _keep_error(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
