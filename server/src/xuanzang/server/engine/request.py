"""A request on its way through the queue and the workers."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar, TypeVarTuple

from xuanzang.server.engine.cost import predicted_cost
from xuanzang.server.engine.hypotheses import Sentence, TargetHypothesis
from xuanzang.server.engine.model import LoadedModel

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_LOGGER = logging.getLogger(__name__)

Reason = Literal["deadline", "cancelled", "error"]
"""Why a request is given up."""

Render = Callable[[int, Sequence[TargetHypothesis], bool], T]
"""Makes the result of the sentence at a position of what was found, best first; the last argument tells whether the
search was cut short. Called in the thread of a worker."""

OnProgress = Callable[[int, str], None]
"""Takes the beginning of the text of the sentence at a position, in the event loop."""


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
    caller: str
    """Who asks: callers take turns."""
    deadline: float = math.inf
    """On the clock of `time.monotonic`."""
    cutoff: float = math.inf
    """When whatever has been found is the answer, on the same clock."""


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
        on_progress: OnProgress | None = None,
    ) -> None:
        """Make a request of the running event loop.

        Args:
            terms: Of the caller.
            sentences: At least one.
            render: Makes the results.
            on_progress: Told what each sentence is sure to begin with, if given.
        """
        self.terms = terms
        self.sentences = [
            QueuedSentence(request=self, position=position, sentence=sentence, cost=predicted_cost(sentence))
            for position, sentence in enumerate(sentences)
        ]
        self.cost = sum(queued.cost for queued in self.sentences)
        self.abandoned: Reason | None = None
        self.started = False
        self.followed = on_progress is not None
        """Whether `tell` has a listener."""
        self._render = render
        self._on_progress = on_progress
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

    def deliver(self, position: int, hypotheses: Sequence[TargetHypothesis], *, interrupted: bool = False) -> None:
        """Hand over what was found for a sentence, from any thread.

        Args:
            position: Of the sentence.
            hypotheses: Best first, at least one.
            interrupted: Whether the search was cut short.
        """
        self._call_in_loop(self._keep, position, self._render(position, hypotheses, interrupted))

    def tell(self, position: int, target_ids: Sequence[int]) -> None:
        """Hand over what a sentence is sure to begin with, from any thread.

        Args:
            position: Of the sentence.
            target_ids: More than were told before.
        """
        if self._on_progress:
            self._call_in_loop(self._on_progress, position, self.model.text.decode(target_ids))

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
        if len(self._results) == len(self.sentences) and not self.done.done():
            self.done.set_result([self._results[position] for position in range(len(self.sentences))])

    def _keep_error(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
