"""Ways to write a phrase in tokens, and what tokens say of the words around them."""

from __future__ import annotations

from typing import NamedTuple

CONTINUES = 1
"""Bit of a token's class: its text goes on with the word before it."""
OPENS = 2
"""Bit of a token's class: a word may begin after it without a space."""


class Variant(NamedTuple):
    """One way to write a phrase."""

    ids: tuple[int, ...]
    """Its tokens, at least one."""
    guards_start: bool
    """True if it may follow only a token after which a word may begin."""
    guards_end: bool
    """True if it counts only if its last word does not go on."""
