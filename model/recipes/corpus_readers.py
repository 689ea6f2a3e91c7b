"""Formats of public corpora, each read as rows of Chinese and English: lines, tables, treebanks, catalogues, documents.

Documents are aligned by structure: between two headings or pieces of code, blocks are paired only if both sides have
the same kinds of them, and sentences of a pair only if both sides have as many. Other parts are left out.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Row = tuple[str, str]

_CJK = r"\u3000-\u30ff\u3400-\u9fff\uff00-\uffef"
_SENTENCE_ENDS = (
    re.compile(r"(?<=[。！？；])(?![”’」』）])|(?<=[。！？][”」』])"),
    re.compile(r"(?<=[.!?;])\s+(?=[\"“(A-Z0-9])"),
)
_RST = (
    (re.compile(r":[\w:+.-]+:`[~!]?([^`<]*?)\s*(?:<[^`>]*>)?`"), r"\1"),
    (re.compile(r"``([^`]*)``"), r"\1"),
    (re.compile(r"`([^`<]*?)\s*(?:<[^`>]*>)?`(?:__?)?"), r"\1"),
    (re.compile(r"\*\*([^*]+)\*\*"), r"\1"),
    (re.compile(r"(?<!\w)\*([^*\s][^*]*)\*(?!\w)"), r"\1"),
    (re.compile(rf"(?<=[{_CJK}])\s*\\ |\\ \s*(?=[{_CJK}])"), ""),
    (re.compile(r"\\\s?(?=\W)|\\ "), ""),
)


class Block(NamedTuple):
    """A block of a document."""

    kind: str
    """The tag, which both sides must have alike; "heading" or "code"."""
    text: str


def read(kind: str, contents: Sequence[str], columns: tuple[int, int] = (0, 1)) -> Iterator[Row]:
    """Yield the rows of one file of both languages, or of a Chinese file and the English one.

    Raises:
        ValueError, KeyError, TypeError, AttributeError, csv.Error: The content is not of this kind.
    """
    if kind in TABLES:
        yield from _table(contents[0], columns, tab=kind == "tsv")
    else:
        yield from _DOCUMENTS[kind](*contents)


def sentences(rows: Iterator[Row]) -> Iterator[Row]:
    """Yield the lines and sentences of rows whose sides have the same number of them, and other rows unchanged."""
    for row in rows:
        for line in _pairs(row, [side.strip().splitlines() for side in row]):
            parts = [pattern.split(side.strip()) for pattern, side in zip(_SENTENCE_ENDS, line, strict=True)]
            yield from _pairs(line, [[part for part in side if part.strip()] for side in parts])


def _pairs(whole: Row, parts: Sequence[Sequence[str]]) -> Iterator[Row]:
    chinese, english = parts
    yield from zip(chinese, english, strict=True) if len(chinese) == len(english) else [whole]


def _lines(chinese: str, english: str) -> Iterator[Row]:
    sides = [text.removesuffix("\n").split("\n") for text in (chinese, english)]
    if len(sides[0]) != len(sides[1]):
        raise ValueError(f"one side has {len(sides[0])} lines, the other {len(sides[1])}")
    yield from zip(*sides, strict=True)


def _table(content: str, columns: tuple[int, int], *, tab: bool) -> Iterator[Row]:
    dialect: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if tab else {}
    for row in csv.reader(io.StringIO(content), **dialect):
        if len(row) > max(columns):
            yield row[columns[0]], row[columns[1]]


def _keyed(chinese: Mapping[str, str], english: Mapping[str, str]) -> Iterator[Row]:
    yield from ((chinese[key], text) for key, text in english.items() if key in chinese)


def _treebank(conllu: str) -> dict[str, str]:
    """Return the texts of a treebank by the ids of its sentences."""
    fields = (line[2:].partition(" = ")[::2] for line in conllu.splitlines() if line.startswith("# "))
    texts, number = {}, ""
    for name, value in fields:
        if name == "sent_id":
            number = value
        elif name == "text":
            texts[number] = value
    return texts


def _strings(content: str) -> dict[str, str]:
    value = json.loads(content)
    return {key: text for key, text in value.items() if isinstance(text, str)}


def _laws(chinese: str, english: str) -> Iterator[Row]:
    """Yield the articles of a law of Taiwan as mojLawSplit has it, if both sides have its last amendment."""
    sides = [json.loads(text) for text in (chinese, english)]
    if sides[0]["最新異動日期"] == sides[1]["最新英文異動日期"]:
        yield from _keyed(*(_articles(side["法規內容"]) for side in sides))


def _articles(parts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    numbered = ((re.search(r"\d+(?:\s*-\s*\d+)?", part.get("條號", "")), part.get("條文內容", "")) for part in parts)
    return {re.sub(r"\s", "", number.group()): text for number, text in numbered if number}


def _catalogue(content: str) -> Iterator[Row]:
    """Yield the finished translations of a gettext catalogue, without the marks of reStructuredText."""
    import polib  # noqa: PLC0415 - for these corpora alone

    for entry in polib.pofile(content):
        if entry.translated() and not entry.msgid_plural:
            yield _without_marks(entry.msgstr), _without_marks(entry.msgid)


def _without_marks(text: str) -> str:
    for pattern, replacement in _RST:
        text = pattern.sub(replacement, text)
    return text


def _documents(chinese: str, english: str) -> Iterator[Row]:
    """Yield the blocks of two Markdown files that have as many headings, where the stretches between are alike."""
    sections = [_split(_blocks(text), "heading") for text in (chinese, english)]
    if len(sections[0]) != len(sections[1]):
        return
    for section in zip(*sections, strict=True):
        stretches = [_split(side, "code") for side in section]
        for pair in zip(*stretches, strict=True) if len(stretches[0]) == len(stretches[1]) else ():
            sides = [[block for block in side if block.text] for side in pair]
            if [block.kind for block in sides[0]] == [block.kind for block in sides[1]]:
                yield from ((one.text, other.text) for one, other in zip(*sides, strict=True))


def _split(blocks: Iterable[Block], kind: str) -> list[list[Block]]:
    """Return the blocks before the first one of a kind, and those from each of these to the next."""
    parts: list[list[Block]] = [[]]
    for block in blocks:
        if block.kind == kind:
            parts.append([])
        parts[-1].append(block)
    return parts


def _notebooks(chinese: str, english: str) -> Iterator[Row]:
    """Yield the blocks of the text of two Jupyter notebooks; code counts as a block."""
    yield from _documents(*(_text_of(json.loads(content)) for content in (chinese, english)))


def _text_of(notebook: Mapping[str, Any]) -> str:
    cells = ("".join(cell["source"]) if cell["cell_type"] == "markdown" else "~~~\n~~~" for cell in notebook["cells"])
    return "\n\n".join(cells)


def _blocks(markdown: str) -> Iterator[Block]:
    from markdown_it import MarkdownIt  # noqa: PLC0415 - for these corpora alone

    text = re.sub(r"\A\ufeff?---\n.*?\n---\n", "", markdown.replace("\r\n", "\n"), flags=re.DOTALL)
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    for before, token in itertools.pairwise(tokens):
        if token.type == "inline":
            yield Block("heading" if before.type == "heading_open" else before.tag, _plain(token.children or []))
        elif token.type in ("fence", "code_block"):
            yield Block("code", "")


def _plain(children: Sequence[Any]) -> str:
    """Return the words of a block: without marks, pictures, tags and what names an anchor."""
    kept = {"softbreak": " ", "hardbreak": " "}
    text = "".join(
        kept.get(each.type, each.content if each.type in ("text", "code_inline") else "") for each in children
    )
    return re.sub(r"\s*\{[/#*:].*?\}\s*$", "", re.sub(rf"(?<=[{_CJK}]) (?=[{_CJK}])", "", text))


TABLES = ("csv", "tsv")
_DOCUMENTS: dict[str, Callable[..., Iterator[Row]]] = {
    "lines": _lines,
    "conllu": lambda chinese, english: _keyed(_treebank(chinese), _treebank(english)),
    "json": lambda chinese, english: _keyed(_strings(chinese), _strings(english)),
    "laws": _laws,
    "gettext": _catalogue,
    "markdown": _documents,
    "notebook": _notebooks,
}
READERS = (*TABLES, *_DOCUMENTS)
"""Kinds that `read` reads."""
