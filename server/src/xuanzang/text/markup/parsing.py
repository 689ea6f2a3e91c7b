"""Content with markup to a document of blocks."""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, repeat, zip_longest
from typing import Protocol

from xuanzang.text.markup.document import ESCAPED, Block, Inline
from xuanzang.text.markup.tokens import MarkupError, MarkupToken, TokenKind, html_tokens, xml_tokens
from xuanzang.text.types import ContentFormat

# White space of HTML and XML.
_SPACE = re.compile(r"(?<=[^ \t\n\f\r])[ \t\n\f\r]++(?=[^ \t\n\f\r])")
_WIDE = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uff60\U00020000-\U0003ffff]")
MAX_INLINE_DEPTH = 100
"""Maximum elements within one another among the text of a block."""
MAX_TAGS = 10_000
"""Maximum tags and comments of one content."""
MAX_MARKUP_CHARACTERS = 100_000
"""Maximum characters of one content with markup, whatever the limit of texts."""
_UNTRANSLATED = frozenset({"code", "pre", "script", "style", "svg", "math"})
_INVISIBLE = frozenset({"script", "style"})
# The text of an element that points to a note, and what may be before it: a word, or a mark that is in no number.
_NOTE = re.compile(r"(?:\[[0-9]{1,3}\]|\([0-9]{1,3}\)|[0-9]{1,3}(?:[,–-][0-9]{1,3}){0,4})")
_BEFORE_NOTE = re.compile(r"(?:[A-Za-z]{3}|[^\d\s][.,;!?。，；！？…][\"”’)）」』»]?)$")


def without_line_breaks(text: str, inlines: Iterable[Inline]) -> tuple[str, tuple[Inline, ...], Sequence[int]]:
    """Join the lines of a block: they end where an editor has broken them, not where sentences do.

    Returns:
        The text with a space for each line break, or nothing between ideographs (CSS Text 3, 4.1.3), the elements at
        their places in it, and the original place of each of its characters.
    """
    inlines = tuple(inlines)
    spaces = [space for space in _SPACE.finditer(text) if "\n" in space.group() or "\r" in space.group()]
    if not spaces:
        return text, inlines, range(len(text))
    kept = [1] * len(text)
    characters = list(text)
    for space in spaces:
        start, end = space.span()
        is_none = _WIDE.match(text[start - 1]) and _WIDE.match(text[end])
        kept[start:end] = [0] * (end - start)
        if not is_none:
            kept[start], characters[start] = 1, " "
    return _shortened(characters, inlines, kept)


def _note_spans(inlines: Sequence[Inline], text: str) -> Iterator[Inline]:
    """Yield the elements that point to notes, as in "the end.<sup>1</sup>": the model would read the number "end.1"."""
    last = -1
    for inline, following in zip_longest(inlines, inlines[1:]):
        start, end = inline.start, inline.end
        is_behind = start in (0, last) or _BEFORE_NOTE.search(text[max(0, start - 4) : start])
        after = text[end : end + 1]
        is_end = (following is not None and following.start == end) or not (after.isascii() and after.isalnum())
        if 0 < start < end and _NOTE.fullmatch(text, start, end) and is_behind and is_end and _is_written(inline):
            yield inline
            last = end
        else:
            yield from _note_spans(inline.children, text)


def _is_written(inline: Inline) -> bool:
    """Return whether an element and those in it have both tags, and nothing but text."""
    return bool(inline.opening and inline.closing) and all(map(_is_written, inline.children))


def without_notes(
    text: str, inlines: tuple[Inline, ...], references: Container[str]
) -> tuple[str, tuple[Inline, ...], Sequence[int]]:
    """Take the numbers of notes out of a text, so that their elements are tags without content.

    Args:
        text: Text of a block.
        inlines: Its elements.
        references: Characters that the content writes as references; a number with one of them stays.

    Returns:
        The text, the elements at their places in it, and the original place of each of its characters.
    """
    notes = [
        each
        for each in _note_spans(inlines, text)
        if not any(character in references for character in text[each.start : each.end])
    ]
    if not notes:
        return text, inlines, range(len(text))
    kept = [1] * len(text)
    for note in notes:
        kept[note.start : note.end] = [0] * (note.end - note.start)
    whole = _replaced(inlines, {id(note): _raw_of(note, text) for note in notes})
    return _shortened(text, whole, kept)


def _replaced(inlines: Iterable[Inline], raws: Mapping[int, str]) -> tuple[Inline, ...]:
    """Return elements, some of which are a single tag."""
    return tuple(
        Inline(start=each.start, end=each.end, opening=raws[id(each)])
        if id(each) in raws
        else replace(each, children=_replaced(each.children, raws))
        for each in inlines
    )


def _raw_of(inline: Inline, text: str) -> str:
    """Return the characters of an element whose text is written as it is."""
    end, parts = inline.start, [inline.opening]
    for child in inline.children:
        parts += text[end : child.start], _raw_of(child, text)
        end = child.end
    return "".join((*parts, text[end : inline.end], inline.closing))


def _shortened(
    characters: Sequence[str], inlines: Iterable[Inline], kept: Sequence[int]
) -> tuple[str, tuple[Inline, ...], Sequence[int]]:
    """Return the characters that are kept, the elements at their places in them, and the original places."""
    places = [place for place, is_kept in enumerate(kept) if is_kept]
    text = "".join([characters[place] for place in places])
    return text, _moved(inlines, list(accumulate(kept, initial=0))), places


def _moved(inlines: Iterable[Inline], places: Sequence[int]) -> tuple[Inline, ...]:
    return tuple(
        replace(inline, start=places[inline.start], end=places[inline.end], children=_moved(inline.children, places))
        for inline in inlines
    )


@dataclass(slots=True, kw_only=True)
class _Open:
    """An element whose end has not come yet."""

    name: str = ""
    raw: str = ""
    start: int = 0
    inlines: list[Inline] = field(default_factory=list)


class BlockBuilder:
    """Builds one block, token by token."""

    def __init__(self, start: int, *, keeps_lines: bool = False, escapes: Mapping[str, str] = ESCAPED) -> None:
        """Begin at a place of the content; `keeps_lines`: whether sentences end at line breaks."""
        self.place = start
        """Place of the next token in the content."""
        self._keeps_lines, self._escapes = keeps_lines, escapes
        self._starts, self._ends = array("I"), array("I")
        self._raw: list[str | Block] = []
        self._texts: list[str] = []
        self._length = 0
        self._spellings: defaultdict[str, list[str]] = defaultdict(list)
        self._open = [_Open()]
        self._depth_of_end: int | None = None
        """Number of open elements when one ended, if no text has come since."""
        self._strays = 0
        self._is_translated = False

    def add_text(self, token: MarkupToken) -> None:
        """Add text, or a reference."""
        self._part_words(token.text)
        self._take(token.raw, token.text)
        self._is_translated = self._is_translated or any(map(str.isalpha, token.text))
        if token.raw[0] == "&" and token.raw != token.text and len(token.text) == 1:
            self._spellings[token.text].append(token.raw)

    @property
    def is_in_word(self) -> bool:
        """True if a letter or digit comes last, and no ideograph."""
        last = self._texts[-1][-1:] if self._texts else ""
        return last.isalnum() and not _WIDE.match(last)

    @property
    def is_deep(self) -> bool:
        """True if no further element may be opened."""
        return len(self._open) > MAX_INLINE_DEPTH

    def add_verbatim(self, raw: str, text: str = "") -> None:
        """Add an untranslated part: a tag without content, a comment, or an element with its text."""
        start = self._length
        self._take(raw, text)
        self._add(Inline(start=start, end=self._length, opening=raw, is_verbatim=bool(text)))

    def add_space(self, raw: str) -> None:
        """Add white space that the model reads as one space."""
        start = self._length
        self._take(raw, " ")
        self._add(Inline(start=start, end=start, opening=raw, is_space=True))

    def add_placeholder(
        self,
        raw: str,
        word: str,
        *,
        is_ordered: bool = False,
        nested: tuple[str | Block, ...] = (),
        written: str = "",
    ) -> None:
        """Add a placeholder, which a word stands in for; `nested` are its parts if some are translated.

        `written`: the form of it in the translation; empty: its own.
        """
        start = self._length
        self._take(raw, word)
        if nested:
            self._raw[-1:] = nested
        self._add(
            Inline(
                start=start,
                end=self._length,
                opening=written or raw,
                is_verbatim=True,
                placeholder=raw if word else "",
                is_ordered=is_ordered,
                nested=nested,
            )
        )

    def open(self, token: MarkupToken) -> None:
        """Add the start tag of an element."""
        if self.is_deep:
            raise MarkupError(f"must have at most {MAX_INLINE_DEPTH} inline elements within one another")
        self._pass(token.raw)
        self._open.append(_Open(name=token.name, raw=token.raw, start=self._length))

    def close(self, token: MarkupToken) -> None:
        """Add the end tag of an element."""
        self._pass(token.raw)
        names = [element.name for element in self._open[1:]]
        if token.name in names:
            self._depth_of_end = names.index(token.name) + 1
            while self._open[-1].name != token.name:
                # HTML may have tags that cross; those stay where they are.
                crossing = self._open.pop()
                self._add(Inline(start=crossing.start, end=crossing.start, opening=crossing.raw))
                self._open[-1].inlines += crossing.inlines
            self._close(token.raw)
        elif names or self._strays == MAX_INLINE_DEPTH:
            self._add(Inline(start=self._length, end=self._length, opening=token.raw))
        else:
            self._strays += 1
            root = self._open[0]
            around = Inline(
                start=0,
                end=self._length,
                opening="",
                closing=token.raw,
                children=tuple(root.inlines),
                reaches_start=True,
            )
            root.inlines = [around]

    def build(self) -> list[str | Block]:
        """Return the block, or its characters if there is nothing to translate but within placeholders."""
        if not self._is_translated:
            return [part for part in _joined(self._raw) if part]
        while len(self._open) > 1:
            self._close("", reaches_end=True)
        text, inlines = "".join(self._texts), tuple(self._open[0].inlines)
        text, inlines, kept = without_notes(text, inlines, self._spellings.keys())
        if not self._keeps_lines:
            text, inlines, within = without_line_breaks(text, inlines)
            kept = [kept[place] for place in within]
        starts, ends = (array("I", [places[place] for place in kept]) for places in (self._starts, self._ends))
        return [
            Block(
                text=text,
                inlines=inlines,
                spellings=dict(self._spellings),
                starts=starts,
                ends=ends,
                escapes=self._escapes,
            )
        ]

    def _pass(self, raw: str) -> None:
        self._raw.append(raw)
        self.place += len(raw)

    def _take(self, raw: str, text: str) -> None:
        start, end = self.place, self.place + len(raw)
        if len(raw) == len(text):
            self._starts.extend(range(start, end))
            self._ends.extend(range(start + 1, end + 1))
        else:
            self._starts.extend(repeat(start, len(text)))
            self._ends.extend(repeat(end, len(text)))
        self._pass(raw)
        self._texts.append(text)
        self._length += len(text)
        self._depth_of_end = None

    def _part_words(self, text: str) -> None:
        """Add a space for the model between the words of two elements that touch, as in <b>Bold</b><i>Italic</i>."""
        depth = self._depth_of_end
        if depth is None or depth == len(self._open) or not (text[:1].isupper() and self._texts[-1][-1:].islower()):
            return
        self._open[depth - 1].inlines.append(Inline(start=self._length, end=self._length, opening="", is_space=True))
        self._take("", " ")
        for element in self._open[depth:]:
            element.start = self._length

    def _add(self, inline: Inline) -> None:
        self._open[-1].inlines.append(inline)

    def _close(self, closing: str, *, reaches_end: bool = False) -> None:
        element = self._open.pop()
        self._add(
            Inline(
                start=element.start,
                end=self._length,
                opening=element.raw,
                closing=closing,
                children=tuple(element.inlines),
                reaches_end=reaches_end,
            )
        )


def _joined(parts: Iterable[str | Block]) -> Iterator[str | Block]:
    """Yield parts of a content; characters between two blocks together."""
    characters: list[str] = []
    for part in parts:
        if isinstance(part, str):
            characters.append(part)
        else:
            yield "".join(characters)
            characters.clear()
            yield part
    yield "".join(characters)


class BlockSequence:
    """The blocks of a content, and the parts between them, under construction."""

    def __init__(self, *, start: int = 0, keeps_lines: bool = False, escapes: Mapping[str, str] = ESCAPED) -> None:
        """Begin at a place of the content; the other arguments are those of a builder."""
        self._make = partial(BlockBuilder, keeps_lines=keeps_lines, escapes=escapes)
        self._parts: list[str | Block] = []
        self.builder = self._make(start)
        """Builder of the block in progress."""

    def end_block(self, raw: str) -> None:
        """End the block in progress at some characters of the content."""
        self._parts += self.builder.build()
        self._parts.append(raw)
        self.builder = self._make(self.builder.place + len(raw))

    def parts(self) -> list[str | Block]:
        """Return the blocks, and the parts between them."""
        return [*self._parts, *self.builder.build()]


class TextCarrier(Protocol):
    """Puts the text between two tags into its block, and elements that are not translated."""

    def add_run(self, sequence: BlockSequence, tokens: Sequence[MarkupToken]) -> None:
        """Add tokens of text."""

    def add_element(self, sequence: BlockSequence, raw: str, text: str) -> None:
        """Add an element that is not translated, with its text."""


def parse(content: str, content_format: ContentFormat, carrier: TextCarrier | None = None) -> tuple[str | Block, ...]:
    """Cut content into blocks and what stays between; raise MarkupError if it cannot be read, or is over a limit."""
    if len(content) > MAX_MARKUP_CHARACTERS:
        raise MarkupError(f"must have at most {MAX_MARKUP_CHARACTERS} characters with markup, has {len(content)}")
    tokens = list(html_tokens(content) if content_format is ContentFormat.HTML else xml_tokens(content))
    count = sum(token.kind is not TokenKind.TEXT for token in tokens)
    if count > MAX_TAGS:
        raise MarkupError(f"must have at most {MAX_TAGS} tags, has {count}")
    return tuple(_parts(tokens, carrier))


def _parts(tokens: Iterable[MarkupToken], carrier: TextCarrier | None) -> list[str | Block]:
    remaining = iter(tokens)
    sequence = BlockSequence()
    run: list[MarkupToken] = []
    for token in remaining:
        if token.kind is TokenKind.TEXT and not token.is_block:
            run.append(token)
            continue
        _add_run(sequence, run, carrier)
        run.clear()
        raw, text, is_verbatim = token.raw, "", token.kind in (TokenKind.EMPTY, TokenKind.OTHER)
        if token.kind is TokenKind.OPEN and _is_untranslated(token):
            is_verbatim = True
            raw, text = _element(token, remaining)
        builder = sequence.builder
        if token.is_block:
            sequence.end_block(raw)
        elif is_verbatim:
            if carrier and text:
                carrier.add_element(sequence, raw, text)
            else:
                builder.add_verbatim(raw, text)
        elif token.kind is TokenKind.OPEN:
            builder.open(token)
        else:
            builder.close(token)
    _add_run(sequence, run, carrier)
    return sequence.parts()


def _add_run(sequence: BlockSequence, run: Sequence[MarkupToken], carrier: TextCarrier | None) -> None:
    if carrier and run:
        carrier.add_run(sequence, run)
    else:
        for token in run:
            sequence.builder.add_text(token)


def _is_untranslated(token: MarkupToken) -> bool:
    attributes = token.attributes
    marked = "no" in (attributes.get("translate"), attributes.get("its:translate"))
    return marked or token.name in _UNTRANSLATED or "notranslate" in (attributes.get("class") or "").split()


def _element(start: MarkupToken, following: Iterator[MarkupToken]) -> tuple[str, str]:
    """Take an element up to its end; return its characters and its text."""
    raw, text, depth = [start.raw], [], 1
    for token in following:
        raw.append(token.raw)
        text.append(token.text)
        if token.name == start.name:
            depth += {TokenKind.OPEN: 1, TokenKind.CLOSE: -1}.get(token.kind, 0)
        if not depth:
            break
    return "".join(raw), "" if start.name in _INVISIBLE else "".join(text)
