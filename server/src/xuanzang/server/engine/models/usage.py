"""Counts of the calls in progress of each model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from xuanzang.server.engine.models.loaded import LoadedModel


class ModelUsage:
    """Counts calls, so that a model is let go only once nobody has it. Belongs to one event loop."""

    def __init__(self) -> None:
        self._calls: dict[LoadedModel, int] = {}
        self._unused: dict[LoadedModel, asyncio.Event] = {}

    def calls(self, model: LoadedModel) -> int:
        """Return the number of calls in progress of a model."""
        return self._calls.get(model, 0)

    @contextmanager
    def of(self, model: LoadedModel) -> Iterator[None]:
        """Count a call.

        Args:
            model: Model that it is for.

        Yields:
            Control while the call is in progress.
        """
        self._calls[model] = self.calls(model) + 1
        try:
            yield
        finally:
            self._calls[model] -= 1
            if not self._calls[model]:
                del self._calls[model]
                if unused := self._unused.pop(model, None):
                    unused.set()

    async def ended(self, model: LoadedModel) -> None:
        """Wait until no call of a model is in progress; no new one may begin.

        Args:
            model: Model that takes no calls any more.
        """
        if model in self._calls:
            await self._unused.setdefault(model, asyncio.Event()).wait()
