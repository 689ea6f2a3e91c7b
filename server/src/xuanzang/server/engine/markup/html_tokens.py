"""Tokens of HTML, found as browsers do."""

from __future__ import annotations

import re
from collections.abc import Iterator

from xuanzang.server.engine.markup.tokens import MarkupToken, TokenKind, text_tokens, unescaped

_VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())  # noqa: SIM905
# Elements that a line break comes before or after, in the style sheet of browsers, or that hold such elements only.
_BLOCKS = frozenset(
    "address article aside audio base blockquote body br button canvas caption center col colgroup dd details dialog "  # noqa: SIM905
    "dir div dl dt fieldset figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html "
    "iframe legend li link main menu meta nav noframes noscript object ol optgroup option p param pre search section "
    "select source summary table tbody td template textarea tfoot th thead title tr track ul video".split()
)


_ATTRIBUTE = r"""[\s/]*+[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]*+))?+"""
# What ends nowhere goes on to the end of the content, so that no end is looked for twice.
_MARKUP = re.compile(
    rf"<(?P<end>/?)(?P<name>[A-Za-z][^\s/>]*+)(?:{_ATTRIBUTE})*+[\s/]*+>"
    r"|<!--(?:-?>|.*?(?:--!?>|\Z))|<!\[CDATA\[.*?(?:\]\]>|\Z)|<[!?/][^>]*+>",
    re.DOTALL,
)
_BEGINNING = re.compile(r"<[A-Za-z!?/]")
_NAMED_VALUE = re.compile(r"""([^\s/>][^\s/>=]*+)(?:\s*+=\s*+(?:"([^"]*+)"|'([^']*+)'|([^\s>]*+)))?+""")
# Elements whose content ends at their end tag, whatever it looks like.
_CLOSING = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE) for name in ("script", "style", "textarea", "title")
}


def html_tokens(content: str) -> Iterator[MarkupToken]:
    """Find the tags and the text of HTML, a page or a part of one, in time that is linear in it.

    Args:
        content: HTML; browsers read any text as HTML, and so does this.

    Yields:
        Tokens, which joined are the content.
    """
    place = 0
    while (begin := _BEGINNING.search(content, place)) and (found := _MARKUP.match(content, begin.start())):
        yield from text_tokens(content[place : found.start()])
        token = _tag(found)
        yield token
        place = found.end()
        if token.kind is TokenKind.OPEN and token.name in _CLOSING:
            closing = _CLOSING[token.name].search(content, place)
            end = closing.start() if closing else len(content)
            yield from text_tokens(content[place:end])
            place = end
    yield from text_tokens(content[place:])


def _tag(found: re.Match[str]) -> MarkupToken:
    raw, name = found[0], (found["name"] or "").lower()
    if not name:
        return MarkupToken(TokenKind.OTHER, raw)
    if found["end"]:
        return MarkupToken(TokenKind.CLOSE, raw, name, is_block=name in _BLOCKS)
    attributes: dict[str, str | None] = {}
    for match in _NAMED_VALUE.finditer(raw, 1 + len(name)):
        value = unescaped(match[match.lastindex]) if match.lastindex and match.lastindex > 1 else None
        attributes.setdefault(match[1].lower(), value)
    kind = TokenKind.EMPTY if name in _VOID or raw.endswith("/>") else TokenKind.OPEN
    return MarkupToken(kind, raw, name, attributes, is_block=name in _BLOCKS)
