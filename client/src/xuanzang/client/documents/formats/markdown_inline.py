"""Inline markup of a Markdown block: what its parts are, by markdown-it's own rules."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape

from markdown_it import MarkdownIt, rules_inline
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType

from xuanzang.client.documents.formats.blocks import Kind, Piece
from xuanzang.client.documents.splicing import flowing

_TEXT = (rules_inline.text, rules_inline.newline, rules_inline.escape, rules_inline.entity)
_DELIMITERS = (rules_inline.emphasis.tokenize, rules_inline.strikethrough.tokenize)
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_TAG = re.compile(r"<(/?)([A-Za-z][\w-]*)(?:\s[^>]*)?>")
_VOID = ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """Characters that one rule took."""

    start: int
    end: int
    rule: object
    tokens: tuple[Token, ...]
    """Tokens made of them; delimiters that are paired change later."""
    widths: tuple[int, ...]
    """Characters of each token."""
    label_end: int
    """Index after the label of a link."""


class PlacedInline(ParserInline):
    """Inline parser that notes where it finds what."""

    def __init__(self) -> None:
        super().__init__()
        self._steps: dict[int, list[_Step]] = {}

    def blocks(self, content: str, parser: MarkdownIt, env: EnvType) -> Iterator[list[Piece]]:
        """Yield the pieces of a block, between its hard line breaks.

        Args:
            content: Source of the block.
            parser: Parser of the document.
            env: What the document has defined, such as link references.
        """
        self._steps.clear()
        state = StateInline(content, parser, env, [])
        self.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        found: list[Piece] = []
        steps = self._steps.get(id(state), [])
        for piece in sorted((piece for step in steps for piece in _pieces(content, step)), key=lambda one: one.start):
            if piece.name == "hardbreak":
                yield found
                found = []
            elif found and found[-1].kind is piece.kind is Kind.TEXT and found[-1].end == piece.start:
                found[-1] = _text(content, found[-1].start, piece.end)
            else:
                found.append(piece)
        yield found

    def tokenize(self, state: StateInline) -> None:
        """Make the tokens of a range, as the base class does, and note what they are made of."""
        end = state.posMax
        steps = self._steps.setdefault(id(state), [])
        while state.pos < end:
            start, count, has_pending = state.pos, len(state.tokens), bool(state.pending)
            rule = self._matching(state)
            made = tuple(state.tokens[count + has_pending :])
            if rule is None:
                state.pending += state.src[state.pos]
                state.pos += 1
            is_link = rule is rules_inline.link
            step = _Step(
                start=start,
                end=state.pos,
                rule=rule,
                tokens=made,
                widths=tuple(len(token.content) for token in made),
                label_end=state.md.helpers.parseLinkLabel(state, start, True) if is_link else start,
            )
            steps.append(step)
        if state.pending:
            state.pushPending()

    def _matching(self, state: StateInline) -> object | None:
        """Run the rules up to the first that matches; return it."""
        if state.level >= state.md.options["maxNesting"]:
            return None
        return next((rule for rule in self.ruler.getRules("") if rule(state, False)), None)


def _pieces(content: str, step: _Step) -> Iterator[Piece]:
    if step.rule in _DELIMITERS:
        yield from _delimiters(content, step)
    elif step.rule is None or step.rule in _TEXT:
        is_break = any(token.type == "hardbreak" for token in step.tokens)
        text = _text(content, step.start, step.end)
        yield _piece(content, Kind.LONE, step.start, step.end, name="hardbreak") if is_break else text
    elif step.rule is rules_inline.link:
        yield _piece(content, Kind.OPEN, step.start, step.start + 1, name="link")
        yield _piece(content, Kind.CLOSE, step.label_end, step.end, name="link")
    else:
        yield _markup(content, step)


def _delimiters(content: str, step: _Step) -> Iterator[Piece]:
    start = step.start
    for token, width in zip(step.tokens, step.widths, strict=True):
        name, _, end = token.type.partition("_")
        # Of the two characters around strong words the inner one has the token; the other one's is empty.
        if end == "open":
            yield _piece(content, Kind.OPEN, start + width - len(token.markup), start + width, name=name)
        elif end == "close":
            yield _piece(content, Kind.CLOSE, start, start + len(token.markup), name=name)
        elif token.content:
            yield _text(content, start, start + width)
        start += width


def _markup(content: str, step: _Step) -> Piece:
    """Return code, an image, an address or an HTML tag."""
    made = [token for token in step.tokens if token.content]
    tag = _TAG.fullmatch(content[step.start : step.end]) if step.rule is rules_inline.html_inline else None
    if tag and tag[2].lower() not in _VOID:
        return _piece(content, Kind.CLOSE if tag[1] else Kind.OPEN, step.start, step.end, name=tag[2].lower())
    if step.rule in (rules_inline.backtick, rules_inline.autolink) and made:
        return _piece(content, Kind.CODE, step.start, step.end, text=made[0].content)
    return _piece(content, Kind.LONE, step.start, step.end)


def _text(content: str, start: int, end: int) -> Piece:
    text = unescape(_ESCAPED.sub(r"\1", flowing(content[start:end])))
    return _piece(content, Kind.TEXT, start, end, text=text)


def _piece(content: str, kind: Kind, start: int, end: int, *, text: str = "", name: str = "") -> Piece:
    # Lines of quotations begin with marks that the content lacks.
    raw = content[start:end].replace("\n", " ")
    return Piece(kind=kind, start=start, end=end, raw=raw, text=text, name=name)
