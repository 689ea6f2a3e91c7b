from __future__ import annotations

import pytest

from xuanzang.text.markup.document import Block
from xuanzang.text.markup.parsing import MAX_MARKUP_CHARACTERS, MAX_TAGS, parse
from xuanzang.text.markup.tokens import MarkupError, xml_tokens
from xuanzang.text.types import ContentFormat

BOMB = '<!DOCTYPE r [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><r>&b;</r>'


def parsed(content: str, content_format: ContentFormat = ContentFormat.HTML) -> list[Block]:
    return [part for part in parse(content, content_format) if isinstance(part, Block)]


def blocks(content: str, content_format: ContentFormat = ContentFormat.HTML) -> list[str]:
    return [block.text for block in parsed(content, content_format)]


def raw(content: str, content_format: ContentFormat = ContentFormat.HTML) -> list[str]:
    return [part for part in parse(content, content_format) if not isinstance(part, Block)]


def test_blocks_end_sentences_and_inline_elements_do_not() -> None:
    assert blocks("<p>a <b>b</b></p><p>c<br>d</p>e<table><tr><td>f") == ["a b", "c", "d", "e", "f"]


def test_xml_elements_among_text_are_inline_and_others_end_sentences() -> None:
    assert blocks("<r><s>a <g>b <h><k>c</k></h></g></s>\n<s>d</s></r>", ContentFormat.XML) == ["a b c", "d"]


@pytest.mark.parametrize("name", ["code", "pre", "script", "style", "svg", "math"])
def test_some_elements_stay_whole_with_what_is_in_them(name: str) -> None:
    content = f"<{name}><a> &amp; x</{name}>"
    inlines = [inline.opening for block in parsed(f"<p>a{content}b</p>") for inline in block.inlines]
    assert content in inlines + raw(f"<p>a{content}b</p>")


def test_elements_marked_as_not_translated_stay_whole() -> None:
    for mark in ('translate="no"', "class='x notranslate'"):
        [block] = parsed(f"<p>a <i {mark}>b <i>c</i></i> d</p>")
        [inline] = block.inlines
        assert (inline.opening, inline.is_verbatim) == (f"<i {mark}>b <i>c</i></i>", True)
    content = "<r><s its:translate='no'>a</s><s>b</s></r>"
    assert raw(content, ContentFormat.XML)[1] == "<s its:translate='no'>a</s>"


def test_lines_of_a_block_are_joined_with_a_space_unless_between_ideographs() -> None:
    assert blocks("<p>two\n  lines, 两\r\n 行 x\t y</p>") == ["two lines, 两行 x\t y"]


def test_references_become_characters_and_unknown_ones_stay() -> None:
    [block] = parsed("AT&T &lt;x&gt; &#8364; &unknown; &copy")
    assert block.text == "AT&T <x> €  ©"
    assert block.spellings == {"<": ["&lt;"], ">": ["&gt;"], "€": ["&#8364;"], "©": ["&copy"]}
    assert [inline.opening for inline in block.inlines] == ["&unknown;"]


def test_the_text_of_a_block_stands_in_the_content() -> None:
    content = "<p>x</p><p>a <b>两\n 行</b>&lt;z <code>c</code>e</p>"
    block = parsed(content)[1]
    assert block.text == "a 两行<z ce"
    places = [content[slice(*block.in_content(at, at + 1))] for at in range(len(block.text))]
    assert places == ["a", " ", "两", "行", "&lt;", "z", " ", "<code>c</code>", "e"]
    assert content[slice(*block.in_content(2, 5))] == "两\n 行</b>&lt;"


def test_elements_that_point_to_notes_are_no_words_and_keep_their_numbers() -> None:
    [block] = parsed(
        '<p>He <b>sat.<sup><a href="#f">[1]</a></sup><sup>2</sup></b> It rose<i>3</i>, 5 km<sup>2</sup></p>'
    )
    assert block.text == "He sat. It rose, 5 km2"
    bold, *others = block.inlines
    notes = [inline.opening for inline in (*bold.children, *others)]
    assert notes == ['<sup><a href="#f">[1]</a></sup>', "<sup>2</sup>", "<i>3</i>", "<sup>"]


def test_sections_of_characters_are_text() -> None:
    assert blocks("<r>a<![CDATA[<b> & ]]>c<![CDATA[d]]></r>", ContentFormat.XML) == ["a<b> & cd"]


@pytest.mark.parametrize(
    "content",
    ["<b>", "</b>", "<a><b></a></b>", "a & b", "<a b=c/>", "</r><r>", "&undefined;", "<?xml version='1.0'?>", "\0"],
)
def test_xml_that_is_not_well_formed_is_refused_without_quoting_it(content: str) -> None:
    with pytest.raises(MarkupError, match=r"^is not well-formed XML: [a-z() -]+$"):
        parse(content, ContentFormat.XML)


@pytest.mark.parametrize(
    "content", [f'<?xml version="1.0"?>{BOMB}', '<?xml version="1.0"?><!DOCTYPE r SYSTEM "f"><r/>']
)
def test_document_types_and_their_entities_are_refused(content: str) -> None:
    with pytest.raises(MarkupError, match="must not have a document type"):
        parse(content, ContentFormat.XML)


def test_content_over_a_limit_is_refused() -> None:
    with pytest.raises(MarkupError, match=r"at most 100 inline elements within one another"):
        parse("<p>" + "<b>" * 101 + "a", ContentFormat.HTML)
    with pytest.raises(MarkupError, match=r"at most 10000 tags, has 10001"):
        parse("<b>" * (MAX_TAGS + 1), ContentFormat.HTML)
    with pytest.raises(MarkupError, match=r"at most 100000 characters with markup, has 100001"):
        parse("a" * (MAX_MARKUP_CHARACTERS + 1), ContentFormat.HTML)


def test_stray_end_tags_and_crossing_ones_are_kept_at_any_number() -> None:
    assert blocks("a" + "</b>" * 500 + "<i><u>b</i>c</u>") == ["abc"]


@pytest.mark.parametrize(
    "content", ["<?xml version='1.0'?>\n<r>a</r>\n", "a<b/>é<!-- x --><?p q?>\r\n&amp;<c d='e'>f</c>", ""]
)
def test_xml_tokens_are_the_content_byte_for_byte(content: str) -> None:
    assert "".join(token.raw for token in xml_tokens(content)) == content


@pytest.mark.parametrize("number", ["0" * 5000 + "65", "x" + "0" * 5000 + "41"])
def test_references_may_have_thousands_of_digits(number: str) -> None:
    assert blocks(f"<p title='&#{number};'>b&#{number};") == ["bA"]
    assert blocks(f"<r>b&#{number};</r>", ContentFormat.XML) == ["bA"]
    assert blocks(f"b&#{'1' * 5000};") == ["b\ufffd"]
