"""Usage of a call, as the server counts it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

_CHARACTERS = "x-usage-characters"
_SENTENCES = "x-usage-sentences"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Usage of a call. A stream is one call, or several if its connection broke; only answered texts count."""

    characters: int
    """Characters of the texts that were translated."""
    sentences: int
    """Sentences of those texts."""


OnUsage = Callable[[Usage], None]
"""Receiver of what each call has used."""


def usage_of(metadata: Iterable[tuple[str, str | bytes]] | None) -> Usage | None:
    """Read the usage in the trailing metadata of a call.

    Args:
        metadata: Pairs of key and value.

    Returns:
        The usage; None if the server gives none.
    """
    values = dict(metadata or ())
    characters, sentences = values.get(_CHARACTERS), values.get(_SENTENCES)
    if not (isinstance(characters, str) and isinstance(sentences, str)):
        return None
    if not (characters.isdecimal() and sentences.isdecimal()):
        return None
    return Usage(characters=int(characters), sentences=int(sentences))
