"""Documents that are text: translations take the places of spans, and every other byte stays."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from xuanzang.documents.document import IN_PROSE, Unit, UnwritableError
from xuanzang.documents.encoding import EncodedText

_ADDRESS = re.compile(r"(?:[a-z][a-z0-9+.-]*://|www\.|mailto:)\S+|[^\s@]+@[^\s@]+\.[a-z]+", re.IGNORECASE)
_IDENTIFIER = re.compile(
    r"[a-z_$][\w$-]*+(?:[.:][a-zA-Z_$][\w$-]*+)++|:[a-z_]\w*+"  # common.buttons.save
    r"|[a-z]++(?:_[a-z0-9]++)++|[A-Z]++(?:_[A-Z0-9]++)++|[a-z]++(?:[A-Z][a-z0-9]++)++"
    r"|(?:[\w@.~-]*+/)*+[\w@~-]++(?:\.[\w@~-]++)*?\.(?:png|jpe?g|gif|svg|webp|ico|css|jsx?|tsx?|json|html?|xml|pdf|mp[34]|md|txt)"
    r"|(?:[\w@.~-]++)?(?:/[\w@.~-]++){2,}+/?|[a-z]{2,3}[-_](?:[A-Z]{2}|[A-Z][a-z]{3})"
    r"|#[0-9a-fA-F]{3,8}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-f]{32,}+"
    r"|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-][\d:]+)?"
    r"|(?:DD?|MM?|YYYY|YY|dd?|yyyy|yy|HH?|hh?|mm|ss)"
    r"(?:[-/.:, T]+(?:DD?|M{1,4}|YYYY|YY|dd?|yyyy|yy|HH?|hh?|mm|ss|A|a))++"
)
_CJK = r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
_BROKEN_CJK = re.compile(rf"(?<={_CJK})[ \t]*[\r\n]\s*(?={_CJK})")
_WHITE_SPACE = re.compile(r"[ \t\r\n\f\v]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A span that translations replace."""

    start: int
    """Index of its first character."""
    end: int
    """Index after its last character."""
    texts: tuple[str, ...]
    """Texts to translate; without a translation of each, the span stays. Empty: the edit follows from the others, such
    as the name of the target language, and is made if one of them is."""
    render: Callable[[tuple[str, ...]], str]
    """Function from the translations to what takes the place of the span; it raises UnwritableError if it cannot."""
    fills: bool = False
    """True if the span holds the translation and not its source; it is filled even with an equal text."""
    is_ordered: bool = False
    """True if placeholders must keep their order."""


def translatable(text: str) -> bool:
    """Return whether a text has letters, and is no URL or e-mail address."""
    return any(map(str.isalpha, text)) and not _ADDRESS.fullmatch(text.strip())


def is_identifier(text: str) -> bool:
    """Return whether a message of a program is a name, a path or a code instead of words."""
    return bool(_IDENTIFIER.fullmatch(text))


def flowing(text: str) -> str:
    """Return a text with each run of white space as one space, and none where a line of Chinese or Japanese breaks."""
    return _WHITE_SPACE.sub(" ", _BROKEN_CJK.sub("", text))


def one_line(translation: str) -> str:
    """Return a translation with line ends as spaces."""
    return _WHITE_SPACE.sub(" ", translation) if "\n" in translation or "\r" in translation else translation


def parted(value: str) -> tuple[str, str, str]:
    """Return the white space before a text, the text, and the white space after it."""
    start, end = stripped_span(value, 0, len(value))
    return value[:start], value[start:end], value[end:]


def stripped_span(source: str, start: int, end: int) -> tuple[int, int]:
    """Return a span without the white space at both its ends."""
    content = source[start:end].lstrip()
    start = end - len(content)
    return start, start + len(content.rstrip())


def replacement(start: int, end: int, text: str, write: Callable[[str], str]) -> Iterator[Edit]:
    """Yield an edit that replaces a span by the translation of its text, unless there is nothing to translate.

    Args:
        start: Index of the first character.
        end: Index after the last one.
        text: What the span says.
        write: Function from the translation to what the file holds.
    """
    if translatable(text):
        yield Edit(start=start, end=end, texts=(text,), render=lambda found: write(found[0]))


def spliced(
    source: str, edits: Sequence[Edit], translations: Mapping[str, str], unwritten: list[Edit] | None = None
) -> str:
    """Return a text with its edits made.

    Args:
        edits: Spans in their order, none inside another.
        translations: Translations by text.
        unwritten: List that receives the edits that could not be made.

    Raises:
        UnwritableError: An edit cannot be made, and there is no such list.
    """
    made = [(edit, found) for edit in edits if (found := _found(edit, translations)) is not None]
    pieces: list[str] = []
    at = 0
    for edit, found in made if any(edit.texts for edit, _ in made) else ():
        try:
            written = edit.render(found)
        except UnwritableError:
            if unwritten is None:
                raise
            unwritten.append(edit)
            continue
        pieces += source[at : edit.start], written
        at = edit.end
    return "".join(pieces) + source[at:]


def _found(edit: Edit, translations: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the translations of an edit; None: it is not made."""
    found = tuple(translations[text] for text in edit.texts if text in translations)
    is_changed = found != edit.texts or edit.fills or not edit.texts
    return found if len(found) == len(edit.texts) and is_changed else None


class SplicedDocument:
    """A document of one text.

    Args:
        edits: Spans that translations replace, in their order.
        placeholders: Families of the placeholders that translations carry.
        is_html: Whether texts are HTML.
        errors: What becomes of characters that the encoding lacks, as in `str.encode`.
    """

    def __init__(
        self,
        source: EncodedText,
        edits: Sequence[Edit],
        *,
        placeholders: tuple[str, ...] = IN_PROSE,
        is_html: bool = False,
        errors: str = "strict",
    ) -> None:
        self.placeholders, self.is_html = placeholders, is_html
        self.unwritten: tuple[Unit, ...] = ()
        self._source = source
        self._edits = edits
        self._errors = errors

    def units(self) -> Iterator[Unit]:
        """Yield the texts to translate with their lines."""
        yield from self._units(self._edits)

    def _units(self, edits: Sequence[Edit]) -> Iterator[Unit]:
        line, at = 1, 0
        for edit in edits:
            line += self._source.text.count("\n", at, edit.start)
            at = edit.start
            for text in edit.texts:
                yield Unit(text=text, where=f"line {line}", is_ordered=edit.is_ordered)

    def render(self, translations: Mapping[str, str]) -> bytes:
        """Return the file with translations."""
        unwritten: list[Edit] = []
        text = spliced(self._source.text, self._edits, translations, unwritten)
        self.unwritten = tuple(self._units(unwritten))
        return self._source.encode(text, errors=self._errors)
