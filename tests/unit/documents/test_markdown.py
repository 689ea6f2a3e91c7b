"""Markdown of CommonMark and its dialects keeps its structure, whatever its words become."""

from __future__ import annotations

import os
import re
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
from document_texts import read, texts, translated
from hypothesis import given
from hypothesis import strategies as st
from markdown_dialects_samples import DIALECTS, REFERENCES

from xuanzang.documents import DocumentFile
from xuanzang.documents.formats.markdown_writing import SPELLINGS

_WORD = re.compile(r"[^\W\d_]+")
_SPECIFICATION = os.environ.get("COMMONMARK_SPECIFICATION", "")
_CASES = [(kind, source) for kind, sources in DIALECTS.items() for source in sources]


def in_chinese(text: str) -> str:
    return _WORD.sub("字", text)


def in_close_chinese(text: str) -> str:
    """Return a text in Chinese as it is written: with its own punctuation, without spaces."""
    close = re.sub(r"(?<=[字\W])\s+(?=字)|(?<=字)\s+(?=\W)", "", in_chinese(text))
    return close.translate(str.maketrans(",.!?:;()", "，。！？：；（）"))


class _Structure(HTMLParser):
    """Elements of a page, and its texts with all words alike."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[object, ...] | str] = []
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._flush()
        kept = tuple((name, value) for name, value in attrs if name not in ("alt", "title"))
        self.seen.append((tag.replace("strong", "b"), kept))

    def handle_endtag(self, tag: str) -> None:
        self._flush()
        self.seen.append(tag.replace("strong", "b"))

    def handle_data(self, data: str) -> None:
        self._text += data

    def _flush(self) -> None:
        text = re.sub("字+", "字", re.sub(r"\s+", "", in_chinese(self._text)))
        self.seen += [("", text)] if text else []
        self._text = ""


def structure(markdown: str, *, with_texts: bool = True) -> list[tuple[object, ...] | str]:
    """Return what the reference implementation of GitHub's Markdown makes of a text."""
    parser = _Structure()
    parser.feed(cmarkgfm.markdown_to_html(markdown, options=Options.CMARK_OPT_UNSAFE) + "<end>")
    return [each for each in parser.seen if with_texts or each[0] != ""]


def examples(specification: str) -> list[str]:
    found = re.findall(r"^`{32} example\n(.*?)^\.$", specification, re.MULTILINE | re.DOTALL)
    return [example.replace("→", "\t") for example in found]


@pytest.mark.skipif(not _SPECIFICATION, reason="COMMONMARK_SPECIFICATION names no spec.txt of CommonMark")
def test_the_examples_of_commonmark_keep_their_structure_in_chinese() -> None:
    found = examples(Path(_SPECIFICATION).read_text(encoding="utf-8"))
    assert len(found) > 600
    for source in found:
        assert translated(".md", source, str).decode() == source
        assert structure(translated(".md", source, in_chinese).decode()) == structure(source), source
        close = translated(".md", source, in_close_chinese).decode()
        assert structure(close, with_texts=False) == structure(source, with_texts=False), source


@pytest.mark.parametrize(("kind", "source"), _CASES, ids=[f"{kind} {n}" for n, (kind, _) in enumerate(_CASES)])
def test_only_words_change_in_a_dialect(kind: str, source: str) -> None:
    assert kind
    expected = re.sub(r"(?<![A-Za-z])[Ww]ord(?![A-Za-z])", "字", source)
    assert translated(".md", source, str).decode() == source
    assert translated(".md", source, in_chinese).decode() == expected


def test_there_are_cases_of_each_dialect() -> None:
    assert len(_CASES) >= 120
    assert len(set(_CASES)) == len(_CASES)


@pytest.mark.parametrize(("source", "expected"), REFERENCES)
def test_a_link_by_its_text_keeps_its_definition(source: str, expected: str) -> None:
    assert translated(".md", source, in_chinese).decode() == expected


_INLINE = st.recursive(
    st.sampled_from(["one", "two three", "4", "`x_y`", "<br>", "![a](b)", "https://a.example/_b_", "a \\* b", "&amp;"]),
    lambda inner: st.tuples(st.sampled_from(["*{}*", "**{}**", "_{}_", "~~{}~~", "[{}](u)", "<b>{}</b>"]), inner).map(
        lambda pair: pair[0].format(pair[1])
    ),
    max_leaves=4,
)
_LINE = st.lists(_INLINE, min_size=1, max_size=4).map(" ".join)
_BLOCK = st.one_of(
    _LINE,
    _LINE.map("# {}".format),
    _LINE.map("> {}".format),
    _LINE.map("- {}\n- two".format),
    _LINE.map("1. {}".format),
    _LINE.map("| {} | b |\n|---|---|\n| c | d |".format),
    _LINE.map("{}\n===".format),
    _LINE.map("<div>\n{}\n</div>".format),
    st.just("```\ncode\n```"),
)


@given(st.lists(_BLOCK, min_size=1, max_size=4).map("\n\n".join))
def test_any_markdown_keeps_its_structure_in_chinese(source: str) -> None:
    assert translated(".md", source, str).decode() == source
    for translate in (in_chinese, in_close_chinese):
        result = translated(".md", source, translate).decode()
        assert structure(result, with_texts=False) == structure(source, with_texts=False)


@pytest.mark.parametrize(
    "answer", ["# x", "1. x", "- x", "> x", "=== x", "*x* `y`", "[x](y)", "<p>x", "$x$ $y$", "[^1]: x"]
)
def test_a_translation_becomes_text_whatever_it_looks_like(answer: str) -> None:
    source = "One two.\n\n[^1]: Three\n"
    result = read(".md", source).render({"One two.": answer.replace("<", "&lt;")}).decode()
    assert texts(".md", result)[0] == answer.replace("<", "&lt;").replace(">", "&gt;")


def test_a_tag_that_would_begin_a_block_of_html_does_not() -> None:
    [text] = texts(".md", "One <p>two</p>.")
    assert text == 'One <g id="1">two</g>.'
    written = read(".md", "One <p>two</p>.").render({text: '<g id="1">字</g> 字.'}).decode()
    assert written == "<span></span><p>字</p> 字."


def test_marks_that_meet_in_a_translation_stay_apart() -> None:
    [text] = texts(".md", "`a` or `b`, **c** or **d**")
    answer = '<code id="2">b</code><code id="1">a</code><g id="4">d</g><g id="3">c</g>字'
    written = read(".md", "`a` or `b`, **c** or **d**").render({text: answer}).decode()
    assert structure(written) == structure("`b` `a`**d** **c**字")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("See https://a.example/b.", "字 https://a.example/b 。"),
        ("See **https://a.example/b**, word", "字 **https://a.example/b** ，字"),
        ("See (www.a.example) word", "字（ www.a.example ）字"),
        ("See [https://a.example/b](c).", "字 [https://a.example/b](c)。"),
        ("See <https://a.example/b>.", "字 <https://a.example/b>。"),
        ("See https://a.example/b", "字 https://a.example/b"),
    ],
)
def test_an_address_ends_where_chinese_text_goes_on(source: str, expected: str) -> None:
    written = translated(".md", source, in_close_chinese).decode()
    assert written == expected
    render = partial(cmarkgfm.markdown_to_html_with_extensions, extensions=["autolink"])
    assert re.findall(r"href=.*?>", render(written)) == re.findall(r"href=.*?>", render(source))


@pytest.mark.parametrize("line", ["|-|-|", "|:-|-:|", "|:-:|:--:|", "|:----------:|:--------------:|", ":--:|:--:"])
def test_tables_are_tables_with_any_alignment(line: str) -> None:
    table = f"| One | Two |\n{line}\n| Three | :four: |\n"
    assert translated(".md", table, in_chinese).decode() == f"| 字 | 字 |\n{line}\n| 字 | :four: |\n"


def test_a_bracket_before_a_wiki_link_is_text() -> None:
    [text] = texts(".md", "Open [[a b]] now")
    assert read(".md", "Open [[a b]] now").render({text: f"[{text}"}).decode() == "\\[Open [[a b]] now"


def test_a_translation_that_no_spelling_reads_back_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    # No translation is known that needs more spellings than there are.
    monkeypatch.setattr("xuanzang.documents.formats.markdown.SPELLINGS", SPELLINGS[:1])
    file = DocumentFile.of(b"# One\n\nA **b** c.\n", suffix=".md")
    written = file.rewritten({"One": "Eins", 'A <g id="1">b</g> c.': 'x<g id="1">\u201cy\u201d</g>z'})
    assert written.content == b"# Eins\n\nA **b** c.\n"
    assert [refusal.where for refusal in written.refusals] == ["line 3"]


@pytest.mark.parametrize(
    "row", ["Use a | b here.\n", "Use a \\| b here.\n", "| a \\| x | b |\n|---|---|\n| c \\| d | e |\n"]
)
def test_pipes_are_written_as_they_were(row: str) -> None:
    assert translated(".md", row) == row.upper().encode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello %% a note %% world, 100%% sure and 5%% of.\n", "HELLO %% a note %% WORLD, 100%% SURE AND 5%% OF.\n"),
        ("%%\nBlock\n\nmore\n%%\n\nText\n", "%%\nBlock\n\nmore\n%%\n\nTEXT\n"),
        ("%% One line %%\n\nText\n", "%% One line %%\n\nTEXT\n"),
        ("%% starts\nends %%\n\nText\n", "%% starts\nends %%\n\nTEXT\n"),
    ],
)
def test_comments_of_obsidian_stay(text: str, expected: str) -> None:
    assert translated(".md", text) == expected.encode()
