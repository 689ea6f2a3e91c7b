"""Callers of a model while its versions change, who check that each answer is one version's as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from xuanzang.client import AsyncTranslationClient

_CALLS_AFTER = 5


class VersionCallers:
    """Callers of the model `tiny` who name no version."""

    def __init__(self, client: AsyncTranslationClient, sentences: Sequence[str], options: dict[str, Any]) -> None:
        self._client = client
        self._sentences = sentences
        self._options = options
        self._changed = asyncio.Event()
        self.expected: dict[str, list[str]] = {}
        """Translations by version."""
        self.versions: list[str] = []
        """Versions that have answered, in the order of their answers."""

    async def learn(self, *versions: str) -> None:
        """Ask each version for its translations, which must differ."""
        for version in versions:
            found = await self._client.translate(self._sentences, model=f"tiny/{version}", **self._options)
            self.expected[version] = [each.text for each in found]
        assert len({tuple(texts) for texts in self.expected.values()}) == len(versions)

    async def call(self) -> None:
        """Call again and again, some times more after the change."""
        after = 0
        while after < _CALLS_AFTER:
            found = await self._client.translate(self._sentences, timeout=60, **self._options)
            version = found[0].model_version
            assert [each.text for each in found] == self.expected[version]
            self.versions.append(version)
            after += self._changed.is_set()

    async def stream(self) -> None:
        """Stream again and again until the change."""
        while not self._changed.is_set():
            streamed = [each async for each in self._client.translate_stream(self._sentences, **self._options)]
            assert len(streamed) == len(self._sentences)
            for each in streamed:
                assert each.translation.text == self.expected[each.translation.model_version][each.index]

    def end(self) -> None:
        """Let the callers end: the change is made."""
        self._changed.set()
