"""Strings of Android (strings.xml): strings, items of arrays and of plurals; all other bytes stay.

Source: "String resources" in the guides for Android developers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xuanzang.documents.document import IN_MESSAGES, Document, DocumentError, ReadSettings, UnwritableError
from xuanzang.documents.formats.xml.xml_tokens import FORBIDDEN, Token, decoded_xml, escaped, tokens, unescaped
from xuanzang.documents.splicing import Edit, SplicedDocument, is_identifier, parted, stripped_span, translatable

_LISTS = ("string-array", "plurals")
_CDATA, _CDATA_END = "<![CDATA[", "]]>"
_TAG = re.compile(r"""(</?[^\W\d](?:[^<>"']|"[^"<]*+"|'[^'<]*+')*+>)""")
"""A tag among the characters of a string."""
_TAG_OR_ELEMENT = re.compile(
    rf"({_TAG.pattern[1:-1]}|<!--(?:[^-]|-(?!->))*+-->|<\?(?:[^?]|\?(?!>))*+\?>|\{{xliff\d+\}})"
)
_NAME = re.compile(r"</?([^\W\d][^\s/>]*)")
_REFERENCE = re.compile(r"[@?][*+]?(?:[\w.]+:)?(?:\w+/)?[\w.]+")
"""A string that names another one, or an attribute."""
_CHARACTERS = re.compile(
    r'(?P<space>[ \t\r\n]+)|(?P<mark>")|\\u(?P<code>[0-9a-fA-F]{4})|\\(?P<escaped>.)|[^ \t\r\n"\\]+|\\', re.DOTALL
)
_NAMED = {"n": "\n", "N": "\n", "t": "\t", "T": "\t"}
_WRITTEN = str.maketrans({"\\": "\\\\", "\n": "\\n", "\t": "\\t", "'": "\\'", '"': '\\"'})
_SPACE = "\\u0020"


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read strings of Android; see `Format`."""
    source = decoded_xml(raw, settings.encoding, depth=settings.limits.depth)
    edits = list(_edits(list(tokens(source.text))))
    return SplicedDocument(source, edits, placeholders=IN_MESSAGES, errors="xmlcharrefreplace")


def _edits(tokens: Sequence[Token]) -> Iterator[Edit]:
    """Yield the edits of all strings that are translatable.

    Raises:
        DocumentError: The root is no <resources>.
    """
    opened: list[tuple[str, int, bool]] = []
    """Names of the open elements, the places after their tags, and whether they are translated."""
    for place, token in enumerate(tokens):
        if token.is_start:
            if not opened and token.name != "resources":
                raise DocumentError("no strings of Android: it has no <resources>")
            is_translated = token.attributes.get("translatable") != "false" and (not opened or opened[-1][2])
            is_string = token.name == "item" and len(opened) == 1 and token.attributes.get("type") == "string"
            opened.append(("string" if is_string else token.name, place + 1, is_translated))
        if token.is_end:
            name, start, is_translated = opened.pop()
            around = [each for each, _, _ in opened[1:]]
            is_item = name == "item" and len(around) == 1 and around[0] in _LISTS
            if is_translated and (is_item or (name == "string" and not around)):
                for message in _messages(tokens[start:place]):
                    yield from message.edits()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    """A string, or a part of one."""

    start: int
    """Index of its first character in the file."""
    raw: str
    """Its characters in the file."""
    text: str
    """Text to translate, with its tags."""
    tags: Sequence[tuple[str, str]]
    """Tags in the text, each with its characters in the file."""
    spell: Callable[[str], str]
    """Function from text between tags to characters of the file."""
    is_markup: bool
    """True if tags are elements of the file."""

    def edits(self) -> Iterator[Edit]:
        """Yield its edit, unless it is no text for readers."""
        _, text, _ = parted(self.text)
        if translatable(text) and not is_identifier(text) and not _REFERENCE.fullmatch(text):
            yield Edit(start=self.start, end=self.start + len(self.raw), texts=(text,), render=self._written)

    def _written(self, found: tuple[str, ...]) -> str:
        before, after = (each.translate(_WRITTEN).replace(" ", _SPACE) for each in parted(self.text)[::2])
        spelled = self._spelled(found[0])
        is_name = not before and spelled.startswith(("@", "?"))
        return before + "\\" * is_name + spelled + after

    def _spelled(self, translation: str) -> str:
        """Return a translation as the file has it.

        Raises:
            UnwritableError: It has other tags than the text, or a character that XML forbids.
        """
        spelled = dict(self.tags)
        parts = (_TAG_OR_ELEMENT if self.is_markup else _TAG).split(translation)
        tags = [tag for tag in parts[1::2] if self.is_markup or tag in spelled]
        is_nested = not self.is_markup or _is_nested([spelled.get(tag, tag) for tag in tags])
        if Counter(tags) != Counter(tag for tag, _ in self.tags) or not is_nested or FORBIDDEN.search(translation):
            raise UnwritableError("its translation has other tags than its text, or a character that XML forbids")
        parts[::2] = map(self.spell, parts[::2])
        parts[1::2] = (spelled[tag] if tag in spelled else self.spell(tag) for tag in parts[1::2])
        return "".join(parts)


def _is_nested(tags: Sequence[str]) -> bool:
    """Return whether each element among some tags ends, and begins before."""
    opened: list[str] = []
    for tag in tags:
        name = _NAME.match(tag)
        if name and tag.startswith("</"):
            if not opened or opened.pop() != name[1]:
                return False
        elif name and not tag.endswith(("/>", f"</{name[1]}>")):
            opened.append(name[1])
    return not opened


def _messages(content: Sequence[Token]) -> Iterator[_Message]:
    """Yield the messages of a string: one, or if it has CDATA sections, one for each of them and each text."""
    has_sections = any(token.raw.startswith(_CDATA) for token in content)
    if has_sections or all(token.is_text for token in content):
        yield from map(_plain, (token for token in content if token.is_text or token.raw.startswith(_CDATA)))
    else:
        yield _marked_up(content)


def _plain(token: Token) -> _Message:
    """Return the message of a text or a CDATA section, whose tags are characters."""
    if token.is_text:
        start, end = stripped_span(token.raw, 0, len(token.raw))
        characters = unescaped(token.raw[start:end])
    else:
        start, end = stripped_span(token.raw, len(_CDATA), len(token.raw) - len(_CDATA_END))
        characters = token.raw[start:end]
    reader = _Reader()
    parts = _TAG.split(characters)
    parts[::2] = map(reader.text, parts[::2])
    return _Message(
        start=token.start + start,
        raw=token.raw[start:end],
        text="".join(parts),
        tags=[(tag, escaped(tag) if token.is_text else tag) for tag in parts[1::2]],
        spell=_escaped if token.is_text else _in_section,
        is_markup=False,
    )


def _marked_up(content: Sequence[Token]) -> _Message:
    """Return the message of a string with elements: XML but for the escapes of Android."""
    raws = [token.raw for token in content]
    raws[0] = raws[0].lstrip()
    raws[-1] = raws[-1].rstrip()
    reader, parts, tags = _Reader(), list[str](), list[tuple[str, str]]()
    held, depth = "", 0
    for token, raw in zip(content, raws, strict=True):
        if held or (token.is_start and token.name == "g"):
            # An element of <xliff:g> is a placeholder.
            held, depth = held + raw, depth + token.is_start - token.is_end
            if depth == 0:
                parts.append(f"{{xliff{len(tags) + 1}}}")
                tags.append((parts[-1], held))
                held = ""
        elif token.is_text:
            parts.append(escaped(reader.text(unescaped(raw))))
        else:
            parts.append(raw)
            tags.append((raw, raw))
    return _Message(
        start=content[0].end - len(raws[0]),
        raw="".join(raws),
        text="".join(parts),
        tags=tags,
        spell=lambda text: _escaped(unescaped(text)),
        is_markup=True,
    )


class _Reader:
    """Reader of the characters of a string; white space counts within its quotation marks."""

    def __init__(self) -> None:
        self._is_quoted = False

    def text(self, characters: str) -> str:
        """Return the text that some characters stand for."""
        return _CHARACTERS.sub(self._character, characters)

    def _character(self, found: re.Match[str]) -> str:
        if found["mark"]:
            self._is_quoted = not self._is_quoted
            return ""
        if found["space"]:
            return found[0] if self._is_quoted else " "
        if found["code"]:
            return chr(int(found["code"], 16))
        return _NAMED.get(found["escaped"], found["escaped"]) if found["escaped"] else found[0]


def _escaped(text: str) -> str:
    return escaped(_spelled(text))


def _in_section(text: str) -> str:
    """Return text in a CDATA section.

    Raises:
        UnwritableError: It would end the section.
    """
    if _CDATA_END in text:
        raise UnwritableError(f"its translation has {_CDATA_END}, which ends a CDATA section")
    return _spelled(text)


def _spelled(text: str) -> str:
    """Return text with the escapes of Android, which keep spaces that would collapse."""
    return re.sub("(?<= ) ", lambda _: _SPACE, text.translate(_WRITTEN))
