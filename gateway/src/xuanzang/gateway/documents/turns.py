"""Turns at something of which there is little, shared by callers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary


class Turns:
    """Turns at places, of which one caller has half at most. Belongs to one event loop."""

    def __init__(self, places: int) -> None:
        """Leave all places free.

        Args:
            places: Number of places.
        """
        self._total = places
        self._places = asyncio.Semaphore(places)
        self._of_caller = max(1, places // 2)
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def limit_of(self, caller: str) -> str | None:
        """Return what a caller would have to wait for, such as "2 documents of this caller"; None: nothing.

        Args:
            caller: Name of the caller.
        """
        if self._places.locked():
            return f"{self._total} documents"
        share = self._shares.get(caller)
        return f"{self._of_caller} documents of this caller" if share and share.locked() else None

    @asynccontextmanager
    async def of(self, caller: str) -> AsyncIterator[None]:
        """Wait for a place, and hold it.

        Args:
            caller: Name of the caller.
        """
        # Whoever waits or holds a place keeps the share alive.
        share = self._shares.setdefault(caller, asyncio.Semaphore(self._of_caller))
        async with share, self._places:
            yield
