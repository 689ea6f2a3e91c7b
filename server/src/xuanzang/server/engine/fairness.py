"""A queue in which callers take turns, however much each of them has waiting."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from xuanzang.server.engine.request import QueuedSentence

# What a caller may take per turn, in predicted tokens: a few sentences of usual length at a usual beam size.
_QUANTUM = 256


class _Flow:
    """What one caller has waiting, oldest first."""

    def __init__(self) -> None:
        self.sentences: dict[QueuedSentence, None] = {}
        self.cost = 0
        self.deficit = _QUANTUM


class FairQueue:
    """Deficit round-robin over callers by predicted tokens (Shreedhar and Varghese 1995). Its owner guards it."""

    def __init__(self) -> None:
        # In the order of their turns; callers without waiting sentences have no entry.
        self._flows: OrderedDict[str, _Flow] = OrderedDict()
        self.count = 0
        """Sentences."""
        self.cost = 0
        """Predicted tokens."""

    def backlog(self, caller: str) -> int:
        """Return the predicted tokens that a caller has waiting."""
        flow = self._flows.get(caller)
        return flow.cost if flow else 0

    def cost_ahead(self, caller: str) -> int:
        """Return the predicted tokens that are taken before a sentence that a caller would add now."""
        own = self.backlog(caller)
        # While the caller's own are taken, every other gets as many, if it has them.
        return sum(min(flow.cost, own) for flow in self._flows.values())

    def add(self, sentences: Iterable[QueuedSentence]) -> None:
        """Add sentences behind those of the same callers."""
        for queued in sentences:
            flow = self._flows.setdefault(queued.request.caller, _Flow())
            flow.sentences[queued] = None
            self._count(flow, queued, 1)

    def remove(self, sentences: Iterable[QueuedSentence]) -> list[QueuedSentence]:
        """Take out sentences, whoever's turn it is.

        Args:
            sentences: Those that are not in the queue are passed over.

        Returns:
            What was taken out.
        """
        removed = []
        for queued in sentences:
            flow = self._flows.get(queued.request.caller)
            if flow and queued in flow.sentences:
                self._remove(flow, queued)
                removed.append(queued)
        return removed

    def take(self, *, sentences: int, source_tokens: int) -> list[QueuedSentence]:
        """Take out those whose turn it is.

        Args:
            sentences: Most of them.
            source_tokens: Most of their source tokens, unless the first has more.

        Returns:
            At least one, if there is any.
        """
        taken: list[QueuedSentence] = []
        tokens = 0
        while self._flows and len(taken) < sentences:
            caller, flow = next(iter(self._flows.items()))
            queued = next(iter(flow.sentences))
            if flow.deficit < queued.cost:
                flow.deficit += _QUANTUM
                self._flows.move_to_end(caller)
                continue
            tokens += queued.source_tokens
            if taken and tokens > source_tokens:
                break
            flow.deficit -= queued.cost
            self._remove(flow, queued)
            taken.append(queued)
        return taken

    def _remove(self, flow: _Flow, queued: QueuedSentence) -> None:
        del flow.sentences[queued]
        self._count(flow, queued, -1)
        if not flow.sentences:
            del self._flows[queued.request.caller]

    def _count(self, flow: _Flow, queued: QueuedSentence, sign: int) -> None:
        flow.cost += sign * queued.cost
        self.cost += sign * queued.cost
        self.count += sign
