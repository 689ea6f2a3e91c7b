"""With translations equal to their texts, every byte of a document stays."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from document_texts import in_markup, read, texts, translated, word
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sample_documents import NAMED, TEXTS, WORD

from xuanzang.documents.splicing import is_identifier

ALPHABETS = {
    ".txt": "a b\r\n\t猫é\u2028\x0b",
    ".md": 'ab \n\r\t*_`[]()!<>#-+=|\\~&;:1."猫',
    ".html": "ab <>/=\"'&;!-?pbi\n猫[]",
    ".json": 'ab {}[]:,"\\u1 \n',
    ".csv": 'ab,;"\r\n\t ',
    ".tsv": 'ab,"\r\n\t ',
}


def columns(suffix: str) -> tuple[str, ...] | None:
    return ("text",) if suffix in NAMED else None


@pytest.mark.parametrize("suffix", TEXTS)
@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16"])
def test_an_echo_leaves_every_byte_of_a_sample(suffix: str, codec: str) -> None:
    content = TEXTS[suffix]
    if codec == "utf-16":
        content = content.replace("utf-8", "utf-16").replace("UTF-8", "UTF-16")
    raw = content.removeprefix("\ufeff").encode(codec)
    assert translated(suffix, raw, str, columns=columns(suffix)) == raw


@pytest.mark.parametrize("suffix", TEXTS)
def test_translations_change_nothing_but_texts(suffix: str) -> None:
    """What is left of a document when its texts are cut out is the same before and after."""
    content = TEXTS[suffix].encode()
    found = texts(suffix, content, columns=columns(suffix))
    if suffix not in (".po", ".xliff"):
        assert len(found) >= 2
    again = translated(suffix, content, lambda text: f"{text}x", columns=columns(suffix))
    added = in_markup(lambda text: f"{text}x") if suffix in (".md", ".html") else lambda text: f"{text}x"
    assert texts(suffix, again, columns=columns(suffix)) == list(map(added, found))
    assert len(again) != len(content) or not found


def test_an_echo_leaves_every_byte_of_a_word_document() -> None:
    raw = word(WORD)
    assert translated(".docx", raw, str) == raw


def test_an_echo_leaves_every_byte_of_a_parquet_file(parquet: Callable[..., bytes]) -> None:
    raw = parquet(["one", None, "", "two "])
    assert translated(".parquet", raw, str, columns=("text",)) == raw


@pytest.mark.parametrize("suffix", [".txt", ".md", ".html"])
@given(data=st.data())
def test_an_echo_leaves_every_byte_of_anything(suffix: str, data: st.DataObject) -> None:
    raw = data.draw(st.text(st.sampled_from(ALPHABETS[suffix]), max_size=60)).encode()
    assert translated(suffix, raw, str) == raw


@given(st.text(st.sampled_from(ALPHABETS[".md"]), max_size=60))
@example("a `b` c\n")
def test_what_is_no_text_stays_in_anything_that_is_markdown(content: str) -> None:
    """Letters outside of texts, such as code and links, are where they were."""
    document = read(".md", content)
    found = [unit.text for unit in document.units()]
    result = document.render(dict.fromkeys(found, "字")).decode()
    assert re.findall("[ab]", result) == [] or len(re.findall("[ab]", result)) <= len(re.findall("[ab]", content))
    assert result.count("字") == len(found)


@given(st.recursive(st.none() | st.text() | st.floats(allow_nan=False), st.lists, max_leaves=9))
def test_json_of_any_shape_keeps_all_but_its_strings(value: object) -> None:
    import json

    for ascii_only in (True, False):
        raw = json.dumps(value, ensure_ascii=ascii_only, indent=1).encode(errors="surrogatepass")
        assert translated(".json", raw, str) == raw
        assert json.loads(translated(".json", raw, lambda _: 'x"é\\')) == _mapped(value)


def _mapped(value: object) -> object:
    if isinstance(value, list):
        return [_mapped(each) for each in value]
    if not isinstance(value, str) or not any(map(str.isalpha, value)) or is_identifier(value.strip()):
        return value
    text = value.strip()
    before, _, after = value.partition(text)
    return f'{before}x"é\\{after}'


_TSV_CELL = st.text(st.sampled_from('ab" '), min_size=1, max_size=6).map(lambda text: f"{text}a")
# With both a tab and a line end, quotation marks are characters by the rule of `tables`.
_TSV_TRANSLATION = st.text(st.sampled_from('ab"\t '), max_size=6) | st.text(st.sampled_from('ab"\n '), max_size=6)


@given(st.lists(st.tuples(_TSV_CELL, _TSV_TRANSLATION), min_size=1, max_size=4))
@example([('say "x', '"Bonjour'), ("b", 'c"')])
@example([('say "x', '"a""'), ("b", '"c"')])
def test_tsv_has_the_rows_and_translations_that_were_written(cells: list[tuple[str, str]]) -> None:
    source = "text\tother\n" + "".join(f'{cell}\to{number}"\n' for number, (cell, _) in enumerate(cells))
    found = texts(".tsv", source, columns=("text",))
    chosen = {text: translation for text, (_, translation) in zip(found, cells, strict=False)}
    written = read(".tsv", source, columns=("text",)).render(chosen).decode()
    others = texts(".tsv", source, columns=("other",))
    assert texts(".tsv", written, columns=("other",)) == others
    again = texts(".tsv", written, columns=("text",))
    assert again == [chosen[text].strip() for text in found if any(map(str.isalpha, chosen[text]))]


@given(st.lists(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\0")), min_size=2, max_size=2)))
def test_tables_are_read_and_written_as_the_csv_module_does(rows: list[list[str]]) -> None:
    import csv
    import io

    output = io.StringIO(newline="")
    csv.writer(output).writerows([["id", "text"], *rows])
    raw = output.getvalue().encode()
    assert translated(".csv", raw, str, columns=("text",)) == raw
    again = list(
        csv.reader(io.StringIO(translated(".csv", raw, lambda _: 'x "y", z', columns=("text",)).decode(), newline=""))
    )
    letters = [any(map(str.isalpha, row[1])) for row in rows]
    assert [row[0] for row in again[1:]] == [row[0] for row in rows]
    assert [row[1].strip() == 'x "y", z' for row in again[1:]] == [
        has or row[1].strip() == 'x "y", z' for has, row in zip(letters, rows, strict=True)
    ]


_CUE_LINE = st.lists(
    st.sampled_from(["one", "two.", "<i>three</i>", "- four", "5", "é", "{\\an8}", "&amp;", "a -> b"]),
    min_size=1,
    max_size=4,
).map(" ".join)
_CUES = st.lists(st.lists(_CUE_LINE, min_size=1, max_size=3).map("\n".join), min_size=1, max_size=5)


@settings(max_examples=200)
@given(_CUES, st.booleans())
def test_subtitles_have_the_cues_that_were_written(cues: list[str], has_blank_lines: bool) -> None:
    import srt
    import webvtt

    times = [f"00:00:{2 * number:02},000 --> 00:00:{2 * number + 1:02},000" for number in range(len(cues))]
    separator = "\n\n" if has_blank_lines else "\n"
    source = "\n".join(
        f"{number}\n{time}\n{cue.replace(chr(10), separator)}\n"
        for number, (time, cue) in enumerate(zip(times, cues, strict=True), start=1)
    )
    assert translated(".srt", source, str).decode() == source or "\n" in source
    ours, theirs = (list(srt.parse(content)) for content in (translated(".srt", source).decode(), source))
    assert [(cue.index, cue.start, cue.end) for cue in ours] == [(cue.index, cue.start, cue.end) for cue in theirs]
    written = [re.sub(r"\s+", "", cue.content) for cue in ours]
    assert written == [re.sub(r"\s+", "", re.sub(r"<[^>]*>|\{[^}]*\}|[a-zé]+", _upper, cue.content)) for cue in theirs]
    vtt = "WEBVTT\n\n" + "\n".join(f"{time.replace(',', '.')}\n{cue}\n" for time, cue in zip(times, cues, strict=True))
    ours_vtt, theirs_vtt = (webvtt.from_string(content).captions for content in (translated(".vtt", vtt).decode(), vtt))
    assert [(cue.start, cue.end) for cue in ours_vtt] == [(cue.start, cue.end) for cue in theirs_vtt]
    assert [re.findall("<[^>]*>", cue.raw_text) for cue in ours_vtt] == [
        re.findall("<[^>]*>", cue.raw_text) for cue in theirs_vtt
    ]


def _upper(found: re.Match[str]) -> str:
    return found[0] if found[0][0] in "<{" else found[0].upper()
