"""A request on its way through the queue and the workers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVarTuple

from xuanzang.server.engine.decoding import Sentence
from xuanzang.server.engine.model import LoadedModel
from xuanzang.server.engine.values import Hypothesis

Ts = TypeVarTuple("Ts")

_LOGGER = logging.getLogger(__name__)

Reason = Literal["deadline", "cancelled", "error"]
"""Why a request is given up."""


@dataclass(slots=True, eq=False, kw_only=True)
class QueuedSentence:
    """A sentence of a request. The scheduler owns it while it waits, then the worker that took it."""

    request: Request
    position: int
    """Among the sentences of the request."""
    sentence: Sentence
    queued_at: float = field(default_factory=time.monotonic)

    @property
    def source_tokens(self) -> int:
        """Source ids, end token counted."""
        return len(self.sentence.source_ids)


class Request:
    """The sentences of one request, and a future for their hypotheses.

    Belongs to the event loop that made it. Workers only call `deliver` and `fail`, which hand over to the loop, and
    read `abandoned`, which goes from None to a reason once; the scheduler sets `started` under its lock.
    """

    def __init__(self, model: LoadedModel, sentences: Sequence[Sentence]) -> None:
        """Make a request of the running event loop.

        Args:
            model: That is to translate.
            sentences: At least one.
        """
        self.model = model
        self.sentences = [
            QueuedSentence(request=self, position=position, sentence=sentence)
            for position, sentence in enumerate(sentences)
        ]
        self.source_tokens = sum(queued.source_tokens for queued in self.sentences)
        self.abandoned: Reason | None = None
        self.started = False
        self._loop = asyncio.get_running_loop()
        self._results: dict[int, Sequence[Hypothesis]] = {}
        self.done: asyncio.Future[list[Sequence[Hypothesis]]] = self._loop.create_future()
        """Hypotheses of each sentence, in the order of the sentences."""

    def deliver(self, position: int, hypotheses: Sequence[Hypothesis]) -> None:
        """Hand over the result of a sentence, from any thread.

        Args:
            position: Of the sentence.
            hypotheses: Best first.
        """
        self._call_in_loop(self._keep, position, hypotheses)

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

    def _keep(self, position: int, hypotheses: Sequence[Hypothesis]) -> None:
        self._results[position] = hypotheses
        if len(self._results) == len(self.sentences) and not self.done.done():
            self.done.set_result([self._results[position] for position in range(len(self.sentences))])

    def _keep_error(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
