"""Tokens of HTML, found by the parser of the standard library."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import accumulate, pairwise
from typing import NamedTuple

from typing_extensions import override

from xuanzang.server.engine.markup.tokens import MarkupError, MarkupToken, TokenKind, text_tokens

_VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())  # noqa: SIM905
# Elements that a line break comes before or after, in the style sheet of browsers, or that hold such elements only.
_BLOCKS = frozenset(
    "address article aside audio base blockquote body br button canvas caption center col colgroup dd details dialog "  # noqa: SIM905
    "dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html "
    "iframe legend li link main menu meta nav noframes noscript object ol optgroup option p param pre search section "
    "select source summary table tbody td template textarea tfoot th thead title tr track ul video".split()
)


class _Tag(NamedTuple):
    kind: TokenKind
    name: str = ""
    attributes: tuple[tuple[str, str | None], ...] = ()


class _Positions(HTMLParser):
    """Records where each tag and each stretch of text begins."""

    def __init__(self, content: str) -> None:
        # Text is read from the content; the parser then looks for nothing but tags.
        super().__init__(convert_charrefs=True)
        self.found: list[tuple[int, _Tag]] = []
        self._lines = [0, *accumulate(len(line) + 1 for line in content.split("\n"))]
        self.feed(content)
        self.close()

    def _add(self, kind: TokenKind, name: str = "", attrs: list[tuple[str, str | None]] | None = None) -> None:
        line, column = self.getpos()
        self.found.append((self._lines[line - 1] + column, _Tag(kind, name, tuple(attrs or ()))))

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add(TokenKind.EMPTY if tag in _VOID else TokenKind.OPEN, tag, attrs)

    @override
    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add(TokenKind.EMPTY, tag, attrs)

    @override
    def handle_endtag(self, tag: str) -> None:
        self._add(TokenKind.CLOSE, tag)

    @override
    def handle_data(self, data: str) -> None:
        self._add(TokenKind.TEXT)

    @override
    def handle_comment(self, data: str) -> None:
        self._add(TokenKind.OTHER)

    @override
    def handle_decl(self, decl: str) -> None:
        self._add(TokenKind.OTHER)

    @override
    def handle_pi(self, data: str) -> None:
        self._add(TokenKind.OTHER)

    @override
    def unknown_decl(self, data: str) -> None:
        self._add(TokenKind.OTHER)


def html_tokens(content: str) -> Iterator[MarkupToken]:
    """Find the tags and the text of HTML, a page or a part of one.

    Args:
        content: HTML; browsers read any text as HTML, and so does this.

    Yields:
        Tokens, which joined are the content.

    Raises:
        MarkupError: A marked section cannot be read.
    """
    # The parser looks for the end of each tag; where there is none, for each anew, which would be quadratic.
    end = content.rfind(">") + 1
    try:
        found = _Positions(content[:end]).found
    except AssertionError as error:  # the standard library's, of "<![" with anything but a name
        raise MarkupError("has a marked section that cannot be read") from error
    if end < len(content):
        found.append((end, _Tag(TokenKind.TEXT)))
    if found and found[0][0] > 0:
        found.insert(0, (0, _Tag(TokenKind.OTHER)))
    for (start, tag), (following, _) in pairwise([*found, (len(content), _Tag(TokenKind.TEXT))]):
        yield from _tokens(tag, content[start:following])


def _tokens(tag: _Tag, raw: str) -> Iterator[MarkupToken]:
    if tag.kind is TokenKind.TEXT:
        yield from text_tokens(raw)
    elif raw:
        yield MarkupToken(tag.kind, raw, tag.name, dict(tag.attributes), is_block=tag.name in _BLOCKS)
