"""Catalogues of Rails (.yml, .yaml): the strings under a language; anchors, aliases, comments and all else stay.

The nodes and their places are those of ruamel.yaml. Rails reads YAML 1.1, in which "yes" is no string.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from xuanzang.documents.document import IN_MESSAGES, Document, DocumentError, ReadSettings
from xuanzang.documents.encoding import EncodedText
from xuanzang.documents.formats.messages.accelerators import unmarked
from xuanzang.documents.splicing import Edit, SplicedDocument, is_identifier, parted, translatable

_LANGUAGE = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")
_STRING = "tag:yaml.org,2002:str"
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*+")
_SYMBOL = re.compile(r":\w+")
_PLAIN = re.compile(r"[^\W\d_](?:[^:#,\[\]{}]|:(?=\S)(?![,\[\]{}])|(?<=\S)#)*+(?<!\s)")
"""Strings without quotation marks, also within brackets."""
_RESERVED = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
_UNPRINTABLE = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff]")
_SHOWN_CHARACTERS = 200


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read a catalogue of Rails; see `Format`."""
    source = EncodedText.decode(raw, settings.encoding)
    key, values = _root(source.text)
    edits = [unmarked(edit) for node in _strings(values) if (edit := _edit(source.text, node)) is not None]
    if settings.target_language is not None:
        edits.append(_name_edit(source.text, key, settings.target_language))
    return _Catalogue(source, sorted(edits, key=lambda edit: edit.start), placeholders=IN_MESSAGES)


class _Catalogue(SplicedDocument):
    """A catalogue whose translation has the same nodes."""

    def render(self, translations: Mapping[str, str]) -> bytes:
        """Return the file with translations.

        Raises:
            DocumentError: With them it would have other nodes, or its encoding lacks a character.
        """
        raw = super().render(translations)
        written = raw[len(self._source.mark) :].decode(self._source.codec)
        if _shape(written) != _shape(self._source.text):
            raise DocumentError("its translations would be read as other values than strings")
        return raw


def _root(text: str) -> tuple[Any, Any]:
    """Return the nodes of the language and of its values.

    Raises:
        DocumentError: It is no YAML, or has no language as its only key.
    """
    try:
        root = YAML(typ="safe", pure=True).compose(text)
    except (YAMLError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise DocumentError(f"no readable YAML: {' '.join(str(error).split())[:_SHOWN_CHARACTERS]}") from error
    if isinstance(root, MappingNode) and len(root.value) == 1:
        [(key, values)] = root.value
        if isinstance(key, ScalarNode) and _LANGUAGE.fullmatch(key.value) and isinstance(values, MappingNode):
            return key, values
    raise DocumentError("YAML is translated as Rails writes it: with a language as the only key at the top")


def _nodes(root: Any) -> Iterator[Any]:
    """Yield the values within a node, each once, however many aliases it has."""
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if isinstance(node, MappingNode):
            waiting += [value for _, value in reversed(node.value)]
        elif isinstance(node, SequenceNode):
            waiting += reversed(node.value)


def _strings(root: Any) -> Iterator[Any]:
    for node in _nodes(root):
        if isinstance(node, ScalarNode) and node.tag == _STRING:
            is_symbol = _SYMBOL.fullmatch(node.value) or node.value.casefold() in _RESERVED
            if node.style is not None or not is_symbol:
                yield node


def _shape(text: str) -> list[tuple[str, str | None]]:
    """Return the types and anchors of all nodes."""
    return [(str(node.tag), node.anchor) for node in _nodes(_root(text)[1])]


def _span(text: str, node: Any) -> tuple[int, int]:
    """Return the span of a scalar without its anchor and tag, and without the line ends behind a block."""
    start, end = node.start_mark.index, node.end_mark.index
    found = _PROPERTIES.match(text, start, end)
    start = found.end() if found else start
    return start, start + len(text[start:end].rstrip())


def _edit(text: str, node: Any) -> Edit | None:
    before, inner, after = parted(node.value)
    if not translatable(inner) or is_identifier(inner):
        return None
    start, end = _span(text, node)
    raw = text[start:end]
    return Edit(
        start=start,
        end=end,
        texts=(inner,),
        render=lambda found: _written(before + found[0] + after, raw, node.style),
    )


def _name_edit(text: str, key: Any, language: str) -> Edit:
    start, end = _span(text, key)
    return Edit(start=start, end=end, texts=(), render=lambda _: _written(language, text[start:end], key.style))


def _written(value: str, raw: str, style: str | None) -> str:
    """Return a string in the style of another one, or else between double quotation marks."""
    is_line = "\n" not in value and value.isprintable()
    if style is None and is_line and _PLAIN.fullmatch(value) and value.casefold() not in _RESERVED:
        return value
    if style == "'" and is_line:
        return "'" + value.replace("'", "''") + "'"
    lines = value.rstrip("\n").split("\n")
    if style in ("|", ">") and all(line.strip() == line and line.isprintable() for line in lines) and lines[0]:
        head, _, content = raw.partition("\n")
        indent = re.match(r"\s*", content.lstrip("\r\n"))
        line_end = "\r\n" if head.endswith("\r") else "\n"
        if style == ">":  # a folded string has one line end more for each of its lines
            lines = re.sub("\n+", r"\g<0>\n", "\n".join(lines)).split("\n")
        margin = indent[0] if indent else ""
        return head + "\n" + line_end.join(f"{margin}{line}" if line else "" for line in lines)
    quoted = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
