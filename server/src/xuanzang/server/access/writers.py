"""Callers who may store glossaries."""

from __future__ import annotations

from xuanzang.server.access.callers import Caller
from xuanzang.server.access.errors import NotAWriterError
from xuanzang.server.access.settings import ANYBODY


class GlossaryWriters:
    """Judges who may store glossaries, delete them and read their entries."""

    def __init__(self, setting: str = "") -> None:
        """Read the setting.

        Args:
            setting: Ids of API keys with commas between them, or "*"; empty for nobody.
        """
        self._anybody = setting == ANYBODY
        self._key_ids = frozenset(filter(None, setting.split(",")))

    @property
    def exist(self) -> bool:
        """Whether the server stores glossaries at all."""
        return bool(self._key_ids)

    def require(self, caller: Caller) -> None:
        """Refuse a caller who may not.

        Args:
            caller: Caller of an RPC.

        Raises:
            NotAWriterError: The caller may not.
        """
        if not self._anybody and caller.key_id not in self._key_ids:
            raise NotAWriterError("this caller may not store glossaries: --glossary-writers does not name its API key")
