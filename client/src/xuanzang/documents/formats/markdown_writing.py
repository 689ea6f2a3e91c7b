"""Translations as Markdown: the plainest spelling that a parser reads back as the same text and markup."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Protocol

from xuanzang.documents.formats.blocks import Kind, Piece
from xuanzang.documents.splicing import flowing

_SPECIAL = re.compile(r"[\\`*\[\]<>|~$]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)|(?<!\S)#(?=#*\s*$)")
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_BLOCK_START = re.compile(r"^(?:(?=[#+=:!?/-])|(\d+)(?=[.)]))")
_TAGS = {"Emphasis": "em", "Strong": "strong", "Strikethrough": "s", "Mark": "mark"}
EMPTY_ELEMENT = [("OPEN", "span"), ("CLOSE", "span")]
"""Shape of the element that the last spelling puts first."""
_JOINING = ("`", "*", "_", "~")
_ADDRESS = re.compile(r"(?:(?:https?|ftp)://|www\.)[^\s<>]*", re.IGNORECASE)
_GOES_ON = re.compile(r"[!-;=-~]*[^\x00-\x7f\s]")
"""Text that GitHub's Markdown takes for a part of the address before it, since no white space is between them."""
_BEFORE_ADDRESS = (" ", "*", "_", "~", "(", "\n")


class Spelling(Protocol):
    """A way to write pieces."""

    def __call__(self, pieces: Sequence[Piece], kept: Set[str], *, is_first: bool) -> str:
        """Return Markdown.

        Args:
            pieces: Texts and marks.
            kept: Special characters that need no escape.
            is_first: Whether the pieces begin a block.
        """


def kept_marks(pieces: Sequence[Piece], source: str) -> frozenset[str]:
    """Return the special characters that a source writes without a backslash."""
    raw = "".join(source[piece.start : piece.end] for piece in pieces if piece.kind is Kind.TEXT)
    escaped = {each[1] for each in re.findall(r"\\[!-/:-@\[-`{-~]", raw)}
    return frozenset(raw) - escaped - {"#"}


def with_apart_addresses(pieces: Sequence[Piece]) -> list[Piece]:
    """Return pieces with a space where an address would not begin, or would go on into Chinese text."""
    found: list[Piece] = []
    follows = False
    for piece in pieces:
        text = piece.text
        if piece.kind is Kind.CODE and _ADDRESS.fullmatch(piece.raw):
            last = found[-1] if found else None
            if last and last.kind is Kind.TEXT and piece.raw[0] in "wW" and not last.text.endswith(_BEFORE_ADDRESS):
                found[-1] = replace(last, text=f"{last.text} ")
            follows = True
        elif piece.kind is Kind.TEXT and text:
            text = f" {text}" if follows and _GOES_ON.match(text) else text
            follows = False
        else:
            follows = follows and piece.raw.startswith(_JOINING)
        found.append(replace(piece, text=text))
    return found


def shape(pieces: Sequence[Piece]) -> list[tuple[str, str]]:
    """Return the texts and marks of pieces, in a form that equates equal meanings."""
    found: list[tuple[str, str]] = []
    text = ""
    for piece in [*pieces, None]:
        if piece and piece.name == "mask":
            text += piece.raw if piece.kind is Kind.CODE else ""
        elif piece and piece.kind is Kind.TEXT:
            text += piece.text
        else:
            found += [("text", flowing(text).strip())] if text.strip() else []
            text = ""
            found += [_mark(piece)] if piece else []
    return found


def _mark(piece: Piece) -> tuple[str, str]:
    if piece.kind in (Kind.OPEN, Kind.CLOSE):
        return piece.kind.name, _TAGS.get(piece.name, piece.name)
    return piece.kind.name, piece.raw


def _spelled(pieces: Sequence[Piece], kept: Set[str], *, is_first: bool, escape: Callable[[str, Set[str]], str]) -> str:
    written = ""
    opened = 0
    last: Kind | None = None
    for piece in pieces:
        if piece.kind is not Kind.TEXT:
            # Two code spans without a space between them would be one, and two emphases another one.
            is_joined = (
                piece.kind in (Kind.CODE, Kind.OPEN) and written[-1:] == piece.raw[:1] and written[-1:] in _JOINING
            )
            written += " " if is_joined and last in (Kind.CODE, Kind.CLOSE) else ""
            last = piece.kind
            is_label = piece.kind is Kind.CLOSE and piece.raw == f"][{written[opened:]}]"
            written += "]" if is_label else piece.raw
            opened = len(written) if piece.kind is Kind.OPEN else opened
            continue
        last = piece.kind
        text = escape(flowing(piece.text), kept)
        if not written:
            text = text.lstrip()
            text = _BLOCK_START.sub(r"\1\\", text) if is_first else text
        written += text
    return written.rstrip()


def _lightly(text: str, kept: Set[str]) -> str:
    return _SPECIAL.sub(lambda found: found[0] if found[0] in kept else f"\\{found[0]}", text)


def _fully(text: str, _kept: Set[str]) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)


def _wholly(text: str, _kept: Set[str]) -> str:
    return _PUNCTUATION.sub(r"\\\g<0>", text)


def _with_stars(pieces: Sequence[Piece], kept: Set[str], *, is_first: bool) -> str:
    starred = [replace(piece, raw=piece.raw.replace("_", "*")) if piece.name in _TAGS else piece for piece in pieces]
    return _spelled(starred, kept, is_first=is_first, escape=_fully)


def _with_tags(
    pieces: Sequence[Piece], kept: Set[str], *, is_first: bool, escape: Callable[[str, Set[str]], str]
) -> str:
    return _spelled([_as_tag(piece) for piece in pieces], kept, is_first=is_first, escape=escape)


def _as_tag(piece: Piece) -> Piece:
    tag = _TAGS.get(piece.name)
    if tag is None:
        return piece
    return replace(piece, raw=f"<{tag}>" if piece.kind is Kind.OPEN else f"</{tag}>")


def _behind_a_tag(pieces: Sequence[Piece], kept: Set[str], *, is_first: bool) -> str:
    """Write an empty element first, behind which no tag begins a block of HTML."""
    return "<span></span>" + _with_tags(pieces, kept, is_first=is_first, escape=_fully)


SPELLINGS: tuple[Spelling, ...] = (
    partial(_spelled, escape=_lightly),
    partial(_spelled, escape=_fully),
    _with_stars,
    partial(_with_tags, escape=_fully),
    partial(_with_tags, escape=_wholly),
    _behind_a_tag,
)
"""Spellings of a translation, the plainest first."""
