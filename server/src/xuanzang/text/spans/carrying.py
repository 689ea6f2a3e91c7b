"""Texts cut into blocks whose placeholders are carried: elements of the blocks, with words that stand in for them.

A placeholder is an inline element of its block, as a tag is, so that the alignment of the words puts it where it
belongs. The model reads a short word in its place, such as "#1", which it copies; the word says where the placeholder
stands in a sentence and what the sentence says of it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cache

from xuanzang.text.catalogue import Found, find
from xuanzang.text.markup.document import Block
from xuanzang.text.markup.parsing import BlockSequence
from xuanzang.text.markup.tokens import VOID, MarkupError, MarkupToken, TokenKind, unescaped
from xuanzang.text.placeholder_patterns import Role
from xuanzang.text.spans.blanks import (
    BRACKETS,
    blanks,
    blanks_of_markup,
    foreign_words,
    has_blanks,
    unknown_characters,
    unknown_words,
)
from xuanzang.text.spans.messages import ESCAPES, Choice, Literal, Message, parse_message, raw_of
from xuanzang.text.types import PlaceholderFamily

MAX_PLACEHOLDERS = 2000
"""Maximum placeholders of one text."""
# Characters between two placeholders that are read as one.
_GLUE = re.compile(r" ?[-/:|=x×+*_@~]? ?|[.,]?")
# A number that is a part of another one; a fraction has the same sense in any language, and keeps their order.
_INTEGER = r"%[-+0-9.']{0,8}(?:hh?|ll?|[qjztL])?[diu]"
_PART_OF = re.compile(
    rf"({_INTEGER}(?: ?(?:[kKMGT]i?)?B| ?%%)?|%s) (?:out )?of (?:the )?({_INTEGER}|%s)| ?页[，,、]? ?共 ?"
)
_COUNTED = re.compile(r" (?:[a-z]{2,16} )?[a-z]{2,16}(?:s|ed)\b")
# A percentage; a bare sign after a conversion, as in "%d%", would be another conversion.
_SHARE = re.compile(
    r"(?:百分之 ?)?(%(?:\(\w{1,64}\)|\d{1,2}\$)?[-+0-9.]{0,8}(?:hh?|ll?|[qjztL])?[diufsg])(?: percent)?"
)
# A text that has a word without any sign, and no bracket that may be around it.
_PLAIN = re.compile(r"(?=(?:\S+ )?[A-Za-z]+[ ,.!?])[^{}<>\[\]%`\\]*$")
_TAG_NAME = re.compile(r"[<\[]/?([^\s/>\]=]*)")
_HTML = frozenset(
    "a abbr b bdi bdo big br cite code dd del details dfn div dl dt em font h1 h2 h3 h4 h5 h6 hr i iframe img "  # noqa: SIM905
    "input ins kbd label li mark ol option p pre q s samp script select small span strike strong style sub summary sup "
    "table tbody td textarea th thead time tr tt u ul var video wbr".split()
)
_CODE_SIGNS = re.compile(r"[\[\]{}<>|\\*@^~`$#%=]")
_APOSTROPHES = ("'", "’")
_QUOTES = frozenset("\"'`´“”‘’„‚«»‹›「」『』")
# Signs whose sense a sentence needs, and that a model copies.
_SPOKEN_SIGNS = frozenset("<>")
_CURRENCIES = frozenset("$€£¥₹₽₩₺¢")
_AFTER_NUMBERS = _CURRENCIES | {"°"}
_AMOUNT = re.compile(r"(?:&nbsp;| )?[0-9]++(?:[.,][0-9]++)*+(?P<more>\s?(?:[mb]illion|thousand|[万亿]))?")
_DEGREES = re.compile(r"[CF](?![A-Za-z])|")
_AMOUNT_BEFORE = re.compile(r"[0-9]++(?:[.,][0-9]{1,16}+){0,8}(?:&nbsp;|\xa0| )?$")
_EMPHASIS = frozenset("*_~='|")
_BRACKETS = frozenset((*BRACKETS, *BRACKETS.values()))
_MAX_NAME = 32
_NAME_BEFORE = re.compile(r"[A-Za-z0-9]{1,32}+$")
_NAME = re.compile(r"[A-Za-z0-9]{1,32}+")
_WORDS = ("#{}", "X{}", "{{{}}}", "Q{}", "[{}]")
_EVERYWHERE = frozenset(PlaceholderFamily) - {PlaceholderFamily.ICU}

Words = Callable[[int], str]
"""Function from the number of a placeholder to the word that stands in for it; empty if none does."""


def has_letters(text: str) -> bool:
    """Return whether a text has a letter of any script."""
    return any(map(str.isalpha, text))


def is_no_language(text: str) -> bool:
    """Return whether a text has no letters but those of placeholders of any family."""
    if not has_letters(text):
        return True
    if _PLAIN.match(text):
        # Most texts, in a fraction of the time.
        return False
    return text.isascii() and len(text) <= MAX_PLACEHOLDERS and not has_letters(without_placeholders(text, _EVERYWHERE))


def without_placeholders(text: str, families: Set[PlaceholderFamily]) -> str:
    """Return a text with a space for each placeholder."""
    end, rest = 0, list[str]()
    for span in find(text, families):
        rest += text[end : span.start], " "
        end = span.end
    return "".join((*rest, text[end:]))


def stand_ins(text: str, is_usable: Callable[[str], bool]) -> Words:
    """Return words that a text does not have yet, and that are usable, or else none; they are chosen once needed."""
    chosen: list[str] = []

    def word(number: int) -> str:
        if not chosen:
            chosen.append(next((each for each in _WORDS if _is_new(each, text) and is_usable(each.format(1))), ""))
        return chosen[0].format(number)

    return word


def _is_new(word: str, text: str) -> bool:
    before, after = map(re.escape, word.format("\n").split("\n"))
    return re.search(f"{before}[0-9]+{after}", text) is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Text between two tags."""

    text: str
    raws: Sequence[str] | None = None
    """Characters of the content for each character of the text; None: the same ones."""

    def raw(self, start: int, end: int) -> str:
        """Return the characters of the content that some characters of the text were read from."""
        return self.text[start:end] if self.raws is None else "".join(self.raws[start:end])

    def tokens(self, start: int, end: int) -> Iterator[MarkupToken]:
        """Yield the text between two places; a reference is a separate token."""
        if self.raws is None:
            if start < end:
                yield MarkupToken(TokenKind.TEXT, self.text[start:end], text=self.text[start:end])
            return
        plain = start
        for place in range(start, end):
            if self.raws[place] != self.text[place]:
                yield from Run(text=self.text).tokens(plain, place)
                yield MarkupToken(TokenKind.TEXT, self.raws[place], text=self.text[place])
                plain = place + 1
        yield from Run(text=self.text).tokens(plain, end)

    @classmethod
    def of(cls, tokens: Sequence[MarkupToken]) -> Run:
        """Join tokens of text."""
        text = "".join(token.text for token in tokens)
        if all(token.raw == token.text for token in tokens):
            return cls(text=text)
        raws: list[str] = []
        for token in tokens:
            is_same = token.raw == token.text
            raws += token.text if is_same else (token.raw, *[""] * (len(token.text) - 1))
        return cls(text=text, raws=raws)


class Carrier:
    """Puts texts into blocks, their placeholders as elements."""

    def __init__(
        self,
        families: Set[PlaceholderFamily],
        text: str,
        is_usable: Callable[[str], bool],
        *,
        foreign: Set[str] = frozenset(),
        knows: Callable[[str], bool] = bool,
    ) -> None:
        """Begin with a text.

        Args:
            families: Families of placeholders that are carried.
            text: The text, or content with markup.
            is_usable: Whether the model reads and writes a word as it is.
            foreign: Scripts of words that stay, because no language of the model has them.
            knows: Whether the model's vocabulary has the characters of a text.
        """
        self._text, self._knows = text, cache(knows)
        self._foreign = foreign
        self._unknown = unknown_characters(text, self._knows, with_letters=bool(families))
        self._read = {ord(each): read for each, read in self._unknown.items() if read}
        self._is_usable = is_usable
        self._families = families - {PlaceholderFamily.ICU}
        self._parses = PlaceholderFamily.ICU in families
        self._asks = bool(families)
        self._words = stand_ins(text, is_usable)
        self._count = 0

    def parts_of_text(self, text: str) -> tuple[str | Block, ...] | None:
        """Cut a text without markup into blocks; None if nothing of it is carried.

        Raises:
            MarkupError: It has too many placeholders.
        """
        message = parse_message(text) if self._parses else None
        if message is not None:
            sequence = BlockSequence(keeps_lines=True, escapes=ESCAPES)
            self._add_message(sequence, message)
            return tuple(sequence.parts())
        spans = self._spans(text, self._families, blanks(text))
        if not spans and not self._read:
            return None
        sequence = BlockSequence(keeps_lines=True, escapes={})
        self._add(sequence, Run(text=text), _with_pairs(text, spans))
        return tuple(sequence.parts())

    def add_run(self, sequence: BlockSequence, tokens: Sequence[MarkupToken]) -> None:
        """Add the text between two tags of markup to its block."""
        run = Run.of(tokens)
        self._add(
            sequence, run, self._spans(run.text, self._families - {PlaceholderFamily.TAGS}, blanks_of_markup(run.text))
        )

    def _spans(self, text: str, families: Set[PlaceholderFamily], more: Iterable[Found]) -> list[Found]:
        """Find the carried spans, in the order of the text; adjacent ones are joined."""
        odd = more if text.isascii() else self._odd(text, more)
        found = sorted((*(find(text, families) if families else ()), *odd), key=lambda span: (span.start, -span.end))
        kept: list[Found] = []
        for each in found:
            span = _whole_name(text, each) if text[each.start] == "&" else each
            while kept and span.start < kept[-1].start:
                # An amount reaches back over its space.
                kept.pop()
            last = kept[-1] if kept else None
            if last and span.start < last.end:
                span = each
            if last and span.start < last.end:
                continue
            if last and span.role is last.role is Role.VALUE and _is_one(text, last, span):
                kept[-1] = last._replace(end=span.end, is_ordered=last.is_ordered or span.is_ordered)
            else:
                kept.append(span)
        if len(kept) + self._count > MAX_PLACEHOLDERS:
            if not self._asks:
                # Without a request for them, the model translates them.
                return []
            raise MarkupError(f"must have at most {MAX_PLACEHOLDERS} placeholders")
        return kept

    def _odd(self, text: str, more: Iterable[Found]) -> Iterator[Found]:
        """Yield words that the model does not know, and other spans except brackets that it knows."""
        yield from foreign_words(text, self._foreign)
        yield from (each for each in more if text[each.start] not in _BRACKETS or not self._knows(text[each.start]))
        unread = "".join(character for character, read in self._unknown.items() if not read)
        for each in unknown_words(text, unread):
            # Without a word that stands in for it, what the model makes of it says where it belongs.
            is_read = each.role is Role.VALUE and not self._asks
            yield each._replace(role=Role.SIGN) if is_read else each

    def _add(self, sequence: BlockSequence, run: Run, spans: Iterable[Found]) -> None:
        end = 0
        for span in spans:
            self._add_text(sequence, run.tokens(end, span.start))
            self._add_span(sequence, span, run.raw(span.start, span.end))
            end = span.end
        self._add_text(sequence, run.tokens(end, len(run.text)))

    def _add_text(self, sequence: BlockSequence, tokens: Iterable[MarkupToken]) -> None:
        for token in tokens:
            read = token.text.translate(self._read) if self._read else token.text
            sequence.builder.add_text(token._replace(text=read) if read != token.text else token)

    def _add_span(self, sequence: BlockSequence, span: Found, raw: str) -> None:
        builder = sequence.builder
        match span.role:
            case Role.BREAK:
                sequence.end_block(raw)
            case Role.SPACE:
                builder.add_space(raw)
            case Role.POINT if raw[0] == "&" and raw[-1] == ";" and len(raw) == span.end - span.start:
                self._add_entity(sequence, span, raw)
            case Role.POINT:
                builder.add_verbatim(raw)
            case Role.SIGN:
                self._add_sign(sequence, span, raw)
            case Role.OPEN if builder.is_deep and raw in _BRACKETS:
                builder.add_verbatim(raw)
            case Role.OPEN:
                builder.open(MarkupToken(TokenKind.OPEN, raw, _tag_name(raw)))
            case Role.CLOSE:
                builder.close(MarkupToken(TokenKind.CLOSE, raw, _tag_name(raw)))
            case Role.VALUE:
                # A caller that asks for nothing gets no refusal.
                word = self._word() if self._asks else ""
                builder.add_placeholder(raw, word, is_ordered=span.is_ordered, written=_written(raw))

    def _add_entity(self, sequence: BlockSequence, span: Found, raw: str) -> None:
        decoded = html.unescape(raw)
        if decoded != raw and (has_letters(decoded) or (decoded in _APOSTROPHES and sequence.builder.is_in_word)):
            # A part of a word, which a translation has at another place, or lacks; then it is refused.
            sequence.builder.add_text(MarkupToken(TokenKind.TEXT, raw, text=decoded))
        elif decoded.isspace():
            sequence.builder.add_space(raw)
        elif decoded in _QUOTES or has_blanks(decoded):
            sequence.builder.add_verbatim(raw)
        elif self._is_stand_in(decoded):
            sequence.builder.add_placeholder(raw, decoded)
        else:
            self._add_span(sequence, span._replace(role=Role.VALUE), raw)

    def _is_stand_in(self, decoded: str) -> bool:
        """Return whether the sign of an entity may stand in for it, as € for the amount behind &euro;."""
        if not (self._asks and decoded in _SPOKEN_SIGNS and self._is_usable(decoded)):
            return False
        return unescaped(self._text).count(decoded) == 1

    def _add_sign(self, sequence: BlockSequence, span: Found, raw: str) -> None:
        builder = sequence.builder
        decoded = unescaped(raw) if "&" in raw else raw
        is_single = len(set(decoded)) == len(decoded) and not has_letters(decoded)
        is_unknown = not self._asks and not self._unknown.keys().isdisjoint(decoded)
        if is_unknown or (is_single and self._is_usable(decoded)):
            builder.add_verbatim(raw, decoded)
        elif not builder.is_in_word or has_letters(decoded):
            self._add_span(sequence, span._replace(role=Role.VALUE), raw)
        else:
            builder.add_verbatim(raw)

    def add_element(self, sequence: BlockSequence, raw: str, text: str) -> None:
        """Add an element that is not translated; a word stands in for one whose text has signs of a program."""
        if _CODE_SIGNS.search(text) and (word := self._word()):
            sequence.builder.add_placeholder(raw, word)
        else:
            sequence.builder.add_verbatim(raw, text)

    def _word(self) -> str:
        self._count += 1
        return self._words(self._count)

    def _add_message(self, sequence: BlockSequence, message: Message) -> None:
        for part in message:
            if isinstance(part, Choice):
                nested = tuple(self._cases(part, sequence.builder.place))
                sequence.builder.add_placeholder(part.raw, self._word(), nested=nested)
            elif isinstance(part, Literal) and part.raw == part.text:
                spans = self._spans(part.text, self._families - {PlaceholderFamily.BRACES}, blanks(part.text))
                self._add(sequence, Run(text=part.text), _with_pairs(part.text, spans))
            elif isinstance(part, Literal):
                sequence.builder.add_text(MarkupToken(TokenKind.TEXT, part.raw, text=part.text))
            else:
                sequence.builder.add_placeholder(part.raw, self._word())

    def _cases(self, choice: Choice, start: int) -> Iterator[str | Block]:
        """Yield the syntax of an argument and the blocks of its messages."""
        for part in choice.parts:
            if isinstance(part, str):
                yield part
                start += len(part)
            else:
                sequence = BlockSequence(start=start, keeps_lines=True, escapes=ESCAPES)
                self._add_message(sequence, part)
                yield from sequence.parts()
                start += len(raw_of(part))


def _written(raw: str) -> str:
    """Return the form of a placeholder in a translation: signs in place of words that two languages order otherwise."""
    share = _SHARE.fullmatch(raw)
    if share:
        return raw if share[0] == share[1] else f"{share[1]}%%"
    return _PART_OF.sub(lambda part: f"{part[1] or ''}/{part[2] or ''}", raw)


def _is_one(text: str, first: Found, second: Found) -> bool:
    """Return whether two placeholders are read as one."""
    if _GLUE.fullmatch(text, first.end, second.start):
        return True
    if _PART_OF.fullmatch(text, first.end, second.start):
        # 第 {0} 页，共 {1} 页
        return text[max(0, first.start - 2) : first.start].strip() == "第"
    part = _PART_OF.fullmatch(text, first.start, second.end) if first.is_ordered and second.is_ordered else None
    return part is not None and ("%s" not in part[0] or _COUNTED.match(text, second.end) is not None)


def _whole_name(text: str, entity: Found) -> Found:
    """Return the name or the amount that an entity is within, as in AT&amp;T and &euro;5, or else the entity."""
    decoded = html.unescape(text[entity.start : entity.end])
    before = text[max(0, entity.start - _MAX_NAME) : entity.start]
    if decoded == "&" and (first := _NAME_BEFORE.search(before)) and (last := _NAME.match(text, entity.end)):
        return Found(entity.start - len(first[0]), last.end(), Role.VALUE)
    if decoded in _CURRENCIES and (last := _AMOUNT.match(text, entity.end)):
        # The model reads "£3.5 million" better than a word that stands in for a part of it.
        return entity._replace(role=Role.SIGN) if last["more"] else Found(entity.start, last.end(), Role.VALUE)
    if decoded in _AFTER_NUMBERS and (first := _AMOUNT_BEFORE.search(before)):
        unit = _DEGREES.match(text, entity.end) if decoded == "°" else None
        return Found(entity.start - len(first[0]), unit.end() if unit else entity.end, Role.VALUE)
    return entity


def _tag_name(raw: str) -> str:
    """Return the name of a tag, which a bracket is, too: the closing one's; a sign of emphasis is its own name."""
    if raw[0] in _EMPHASIS:
        return raw
    if raw in _BRACKETS:
        return BRACKETS.get(raw, raw)
    found = _TAG_NAME.match(raw)
    return found[1].lower() if found else ""


def _with_pairs(text: str, spans: Sequence[Found]) -> Iterator[Found]:
    """Yield spans; a tag without its pair is an element without content, or a placeholder if HTML has no such tag."""
    opened: dict[str, list[int]] = {}
    paired: set[int] = set()
    for number, span in enumerate(spans):
        if span.role is Role.OPEN and not text.endswith("/>", span.start, span.end):
            opened.setdefault(_tag_name(text[span.start : span.end]), []).append(number)
        elif span.role is Role.CLOSE and (waiting := opened.get(_tag_name(text[span.start : span.end]))):
            paired |= {number, waiting.pop()}
    for number, span in enumerate(spans):
        if span.role not in (Role.OPEN, Role.CLOSE) or number in paired:
            yield span
            continue
        name = _tag_name(text[span.start : span.end])
        is_empty = name in _HTML or name in VOID or name in _BRACKETS or span.role is Role.CLOSE
        yield span._replace(role=Role.POINT if is_empty else Role.VALUE)
