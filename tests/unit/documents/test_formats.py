"""What is translated in each format, compared with the library that programs read it with."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable

import pytest
from document_texts import read, texts, translated, word, word_body
from sample_documents import HTML, JSON, MARKDOWN, SRT, VTT, WORD

from xuanzang.documents import DocumentError


def test_markdown_is_translated_by_block_with_tags_for_inline_markup() -> None:
    assert texts(".md", MARKDOWN) == [
        'Head <g id="1">em</g>',
        'First line second <code id="1">code</code> line with <g id="2">a link</g> and <img id="3">. Hard break',
        *("after it * &amp; so", "quote one two lazy", "item a more", '2 * 3 [nolink] <g id="1">strong</g>text'),
        *("first", "a b", "b a", "b a", "x | y", '<g id="1">b</g> a', "html text", "Set ext"),
    ]


def test_markup_of_markdown_moves_with_its_words() -> None:
    source = '> **a** b\n> [*c*](x "t") `d` <https://e.f> ![g](h).\n'
    [text] = texts(".md", source)
    assert text == (
        '<g id="1">a</g> b <g id="2"><g id="3">c</g></g> <code id="4">d</code> '
        '<code id="5">https://e.f</code> <img id="6">.'
    )
    moved = '<img id="6"> <g id="2">C <g id="3">C</g></g>, <code id="4">d</code><g id="1">A</g>: <code id="5">x</code>'
    expected = '> ![g](h) [C *C*](x "t"), `d`**A**: <https://e.f>\n'
    assert read(".md", source).render({text: moved}).decode() == expected


def test_boxes_of_task_lists_stay_as_they_are() -> None:
    assert translated(".md", "- [ ] a *b*\n- [x] c\n") == b"- [ ] A *B*\n- [x] C\n"


def test_marks_of_markdown_that_would_not_count_become_html() -> None:
    [text] = texts(".md", "a **b** _c_")
    answer = 'x<g id="1">“b”</g>y<g id="2">c</g>z'
    assert read(".md", "a **b** _c_").render({text: answer}).decode() == "x<strong>“b”</strong>y<em>c</em>z"


def test_markdown_of_a_translation_is_the_same_blocks_with_other_text() -> None:
    from markdown_it import MarkdownIt

    source = "# A\n\n> b\n\n- c\n\n[d](x)\n"
    hostile = ["# no heading", "1. no list", "<b>no tag</b> & &amp;", "*no* `code` [no](link) _it_ snake_case ~~n~~"]
    answers = dict(zip("Abcd", hostile, strict=True))
    result = translated(".md", source, answers.__getitem__).decode()
    parser = MarkdownIt("commonmark").enable("strikethrough")
    ours, theirs = parser.parse(result), parser.parse(source)
    assert [token.type for token in ours] == [token.type for token in theirs]
    contents = ["".join(child.content for child in token.children or ()) for token in ours if token.type == "inline"]
    assert contents == hostile


def test_a_chinese_line_that_is_broken_is_joined_without_a_space() -> None:
    assert texts(".md", "今天天气\n很好。\nIt is\n> fine") == ["今天天气很好。 It is", "fine"]


def test_html_gives_the_text_of_blocks_titles_and_attributes() -> None:
    assert texts(".html", HTML) == [
        *("T &amp; t", "tip it", 'Hello <g id="1">big</g>, wide <img id="2">world <img id="3">!', "yes more"),
        *('x AT&amp;T &lt;<code id="1">c d</code> e<img id="2">end', "a cat", "unclosed &amp;"),
    ]


def test_references_may_have_thousands_of_digits() -> None:
    zeros = "0" * 5000
    assert texts(".html", f"<p title='b&#{zeros}65;'>b&#x{zeros}41;") == ["bA", "bA"]
    xliff = f"<xliff><trans-unit><source>b&#{zeros}65;</source></trans-unit></xliff>"
    assert texts(".xliff", xliff) == ["bA"]
    assert texts(".json", "[" + "1" * 5000 + ', "a"]') == ["a"]


def test_tags_of_html_move_with_their_words() -> None:
    source = '<p><!-- x --> a <B class="q" title="tip">b</B> <kbd>c</kbd><br>d<i>e</p>'
    assert texts(".html", source) == ['a <g id="1">b</g> <code id="2">c</code>', "tip", "d", "e"]
    answers = {'a <g id="1">b</g> <code id="2">c</code>': '<code id="2">c</code> <g id="1">&lt;</g>', "tip": "T&amp;"}
    expected = '<p><!-- x --> <kbd>c</kbd> <B class="q" title="T&amp;">&lt;</B><br>d<i>e</p>'
    assert read(".html", source).render(answers).decode() == expected


def test_html_of_a_translation_has_the_same_elements() -> None:
    from html.parser import HTMLParser

    def tags(content: str) -> list[tuple[str, str]]:
        seen: list[tuple[str, str]] = []

        class Tags(HTMLParser):
            def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
                seen.append((tag, ",".join(name for name, _ in attrs)))

        Tags().feed(content)
        return seen

    result = translated(".html", HTML, lambda _: "<b>\"x\" 'y' &amp; </p>").decode()
    assert tags(result) == tags(HTML)
    assert "&lt;b&gt;" in result


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("<ul><li translate=no>A<li>B</ul>C", ["B", "C"]),
        ("<div><p translate='NO' title=t>a</div>b<p>c", ["b", "c"]),
        ("<table><tr><td class='x notranslate'>a<td>b<tr translate=no><td>c<tr><td>d</table>", ["b", "d"]),
        ("<dl><dt translate=no>a<dd>b</dl>", ["b"]),
        ("<td translate=no><table><tr><td>a<tr><td>b</table>c<td>d", ["d"]),
        ("<p>a <ruby>b<rp>(</rp><rt>c</rt><rp>)</ruby> d", ['a <g id="1">b<img id="2"><img id="3"><img id="4"></g> d']),
        ("<a><p translate=no>a</a>b<p>c", ["c"]),
        ("<div><nav translate=no><table><td>a</div>b</table>c</nav>d", ["d"]),
        ("<b><span translate=no>a</b> b", ['<g id="1"><code id="2">a</code></g> b']),
        ("<p>a <code>x</p><p>b", ['a <code id="1">x</code>', "b"]),
        (f"<svg>{'<path/>' * 300}<text>a</text></svg>b", ["b"]),
    ],
)
def test_what_is_not_translated_ends_where_browsers_end_it(source: str, found: list[str]) -> None:
    assert texts(".html", source) == found


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("<p>The <?php echo $a->b; ?> is.</p>", "<p>THE <?php echo $a->b; ?> IS.</p>"),
        ("<p><%= a > b %> is.<% if x > 1 %>b</p>", "<p><%= a > b %> IS.<% if x > 1 %>B</p>"),
        ("<p>{% if a > b %}c{% endif %}</p>", "<p>{% if a > b %}C{% endif %}</p>"),
        ("<p>{{#if x}}c {{{ y }}} d{{/if}}", "<p>{{#if x}}C {{{ y }}} D{{/if}}"),
        ("<p <?= \"a>b\" ?> alt='a {{ b }}' title='c'>d", "<p <?= \"a>b\" ?> alt='a {{ b }}' title='C'>D"),
        ("<p>a<?php if (x > 1) { echo '<p>b</p>';", "<p>A<?php if (x > 1) { echo '<p>b</p>';"),
        ("<p>a {{ b {% c <% d", "<p>A {{ B {% C &lt;% D"),
        ("<p>a <<Name>>, b <<First Name>></p>", "<p>A <<Name>>, B <<First Name>></p>"),
        ("<p>a <<b>c</b>", "<p>A &lt;<b>C</b>"),
    ],
)
def test_directives_of_templates_stay(source: str, expected: str) -> None:
    assert translated(".html", source).decode() == expected


@pytest.mark.parametrize(
    "source",
    [
        "<p>a 10&nbsp;000&#160;b&thinsp;c</p><p>&nbsp;d\u3000e&emsp;</p>",
        "<p>a&shy;b&#x200B;c \xa0 &nbsp;d</p>",
        "<p>a &copy; b &quot;c&quot; &hellip; &mdash;d &lt;e&gt;",
    ],
)
def test_references_and_white_space_of_html_are_spelled_as_they_were(source: str) -> None:
    assert translated(".html", source).decode() == re.sub(
        r"(?<![&<\w])[a-e](?!\w)|(?<=[;>])[b-e]", lambda match: match[0].upper(), source
    )


def test_a_number_with_spaces_is_whole() -> None:
    assert texts(".html", "<p>a 10&nbsp;000 b 1\u202f000\xa0c") == [
        'a <code id="1">10,000</code> b <code id="2">1,000</code> <img id="3">c'
    ]
    body = "<w:p><w:r><w:t>a 10\xa0000 b</w:t></w:r></w:p>"
    [text] = texts(".docx", word(body))
    assert text == 'a <code id="1">10,000</code> b'
    assert "10\xa0000 x" in word_body(read(".docx", word(body)).render({text: '<code id="1">10,000</code> x'}))


@pytest.mark.parametrize("label", ["utf-16", "UTF-16LE", "unicode", "utf-8"])
@pytest.mark.parametrize(
    "meta", ["<meta charset={}>", '<meta http-equiv="Content-Type" content="text/html; charset={}">']
)
def test_a_page_that_declares_utf_16_in_ascii_is_utf_8(label: str, meta: str) -> None:
    page = f"{meta.format(label)}<p>caf\xe9"
    assert translated(".html", page).decode() == page.replace("caf\xe9", "CAF\xc9")


def test_a_declaration_in_a_comment_is_none_and_that_of_xhtml_is_one() -> None:
    assert texts(".html", "<!-- <meta charset=latin1> --><p>caf\xe9") == ["caf\xe9"]
    assert texts(".html", '<?xml version="1.0" encoding="iso-8859-1"?><p>caf\xe9'.encode("latin-1")) == ["caf\xe9"]


def test_html_in_a_declared_encoding_gets_references_for_what_that_lacks() -> None:
    raw = '<meta charset="gb2312"><p>今天'.encode("gb18030")
    assert texts(".html", raw) == ["今天"]
    latin = b'<meta charset="iso-8859-1"><p>caf\xe9'
    assert translated(".html", latin, lambda _: "\u732b\xe9") == b'<meta charset="iso-8859-1"><p>&#29483;\xe9'


def test_subtitles_are_those_of_their_libraries_but_for_the_text() -> None:
    import srt
    import webvtt

    assert texts(".srt", SRT) == ["Hello there you", "two", "A b", "C d", "last"]
    ours, theirs = (list(srt.parse(content)) for content in (translated(".srt", SRT).decode(), SRT))
    assert [(cue.index, cue.start, cue.end) for cue in ours] == [(cue.index, cue.start, cue.end) for cue in theirs]
    assert [cue.content for cue in ours] == ["HELLO THERE YOU <i>TWO</i>", "{\\an8}- A B\n- C D", "", "LAST"]

    assert texts(".vtt", VTT) == ["Hi & bye", "Two lines"]
    captions = webvtt.from_string(translated(".vtt", VTT, lambda text: f"<{text}> --> x").decode()).captions
    assert [cue.start for cue in captions] == ["00:00:01.000", "01:00:01.000"]
    assert [cue.raw_text for cue in captions] == [
        "<v Bob>&lt;Hi &amp; bye&gt; -&gt; x",
        "&lt;Two lines&gt; -&gt; x",
    ]


def test_a_long_translation_of_two_lines_of_subtitles_is_wrapped() -> None:
    source = "1\n00:00:01,000 --> 00:00:02,000\none\ntwo\n"
    result = translated(".srt", source, lambda _: "word " * 12).decode().splitlines()[2:]
    assert [len(line) <= 42 for line in result] == [True, True]


def test_gettext_fills_what_is_empty_with_the_escapes_of_the_format() -> None:
    import polib

    source = (
        'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\nPlural-Forms: nplurals=2; plural=n != 1;\\n"\n\n'
        'msgid "a \\"%s\\" \\\\ \\t\\n"\nmsgstr ""\n\nmsgid "done"\nmsgstr "kept"\n\n'
        '#, fuzzy\nmsgctxt "c"\nmsgid ""\n"two\\n"\n"lines\\n"\nmsgstr ""\n\n'
        'msgid "one"\nmsgid_plural "%d many"\nmsgstr[0] ""\nmsgstr[1] ""\n\n#~ msgid "old"\n#~ msgstr ""\n'
    )
    assert texts(".po", source) == ['a "%s" \\', "two\nlines", "one", "%d many"]
    entries = list(polib.pofile(translated(".po", source, lambda text: f"<{text}>").decode()))
    assert [entry.msgstr for entry in entries[:3]] == ['<a "%s" \\> \t\n', "kept", "<two\nlines>\n"]
    assert entries[3].msgstr_plural == {0: "<one>", 1: "<%d many>"}
    assert entries[4].msgstr == ""
    assert [entry.msgid for entry in entries] == [entry.msgid for entry in polib.pofile(source)]


def test_json_gives_its_string_values_or_those_of_named_keys() -> None:
    assert texts(".json", JSON) == ["caf\xe9 x", "hi", 'b"c']
    assert texts(".json", JSON, columns=("a:", "key")) == ["caf\xe9 x", 'b"c']
    assert texts(".json", '{"a": ["x", {"b": "y"}], "b": "z"}', columns=("a",)) == ["x"]


def test_json_that_is_ascii_stays_ascii_and_other_json_does_not_become_it() -> None:
    assert translated(".json", '["a"]', lambda _: "\xe9\ud83d") == b'["\\u00e9\\ud83d"]'
    assert translated(".json", '["a", "\xfc"]', lambda text: text + "\xe9").decode() == '["a\xe9", "\xfc\xe9"]'


def test_lines_of_json_are_values_of_their_own() -> None:
    result = translated(".jsonl", '{"a": "x", "b": "y"}\r\n\r\n"z"\n', columns=("a",)).decode()
    assert result == '{"a": "X", "b": "y"}\r\n\r\n"z"\n'


def test_a_table_with_semicolons_is_read_as_one() -> None:
    assert translated(".csv", 'a;"b,c"\nx;y,z\n', columns=("b,c",)) == b'a;"b,c"\nx;Y,Z\n'


def test_xliff_fills_empty_targets_around_inline_elements() -> None:
    source = (
        '<?xml version="1.0"?>\n<x:xliff xmlns:x="urn:x" version="1.2">\n  <x:trans-unit id="1">\n'
        '    <x:source>One <g id="1">two</g><ph id="2">&lt;br/></ph><mrk mtype="protected">no</mrk> &amp;</x:source>\n'
        "    <alt-trans><x:source>no</x:source></alt-trans></x:trans-unit>\n"
        '  <segment><source>a</source><target state="initial"/></segment>\n'
        "  <segment><source><![CDATA[b]]></source><target></target></segment>\n"
        '  <file translate="no"><segment><source>no</source></segment></file>\n</x:xliff>\n'
    )
    assert texts(".xlf", source) == ["One <xliff1>two</xliff1><xliff2/>{xliff3} &", "a", "b"]
    result = translated(".xlf", source, lambda text: f"<{text}]]>").decode()
    expected = (
        '&amp;</x:source>\n    <x:target>&lt;One <g id="1">two</g><ph id="2">&lt;br/></ph>'
        '<mrk mtype="protected">no</mrk> &amp;]]&gt;</x:target>\n    <alt-trans>'
    )
    assert expected in result
    assert '<target state="translated">&lt;a]]&gt;</target>' in result
    assert "<target><![CDATA[<b]]]]><![CDATA[>]]></target>" in result


def test_xliff_fills_targets_that_have_only_empty_segments() -> None:
    segment = '<mrk mtype="seg" mid="{}">{}</mrk>'.format
    source = f"<seg-source>{segment(0, 'a')} {segment(1, 'b')}</seg-source>"
    units = (
        f"<trans-unit><source>a b</source>{source}<target>{target}</target></trans-unit>"
        for target in (f"{segment(0, '')} <mrk mtype='seg' mid='1'/>", f"{segment(0, 'x')} {segment(1, '')}")
    )
    result = translated(".xlf", f"<xliff version='1.2'>{''.join(units)}</xliff>").decode()
    assert f"<target>{segment(0, 'A')} {segment(1, 'B')}</target>" in result
    assert f"<target>{segment(0, 'x')} {segment(1, '')}</target>" in result


def test_word_joins_pieces_of_the_same_looks() -> None:
    assert texts(".docx", word(WORD)) == ['Hello <g id="1">big</g>', "a &amp; b"]
    body = word_body(translated(".docx", word(WORD), lambda text: f"<{text}>"))
    assert (
        '<w:t xml:space="preserve">&lt;Hello&gt; </w:t></w:r>'
        "<w:r><w:rPr><w:b/></w:rPr><w:t>&lt;big&gt;</w:t></w:r><w:r><w:tab/>"
    ) in body
    assert "<w:tab/><w:t>&lt;a &amp; b&gt;</w:t>" in body


def test_looks_and_links_of_word_move_with_their_words() -> None:
    plain, bold = "<w:r><w:t>{}</w:t></w:r>", "<w:r><w:rPr><w:b/></w:rPr><w:t>{}</w:t></w:r>"
    spaced = '<w:r><w:t xml:space="preserve">{}</w:t></w:r>'
    link, mark = '<w:hyperlink r:id="1">{}</w:hyperlink>', '<w:bookmarkStart w:id="0"/>'
    words = plain.format("one two "), bold.format("three"), mark, link.format(plain.format("four"))
    source = word(f"<w:p>{''.join(words)}</w:p>")
    [text] = texts(".docx", source)
    assert text == 'one two <g id="1">three</g><g id="2">four</g>'
    answer = '<g id="2">FOUR</g> one <g id="1">THREE</g> two'
    body = word_body(read(".docx", source).render({text: answer}))
    moved = link.format(plain.format("FOUR")), spaced.format(" one "), bold.format("THREE"), spaced.format(" two")
    assert body == f"<w:p>{mark}{''.join(moved)}</w:p>"


def test_word_documents_open_in_python_docx_with_all_else_as_it_was() -> None:
    import docx

    document = docx.Document()
    document.add_heading("Title", level=1)
    paragraph = document.add_paragraph("Plain ")
    paragraph.add_run("bold").bold = True
    document.add_table(rows=1, cols=1).rows[0].cells[0].text = "cell"
    document.sections[0].header.paragraphs[0].text = "header"
    source, result = io.BytesIO(), io.BytesIO()
    document.save(source)
    result.write(translated(".docx", source.getvalue()))
    again = docx.Document(result)
    assert [each.text for each in again.paragraphs] == ["TITLE", "PLAIN BOLD"]
    assert [run.bold for run in again.paragraphs[1].runs] == [None, True]
    assert again.tables[0].rows[0].cells[0].text == "CELL"
    assert again.sections[0].header.paragraphs[0].text == "HEADER"
    with zipfile.ZipFile(source) as before, zipfile.ZipFile(result) as after:
        assert before.namelist() == after.namelist()
        same = [name for name in before.namelist() if before.read(name) == after.read(name)]
    assert set(before.namelist()) - set(same) == {"word/document.xml", "word/header1.xml"}


def test_columns_of_one_name_in_parquet_are_refused() -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet as pq

    file = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"]), file)
    with pytest.raises(DocumentError, match="two columns have the name 'text'"):
        texts(".parquet", file.getvalue().to_pybytes(), columns=("text",))


def test_parquet_keeps_rows_groups_other_columns_and_metadata(parquet: Callable[..., bytes]) -> None:
    import pyarrow.parquet as pq

    raw = parquet(["one", None, " two ", "1", "one"], compression="zstd")
    assert texts(".parquet", raw, columns=("text",)) == ["one", "two", "one"]
    result = translated(".parquet", raw, columns=("text",))
    before, after = (pq.ParquetFile(io.BytesIO(content)) for content in (raw, result))
    assert after.read().column("text").to_pylist() == ["ONE", None, " TWO ", "1", "ONE"]
    assert after.read(["id"]).equals(before.read(["id"]))
    assert after.schema_arrow.equals(before.schema_arrow, check_metadata=True)
    groups = [after.metadata.row_group(number) for number in range(after.num_row_groups)]
    assert [(group.num_rows, group.column(1).compression) for group in groups] == [(3, "ZSTD"), (2, "ZSTD")]


@pytest.mark.parametrize("suffix", [".md", ".html", ".json", ".txt"])
def test_addresses_numbers_and_punctuation_are_not_texts(suffix: str) -> None:
    content = {".json": json.dumps, ".html": "<p>{}</p>".format}.get(suffix, str)
    for text in ("https://example.org/a", "a@example.org", "12.5 %", "—。！", "www.example.org"):
        assert texts(suffix, content(text)) == []


def test_a_quotation_mark_of_a_tsv_is_a_character_unless_it_encloses_the_field() -> None:
    source = 'id\ttext\n1\t"hello," he said\n2\t"all ""of"" it"\n3\t"not closed\n4\tend"\n5\t"two\nlines"\n6\t"a\tb"\n'
    assert texts(".tsv", source, columns=("text",)) == [
        *('"hello," he said', 'all "of" it', '"not closed', 'end"', "two\nlines", "a\tb"),
    ]
    # What could open a quotation in its new place is quoted, and read as it was.
    expected = source.upper().replace("ID\tTEXT", "id\ttext").replace('"NOT CLOSED', '"""NOT CLOSED"')
    assert translated(".tsv", source, columns=("text",)).decode() == expected
    written = read(".tsv", 'text\n"a" b\nc\n', columns=("text",)).render({'"a" b': '"A"', "c": '"C" d'}).decode()
    assert written == 'text\n"""A"""\n"""C"" d"\n'
    assert texts(".tsv", written, columns=("text",)) == ['"A"', '"C" d']


def test_the_same_quotation_mark_of_a_csv_is_refused() -> None:
    with pytest.raises(DocumentError, match="line 2: a quotation mark is not closed, or something follows it"):
        texts(".csv", 'id,text\n1,"hello" he said\n', columns=("text",))


def test_a_cue_goes_on_behind_a_blank_line() -> None:
    import srt

    source = "1\n00:00:01,000 --> 00:00:02,000\nOne.\n\nTwo\nthree.\n\n2\n00:00:03,000 --> 00:00:04,000\nFour\n\n5\n\n"
    assert texts(".srt", source) == ["One.", "Two three.", "Four"]
    result = translated(".srt", source).decode()
    assert result == source.upper().replace("TWO\nTHREE", "TWO THREE")
    assert [cue.content for cue in srt.parse(result)] == ["ONE.\n\nTWO THREE.", "FOUR\n\n5"]
    assert texts(".vtt", "WEBVTT\n\n00:01.000 --> 00:02.000\nOne.\n\nno cue\n") == ["One."]


def test_breaks_within_a_line_of_subtitles_stay_breaks() -> None:
    source = "1\n00:00:01,000 --> 00:00:02,000\nOne.\\N- two\\nThree\\Nfour C:\\New\n"
    assert texts(".srt", source) == ["One.", "two Three four C:\\New"]
    assert "ONE.\\N- TWO" in translated(".srt", source).decode()


@pytest.mark.parametrize(
    ("cue", "found"),
    [
        ("[DOOR OPENS]\nCome in.", ["[DOOR OPENS]", "Come in."]),
        ("(one\ntwo)\nthree", ["(one two)", "three"]),
        ("♪ one ♪\n♪ two ♪", ["♪ one ♪", "♪ two ♪"]),
        ("JOHN: One?\nMARY: Two\nthree.", ["JOHN: One?", "MARY: Two three."]),
        (">> One\n>> Two", [">> One", ">> Two"]),
        ("one\nA 10:30", ["one A 10:30"]),
        ("a < b > c", ["a < b > c"]),
    ],
)
def test_sounds_songs_and_speakers_of_subtitles_have_lines_of_their_own(cue: str, found: list[str]) -> None:
    source = f"1\n00:00:01,000 --> 00:00:02,000\n{cue}\n"
    assert texts(".srt", source) == found


def test_references_and_spaces_of_subtitles_are_spelled_as_they_were() -> None:
    source = "WEBVTT\n\n00:01.000 --> 00:02.000\n&nbsp;one &lrm;two &amp; &lt;three&gt;\n"
    assert translated(".vtt", source).decode() == source.replace("one", "ONE").replace("two", "TWO").replace(
        "three", "THREE"
    )
    source = "[Events]\nFormat: Start, Text\nDialogue: 0,one\\htwo\n"
    assert translated(".ass", source).decode() == source.replace("one", "ONE").replace("two", "TWO")


def test_metadata_in_cues_stays() -> None:
    assert texts(".vtt", 'WEBVTT\n\n00:01.000 --> 00:02.000\n{"a": "b"}\n\n00:02.000 --> 00:03.000\n{b} c\n') == [
        "{b} c"
    ]


def test_dialogues_of_substation_are_translated_around_their_overrides() -> None:
    head = "[Script Info]\nTitle: a\n\n[Events]\nFormat: Layer, Start, Name, Text\nComment: 0,0,a,b\n"
    lines = ("One, {\\i1}two{\\i0}\\Nthree", "Four.\\NFive", "{\\p1}m 0 0 l 1 1", "{\\k20}la{\\k10}la", "open {b")
    source = head + "".join(f"Dialogue: 0,0,a,{line}\n" for line in lines)
    assert texts(".ass", source) == ["One,", "two", "three", "Four.", "Five"]
    result = translated(".ass", source, lambda text: f"{text.upper()}{{x}}").decode()
    assert result.splitlines()[6:] == [
        "Dialogue: 0,0,a,ONE,(x) {\\i1}TWO(x){\\i0}\\NTHREE(x)",
        "Dialogue: 0,0,a,FOUR.(x)\\NFIVE(x)",
        *source.splitlines()[8:],
    ]
    assert translated(".ass", source, str).decode() == source


@pytest.mark.parametrize("line", ["sep=;\n", '"sep=;"\r\n', "SEP=;\n"])
def test_a_line_that_names_the_delimiter_stays(line: str) -> None:
    assert translated(".csv", f"{line}id;text\n1;a,b\n", columns=("text",)).decode() == f"{line}id;text\n1;A,B\n"


@pytest.mark.parametrize("delimiter", list(",;|\t"))
def test_the_delimiter_is_the_most_frequent_in_the_header(delimiter: str) -> None:
    source = delimiter.join(["id", "text", '"a,;|\t"']) + "\n" + delimiter.join(["1", "one", ""]) + "\n"
    assert translated(".csv", source, columns=("text",)).decode() == source.replace("one", "ONE")
