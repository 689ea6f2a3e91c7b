"""What stays in office documents: objects among words, white space, and what only looks like text."""

from __future__ import annotations

import io
import re
from html import unescape

import pytest
from document_texts import archive, package, part, read, relationships, texts, translated, word, word_body

from xuanzang.documents import DocumentError
from xuanzang.documents.opening import DocumentFile

R = "<w:r><w:t xml:space='preserve'>{}</w:t></w:r>"
BOLD = "<w:r><w:rPr><w:b/></w:rPr><w:t xml:space='preserve'>{}</w:t></w:r>"
ID = "w:id='1'"
SPREADSHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"


def paragraph(*content: str) -> bytes:
    return word(f"<w:p>{''.join(content)}</w:p>")


def shown(body: str) -> str:
    """Return Word's XML without what runs and spaces are written with."""
    body = body.replace('"', "'").replace(" xml:space='preserve'", "")
    body = body.replace("<w:rPr><w:lang w:val='de'/><w:noProof/></w:rPr>", "")
    return unescape(re.sub(r"</w:t><w:t>|</w:t></w:r><w:r><w:t>", "", body))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        # Objects, anchors and tracked changes are within one text, also inside of words.
        ([R.format("inter"), "<w:r><w:softHyphen/></w:r>", R.format("nal")], 'inter<img id="1">nal'),
        (["<w:r><w:t>e</w:t><w:noBreakHyphen/><w:t>mail</w:t></w:r>"], "e-mail"),
        (
            [R.format("a"), f"<w:commentRangeStart {ID}/>", R.format("b"), f"<w:commentRangeEnd {ID}/>", R.format("c")],
            'a<g id="1">b</g>c',
        ),
        ([R.format("wo"), f"<w:ins w:id='1'>{R.format('rd')}</w:ins>", R.format("s")], 'wo<g id="1">rd</g>s'),
        ([R.format("a "), "<w:del><w:r><w:delText>x</w:delText></w:r></w:del>", R.format("b")], 'a <img id="1">b'),
        ([R.format("a"), "<w:r><w:footnoteReference w:id='2'/></w:r>", R.format(" b")], 'a<img id="1"> b'),
        ([R.format("a "), "<m:oMath><m:r><m:t>E=</m:t></m:r></m:oMath>", R.format(" b")], 'a <code id="1">E=</code> b'),
        ([R.format("p "), f"<w:fldSimple>{R.format('3')}</w:fldSimple>", R.format(" b")], 'p <code id="1">3</code> b'),
        # Looks: what is not seen joins, what is seen divides.
        ([R.format("a"), "<w:r><w:rPr><w:lang w:val='de'/><w:noProof/></w:rPr><w:t>b</w:t></w:r>"], "ab"),
        ([BOLD.format("a "), R.format("much longer")], '<g id="1">a </g>much longer'),
        # White space.
        ([R.format("Name\tAge"), "<w:r><w:tab/><w:t>City</w:t></w:r>"], None),
        ([R.format("a  b\u00a0c")], 'a <img id="1">b <img id="2">c'),
        ([R.format("a "), R.format(" b")], 'a <img id="1">b'),
    ],
)  # fmt: skip
def test_a_paragraph_of_word_is_one_text_and_keeps_what_is_in_it(content: list[str], text: str | None) -> None:
    source = paragraph(*content)
    if text is not None:
        assert texts(".docx", source) == [text]
    changed = word_body(translated(".docx", source))
    words = re.compile(r"(?<=<w:t>)[^<]*")
    assert shown(changed) == words.sub(lambda match: match[0].upper(), shown(word_body(source)))


def test_columns_are_translated_apart() -> None:
    assert texts(".docx", paragraph(R.format("Name\tAge   City"))) == ["Name", "Age", "City"]


@pytest.mark.parametrize("before", [True, False])
def test_tracked_formatting_stays_wherever_it_is_among_properties(before: bool) -> None:
    change = "<w:rPrChange w:id='9' w:author='A'><w:rPr><w:i/></w:rPr></w:rPrChange>"
    properties = f"<w:rPr>{change}<w:b/></w:rPr>" if before else f"<w:rPr><w:b/>{change}</w:rPr>"
    source = paragraph(f"<w:r>{properties}<w:t xml:space='preserve'>old </w:t></w:r>", R.format("and plain words"))
    [text] = texts(".docx", source)
    body = word_body(read(".docx", source).render({text: 'PLAIN <g id="1">OLD</g>'}))
    assert shown(body) == f"<w:p><w:r><w:t>PLAIN </w:t></w:r><w:r>{properties}<w:t>OLD</w:t></w:r></w:p>"


def test_a_range_of_which_one_end_is_elsewhere_never_ends_before_it_begins() -> None:
    start, end = "<w:bookmarkStart w:id='1' w:name='n'/>", "<w:bookmarkEnd w:id='1'/>"
    other = "<w:commentRangeStart w:id='1'/>"
    source = paragraph(R.format("a "), start, R.format("b "), other, R.format("c "), end, R.format("d"))
    [text] = texts(".docx", source)
    body = shown(word_body(read(".docx", source).render({text: "x"})))
    assert body == f"<w:p>{start}{other}<w:r><w:t>x</w:t></w:r>{end}</w:p>"


def mark(step: str) -> str:
    return f"<w:r><w:fldChar w:fldCharType='{step}'/></w:r>"


def fields(instruction: str, content: str) -> tuple[str, str]:
    """Return a field of Word in both of its spellings."""
    parts = "".join(f"<w:r><w:instrText>{part}</w:instrText></w:r>" for part in re.split("(?<=.)(?=A)", instruction))
    simple = f"<w:fldSimple w:instr='{instruction}'>{content}</w:fldSimple>"
    return simple, mark("begin") + parts + mark("separate") + content + mark("end")


@pytest.mark.parametrize(
    "instruction",
    [
        *("DATE", " date \\@ MMMM ", "TIME", "NUMPAGES", "REF _Ref1 \\h", "FILENAME\\p", "STYLEREF 1"),
        *("AUTHOR", "= 1 + 1", "DOCPROPERTY Title", "ADDIN ZOTERO_ITEM"),
    ],
)
def test_what_word_computes_is_sent_as_an_object_and_comes_back(instruction: str) -> None:
    for content in (R.format("May fifth"), f"<w:r><w:t>May</w:t><w:tab/></w:r><w:hyperlink>{BOLD}</w:hyperlink>"):
        for field in fields(instruction, content.format(" fifth")):
            source = paragraph(R.format("printed "), field, R.format(" by me"))
            [text] = texts(".docx", source)
            assert text == 'printed <code id="1">May fifth</code> by me'
            body = word_body(read(".docx", source).render({text: '<code id="1">May fifth</code>: MINE'}))
            assert shown(body) == f"<w:p>{shown(field)}<w:r><w:t>: MINE</w:t></w:r></w:p>"
            assert texts(".docx", paragraph(field)) == []


@pytest.mark.parametrize(
    "instruction", ["HYPERLINK x", "HYPERLINK&quot;x&quot;", " hyperlink \\l x", "FORMTEXT", "TOC", ""]
)
def test_words_of_authors_in_fields_are_translated(instruction: str) -> None:
    for field in fields(instruction, R.format("the manual")):
        source = paragraph(R.format("see "), field, R.format(" now"))
        assert texts(".docx", source) == ['see <g id="1">the manual</g> now']


def test_words_of_a_field_move_with_its_marks() -> None:
    instruction = "<w:r><w:instrText>HYPERLINK x</w:instrText></w:r>"
    field = mark("begin") + instruction + mark("separate") + "{}" + mark("end")
    source = paragraph(R.format("see "), field.format(R.format("the manual")), R.format(" now"))
    assert texts(".docx", source) == ['see <g id="1">the manual</g> now']
    body = word_body(read(".docx", source).render({'see <g id="1">the manual</g> now': '<g id="1">M</g>, now'}))
    assert shown(body) == f"<w:p>{shown(field.format(R.format('M')))}<w:r><w:t>, now</w:t></w:r></w:p>"
    # Without an end it is no field of words.
    assert texts(".docx", paragraph(R.format("a "), mark("begin") + instruction, R.format("b"))) == ["a", "b"]


def test_namespaces_count_and_prefixes_do_not() -> None:
    for namespace in (
        "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
        "http://purl.oclc.org/ooxml/wordprocessingml/main",
    ):
        text = "<q:p><q:r><q:t>a</q:t><w:t>b</w:t></q:r></q:p>"
        document = f"<q:document xmlns:q='{namespace}' xmlns:w='other'><q:body>{text}</q:body></q:document>"
        raw = package("word/document.xml", {"word/document.xml": document})
        assert texts(".docx", raw) == ["a"]
        assert "<q:t>A</q:t><w:t>b</w:t>" in part(translated(".docx", raw), "word/document.xml")


def test_sections_comments_and_references_in_a_text_are_its_characters() -> None:
    source = paragraph("<w:r><w:t>a<!-- x --><![CDATA[<b>]]>&#99;<?y z?>d</w:t></w:r>")
    assert texts(".docx", source) == ["a&lt;b&gt;cd"]
    assert "<w:t>A&lt;B&gt;CD</w:t>" in word_body(translated(".docx", source))


def test_parts_are_those_that_relationships_lead_to_and_glossaries_are_none() -> None:
    document = part(paragraph(R.format("a")), "word/document.xml")
    names = "My/Doc.xml", "My/h.xml", "My/glossary/document.xml", "word/document.xml"
    others = dict.fromkeys(names, document)
    links = relationships(header="h.xml", glossaryDocument="glossary/document.xml", header_2="/none.xml")
    raw = package("/my/doc.xml", {**others, "My/_rels/Doc.xml.rels": links})
    assert texts(".docx", raw) == ["a", "a"]
    changed = translated(".docx", raw)
    assert [name for name in others if ">A<" in part(changed, name)] == ["My/Doc.xml", "My/h.xml"]


def test_a_document_of_another_kind_or_without_a_main_part_is_refused() -> None:
    for suffix, kind in ((".pptx", "presentation"), (".xlsx", "workbook")):
        with pytest.raises(DocumentError, match=f"no {kind}: the root of word/document.xml is not"):
            read(suffix, word("<w:p/>"))
    with pytest.raises(DocumentError, match="no Word document: no relationship leads to its main part"):
        read(".docx", package("elsewhere.xml", {}))
    with pytest.raises(DocumentError, match=r"it is encrypted, or of an older Office: save it as \.xlsx"):
        read(".xlsx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")


def workbook(strings: str, **parts: str) -> bytes:
    """Return a .xlsx with shared strings, and further parts of its first sheet by the types of their relationships."""
    space = f"xmlns='{SPREADSHEET}'"
    sheet = parts.pop("worksheet", "<sheetData/>")
    return package(
        "xl/workbook.xml",
        {
            "xl/workbook.xml": f"<workbook {space}>{parts.pop('workbook', '')}</workbook>",
            "xl/_rels/workbook.xml.rels": relationships(worksheet="s.xml", sharedStrings="t.xml"),
            "xl/s.xml": f"<worksheet {space}>{sheet}</worksheet>",
            "xl/_rels/s.xml.rels": relationships(**{name: f"{name}.xml" for name in parts}),
            "xl/t.xml": f"<sst {space}>{strings}</sst>",
            **{f"xl/{name}.xml": f"<{name} {space}>{content}</{name}>" for name, content in parts.items()},
        },
    )


def test_a_workbook_gives_its_strings_and_no_formulas_or_values() -> None:
    sheet = (
        "<sheetData><row><c t='s'><v>0</v></c><c><f>A1&amp;\"x\"</f><v>stays</v></c>"
        "<c t='str'><f>A1</f><v>stays</v></c><c t='inlineStr'><is><t>inline</t></is></c></row></sheetData>"
    )
    strings = (
        "<si><t>one\ntwo _x000D_ three</t></si>"
        "<si><r><t xml:space='preserve'>plain </t></r><r><rPr><b/></rPr><t>bold</t></r>"
        "<rPh sb='0' eb='2'><t>reading</t></rPh><phoneticPr fontId='1'/></si><si><t>42</t></si>"
    )
    raw = workbook(strings, worksheet=sheet)
    assert texts(".xlsx", raw) == ["inline", "one", "two", "three", 'plain <g id="1">bold</g>']
    changed = translated(".xlsx", raw)
    assert "<t>ONE\nTWO _x000D_ THREE</t>" in part(changed, "xl/t.xml")
    assert "reading" not in part(changed, "xl/t.xml")  # it is of words that are no longer there
    assert part(changed, "xl/s.xml").count("stays") == 2
    long = read(".xlsx", workbook("<si><t>a</t></si>"))
    assert long.render({"a": "b" * 32_768}) == long.render({})
    assert [unit.text for unit in long.unwritten] == []  # of the last one
    long.render({"a": "b" * 32_768})
    assert [(unit.text, unit.where) for unit in long.unwritten] == [("a", "xl/t.xml")]
    assert "<t>C_x005F_x0041_</t>" in part(translated(".xlsx", workbook("<si><t>c_x005F_x0041_</t></si>")), "xl/t.xml")
    escaped = read(".xlsx", workbook("<si><t>a</t></si>")).render({"a": "_x0041_"})
    assert "<t>_x005F_x0041_</t>" in part(escaped, "xl/t.xml")


def test_strings_of_cells_are_translated_unless_an_array_formula_gives_them() -> None:
    plain = "<row><c r='A1' t='str' s='1'><v>\nplain</v></c><c r='B1' t='e'><v>#NAME</v></c></row>"
    raw = workbook("", worksheet=f"<sheetData>{plain}</sheetData>")
    changed = part(translated(".xlsx", raw), "xl/s.xml")
    assert '<c r="A1" t="str" s="1"><v xml:space="preserve">\nPLAIN</v></c>' in changed
    assert "#NAME" in changed
    array = (
        "<row><c r='A2' t='str'><f t='array' ref='A2:A3'>A8:A9</f><v>a</v></c></row><row><c t='str'><v>b</v></c></row>"
    )
    assert texts(".xlsx", workbook("", worksheet=f"<sheetData>{plain}{array}</sheetData>")) == ["plain"]


def test_cells_by_which_a_workbook_finds_others_stay() -> None:
    strings = "".join(f"<si><t>{text}</t></si>" for text in ("Yes", "Sales 2024", "Choice", "Apples", "Free", "Region"))
    raw = workbook(
        strings,
        worksheet="<sheetData><row><c><f>IF(A1=\"yes\",1,0)</f></c></row></sheetData>"
        "<dataValidations><dataValidation><formula1>\"Choice,Other\"</formula1></dataValidation></dataValidations>"
        "<autoFilter><filterColumn><filters><filter val='Apples'/></filters></filterColumn></autoFilter>",
        table="<tableColumns><tableColumn name='Sales 2024'/></tableColumns>",
        pivotCacheDefinition="<cacheFields><cacheField name='Region'/></cacheFields>",
    )  # fmt: skip
    assert texts(".xlsx", raw) == ["Free"]


@pytest.mark.parametrize(
    ("formula", "kept", "free"),
    [
        ('COUNTIF(A:A,"*total*")', "Grand Total 2024", "sum"),
        ('COUNTIF(A:A,"paid?")', "paid!", "open"),
        ('COUNTIF(A:A,"*ok*")', "Booked", "sum"),
        ('COUNTIF(A:A,"ok*")', "OK then", "Booked"),
        ('COUNTIFS(A:A,"=*否",B:B,"A?")', "是否", "否定"),
        ('COUNTIF(A:A,"?~*b*")', "x*b", "xb"),
        ('ISNUMBER(SEARCH("ok",A1))', "book", "a"),
        ('SUMIF(A:A,"&lt;&gt;done",B:B)', "Done", "do"),
        ('COUNTIFS(A:A,"=a~*b")', "a*b", "ab"),
        ('XLOOKUP("total*",A:A,B:B)', "total costs", "costs"),
        ('ISNUMBER(SEARCH("late",A1))', "too late", "lat"),
        ('IF(LEFT(A1,3)="abc",1,0)', "abcdef", "ab cdef"),
        ('SUBSTITUTE(A1,"alt","neu")', "halten", "neues"),
        ('IF(A1="","Are you sure?",0)', "Are you sure?", "Are you surely"),
    ],
)
def test_cells_that_criteria_find_by_a_part_of_their_text_stay(formula: str, kept: str, free: str) -> None:
    strings = "".join(f"<si><t>{text}</t></si>" for text in (kept, free))
    assert texts(
        ".xlsx", workbook(strings, worksheet=f"<sheetData><row><c><f>{formula}</f></c></row></sheetData>")
    ) == [free]
    cells = "".join(
        f"<b:table-row><b:table-cell o:value-type='string'><t:p>{text}</t:p></b:table-cell></b:table-row>"
        for text in (kept, free)
    )
    computed = f"<b:table-cell b:formula='of:={formula}' o:value-type='float'/>"
    sheet = f"<b:table>{cells}<b:table-row>{computed}</b:table-row></b:table>"
    assert texts(".ods", open_document("spreadsheet", sheet)) == [free]


def test_cells_of_conditions_filters_and_totals_stay() -> None:
    table = "<tableColumns><tableColumn name='Region' totalsRowLabel='Sum'/></tableColumns>"
    assert texts(".xlsx", workbook("<si><t>Sum</t></si><si><t>Free</t></si>", table=table)) == ["Free"]
    cells = "".join(
        f"<b:table-row><b:table-cell o:value-type='string'><t:p>{text}</t:p></b:table-cell></b:table-row>"
        for text in ("Choice", "Filtered", "Free")
    )
    rules = "<b:content-validation b:condition='of:cell-content-is-in-list(&quot;Choice&quot;;&quot;b&quot;)'/>"
    filters = "<b:filter><b:filter-condition b:value='Filtered' b:operator='='/></b:filter>"
    sheet = open_document("spreadsheet", f"{rules}<b:table>{cells}</b:table>{filters}")
    assert texts(".ods", sheet) == ["Free"]


def test_texts_in_attributes_of_word_are_translated() -> None:
    spaces = (
        "xmlns:v='urn:schemas-microsoft-com:vml' xmlns:pic='http://schemas.openxmlformats.org/drawingml/2006/picture'"
    )
    form = (
        "<w:ffData><w:helpText w:type='text' w:val='help'/><w:statusText w:type='autoText' w:val='stays'/>"
        "<w:ddList><w:listEntry w:val='choice'/></w:ddList></w:ffData>"
    )
    body = (
        "<w:tbl><w:tblPr><w:tblCaption w:val='caption'/><w:tblDescription w:val='description'/></w:tblPr></w:tbl>"
        f"<w:p {spaces}><w:r><w:fldChar w:fldCharType='begin'>{form}</w:fldChar></w:r><w:r><w:pict>"
        "<v:shape alt='a box'><v:textpath string='draft'/></v:shape><v:shape alt='stays.png'/></w:pict></w:r>"
        "<w:r><w:drawing><pic:cNvPr name='stays' descr='a cat'/></w:drawing></w:r></w:p>"
    )
    expected = ["caption", "description", "help", "choice", "a box", "draft", "a cat"]
    assert texts(".docx", word(body)) == expected
    again = texts(".docx", translated(".docx", word(body)))
    assert again == [text.upper() for text in expected]


def test_footers_links_and_controls_of_an_open_document_are_translated() -> None:
    declared = "<p:footer-decl p:name='f'>footer</p:footer-decl><b:table><b:desc>about it</b:desc></b:table>"
    control = (
        "<t:p>a <x:content-control xmlns:x='urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0'>"
    )
    body = f"{declared}<t:p><t:a o:title='tip'>link</t:a></t:p>{control}b</x:content-control></t:p>"
    source = open_document("presentation", body)
    assert texts(".odp", source) == ["footer", "about it", "link", "tip", 'a <g id="1">b</g>']
    changed = part(translated(".odp", source), "content.xml")
    assert ">FOOTER</p:footer-decl>" in changed
    assert 'o:title="TIP">LINK</t:a>' in changed


def test_messages_of_validations_and_tips_of_links_are_translated_within_the_limits_of_excel() -> None:
    import openpyxl
    from openpyxl.worksheet.datavalidation import DataValidation

    made = openpyxl.Workbook()
    made.active["A1"].hyperlink = "https://a.example"
    made.active["A1"].hyperlink.tooltip = "tip"
    rule = DataValidation(type="whole", promptTitle="title", prompt="enter", errorTitle="no", error="wrong")
    made.active.add_data_validation(rule)
    rule.add("A1")
    output = io.BytesIO()
    made.save(output)
    document = read(".xlsx", output.getvalue())
    asked = {"enter", "no", "tip", "title", "wrong"}
    assert {unit.text for unit in document.units()} == asked
    content = document.render({text: f"{text}{'x' * 40}" for text in asked})
    [sheet] = openpyxl.load_workbook(io.BytesIO(content)).worksheets
    [found] = sheet.data_validations.dataValidation
    assert (found.promptTitle, found.errorTitle, found.prompt) == ("title", "no", f"enter{'x' * 40}")
    assert sheet["A1"].hyperlink.tooltip == f"tip{'x' * 40}"
    assert {unit.text for unit in document.unwritten} == {"no", "title"}


def test_threaded_comments_of_a_workbook_are_translated() -> None:
    space = "http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments"
    comments = f"<threadedComment ref='A1' xmlns='{space}'><text>hello</text></threadedComment>"
    raw = workbook("<si><t>a</t></si>", threadedComment=comments)
    assert texts(".xlsx", raw) == ["a", "hello"]
    assert ">HELLO</text>" in part(translated(".xlsx", raw), "xl/threadedComment.xml")


def test_tips_of_links_are_translated_with_the_words_of_their_paragraph() -> None:
    import pptx

    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])
    run = slide.shapes.add_textbox(0, 0, 1, 1).text_frame.paragraphs[0].add_run()
    run.text, run.hyperlink.address = "link", "https://a.example"
    run._r.rPr.hlinkClick.set("tooltip", "tip")
    output = io.BytesIO()
    presentation.save(output)
    again = pptx.Presentation(io.BytesIO(translated(".pptx", output.getvalue())))
    [paragraph] = again.slides[0].shapes[0].text_frame.paragraphs
    assert (paragraph.text, paragraph.runs[0]._r.rPr.hlinkClick.get("tooltip")) == ("LINK", "TIP")


def test_a_slide_gives_boxes_tables_notes_and_alternative_texts_but_no_prompts_of_layouts() -> None:
    import pptx
    from pptx.util import Inches

    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[1])
    slide.shapes.title.text = "title"
    slide.notes_slide.notes_text_frame.text = "note"
    box = slide.shapes.add_textbox(Inches(1), Inches(1), Inches(1), Inches(1))
    box.text_frame.text = "line one\vline two"
    box.text_frame.paragraphs[0].add_run().hyperlink.address = "https://a.example"
    box._element.nvSpPr.cNvPr.set("descr", "a picture of a cat")
    output = io.BytesIO()
    presentation.save(output)
    found = texts(".pptx", output.getvalue())
    assert sorted(found) == ["a picture of a cat", "line one", "line two", "note", "title"]
    again = pptx.Presentation(io.BytesIO(translated(".pptx", output.getvalue())))
    assert again.slides[0].shapes[2].text_frame.text == "LINE ONE\vLINE TWO"


SPACES = " ".join(
    f"xmlns:{name}='urn:oasis:names:tc:opendocument:xmlns:{uri}:1.0'"
    for name, uri in zip("otbdp", ("office", "text", "table", "drawing", "presentation"), strict=True)
)


def open_document(kind: str, body: str) -> bytes:
    content = f"<o:document-content {SPACES}><o:body><o:{kind}>{body}</o:{kind}></o:body></o:document-content>"
    return archive({"content.xml": content})


def test_notes_and_spaces_of_an_open_document_travel_and_tracked_deletions_stay() -> None:
    deleted = "<t:tracked-changes><t:deletion><t:p>gone</t:p></t:deletion></t:tracked-changes>"
    note = "<t:note><t:note-citation>1</t:note-citation><t:note-body><t:p>foot</t:p></t:note-body></t:note>"
    source = open_document("text", f"{deleted}<t:p>a{note}<t:s t:c='2'/>b <t:span t:style-name='x'>c</t:span></t:p>")
    assert texts(".odt", source) == ['a<img id="1"> <img id="2">b <g id="3">c</g>', "foot"]
    changed = part(translated(".odt", source), "content.xml")
    assert changed.count("gone") == 1
    assert "<t:p>A<t:note>" in changed
    assert "<t:p>FOOT</t:p>" in changed
    assert '</t:note><t:s t:c="2"/>B <t:span t:style-name="x">C</t:span></t:p>' in changed


@pytest.mark.parametrize(
    "name", ["date", "time", "page-number", "page-count", "file-name", "bookmark-ref", "chapter", "author-name"]
)
def test_what_writer_computes_is_sent_as_an_object_and_comes_back(name: str) -> None:
    field = f"<t:{name}>May fifth</t:{name}>"
    source = open_document("text", f"<t:p>printed {field} by me</t:p><t:p>{field}</t:p>")
    assert texts(".odt", source) == ['printed <code id="1">May fifth</code> by me']
    changed = part(translated(".odt", source), "content.xml")
    assert f"<t:p>PRINTED {field} BY ME</t:p><t:p>{field}</t:p>" in changed


def test_what_powerpoint_computes_is_sent_as_an_object_and_comes_back() -> None:
    import pptx
    from lxml import etree

    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[6])
    words = slide.shapes.add_textbox(0, 0, 1, 1).text_frame.paragraphs[0]
    words.add_run().text = "printed "
    field = etree.SubElement(words._p, words.runs[0]._r.tag.replace("}r", "}fld"), type="datetime1")
    etree.SubElement(field, words.runs[0]._r.t.tag).text = "May fifth"
    words.add_run().text = " by me"
    output = io.BytesIO()
    presentation.save(output)
    assert texts(".pptx", output.getvalue()) == ['printed <code id="1">May fifth</code> by me']
    again = pptx.Presentation(io.BytesIO(translated(".pptx", output.getvalue())))
    [paragraph] = again.slides[0].shapes[0].text_frame.paragraphs
    assert "".join(element.text for element in paragraph._p.iter("{*}t")) == "PRINTED May fifth BY ME"


def test_computed_cells_values_and_keys_of_an_open_document_stay() -> None:
    def cell(text: str, value_type: str = "string", formula: str = "") -> str:
        return f"<b:table-cell o:value-type='{value_type}' {formula}><t:p>{text}</t:p></b:table-cell>"

    formula = "b:formula='of:=IF([.A1]=\"key\";1;2)'"
    cells = cell("word"), cell("one", "float"), cell("sum", formula=formula), cell("Key")
    assert texts(".ods", open_document("spreadsheet", "".join(cells))) == ["word"]


def test_a_value_that_a_cell_has_beside_its_text_is_translated_like_it() -> None:
    cell = "<b:table-cell o:value-type='string' o:string-value='two words'><t:p>two words</t:p></b:table-cell>"
    help_message = "<b:help-message b:title='a title'><t:p>help</t:p></b:help-message>"
    source = open_document("spreadsheet", help_message + cell)
    assert texts(".ods", source) == ["a title", "help", "two words", "two words"]
    changed = part(translated(".ods", source), "content.xml")
    assert (changed.count("TWO WORDS"), changed.count("A TITLE"), changed.count("HELP")) == (2, 1, 1)


def test_choices_of_a_list_in_word_are_translated_like_the_chosen_one() -> None:
    items = "<w:dropDownList><w:listItem w:displayText='one way' w:value='1'/></w:dropDownList>"
    source = paragraph(f"<w:sdt><w:sdtPr>{items}</w:sdtPr><w:sdtContent>{R.format('one way')}</w:sdtContent></w:sdt>")
    assert texts(".docx", source) == ["one way", "one way"]
    body = word_body(translated(".docx", source))
    assert body.count("ONE WAY") == 2


def test_word_refills_no_translated_control_with_the_source() -> None:
    def control(content: str) -> str:
        properties = "<w:sdtPr><w:alias w:val='Title'/><w:dataBinding w:xpath='/a'/></w:sdtPr>"
        return f"<w:sdt>{properties}<w:sdtContent>{content}</w:sdtContent></w:sdt>"

    paragraphs = control(f"<w:p>{R.format('a title')}</w:p>"), f"<w:p>{control(R.format('in a line'))}</w:p>"
    source = word("".join((*paragraphs, control(f"<w:p>{R.format('2026')}</w:p>"))))
    body = word_body(translated(".docx", source))
    assert ("A TITLE" in body, "IN A LINE" in body, body.count("<w:alias")) == (True, True, 3)
    assert body.count("<w:dataBinding") == 1  # of the number, which stays
    assert translated(".docx", source, str) == source


def test_prompts_of_a_presentation_stay() -> None:
    frame = "<d:frame p:placeholder='true'><t:p>prompt</t:p></d:frame>"
    source = open_document("presentation", f"{frame}<t:p>shown</t:p>")
    assert texts(".odp", source) == ["shown"]
    with pytest.raises(DocumentError, match="no OpenDocument spreadsheet"):
        read(".ods", source)


_NCX = (
    "<!DOCTYPE ncx PUBLIC 'a' 'b'><ncx xmlns='http://www.daisy.org/z3986/2005/ncx/'>"
    "<docAuthor><text>who</text></docAuthor><navLabel><text>label</text></navLabel></ncx>"
)
_PACKAGE = (
    "<package xmlns:dc='http://purl.org/dc/elements/1.1/'><metadata><dc:title>title</dc:title>"
    "<dc:creator>who</dc:creator></metadata><manifest><item href='a%20b.xhtml' media-type='application/xhtml+xml'/>"
    "<item href='toc.ncx' media-type='application/x-dtbncx+xml'/></manifest></package>"
)


def book(page: str, **others: str) -> bytes:
    container = "<container><rootfiles><rootfile full-path='OPS/p.opf'/></rootfiles></container>"
    files = {"META-INF/container.xml": container, "OPS/p.opf": _PACKAGE, "OPS/a b.xhtml": page, "OPS/toc.ncx": _NCX}
    return archive({**files, **{f"META-INF/{name}.xml": content for name, content in others.items()}})


def test_a_book_keeps_entities_document_types_and_empty_elements() -> None:
    html = (
        '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "http://www.w3.org/TR/xhtml11/DTD/xhtml11.dtd">\n'
        "<html><p>one&nbsp;two<code/> <i>x</i></p><script/><p>three</p></html>"
    )
    raw = book(html)
    assert texts(".epub", raw) == ["title", 'one <img id="1">two<img id="2"> <g id="3">x</g>', "three", "label"]
    changed = part(translated(".epub", raw), "OPS/a b.xhtml")
    assert changed == html.replace("one", "ONE").replace("two", "TWO").replace(">x<", ">X<").replace("three", "THREE")
    assert ">LABEL<" in part(translated(".epub", raw), "OPS/toc.ncx")


def test_a_book_with_encrypted_pages_is_refused_and_one_with_encrypted_fonts_is_not() -> None:
    encryption = "<encryption><CipherData><CipherReference URI='{}'/></CipherData></encryption>"
    page = "<html><p>a</p></html>"
    assert texts(".epub", book(page, encryption=encryption.format("OPS/font.otf"))) == ["title", "a", "label"]
    with pytest.raises(DocumentError, match=r"it is encrypted: OPS/a b\.xhtml by META-INF/encryption\.xml"):
        read(".epub", book(page, encryption=encryption.format("OPS/a%20b.xhtml")))


def test_a_book_whose_pages_declare_entities_is_refused() -> None:
    with pytest.raises(DocumentError, match=r"OPS/a b\.xhtml: its document type .* has declarations"):
        read(".epub", book("<!DOCTYPE html [<!ENTITY a 'b'>]><html><p>&a;</p></html>"))


@pytest.mark.parametrize(
    "page", ["<html><p>a</html>", "<html><p>a & b</p></html>", "<html><p>a&nbsp;b</p></html>", "a"]
)
def test_a_page_that_is_no_xhtml_stays_and_is_reported_and_the_rest_of_the_book_is_translated(page: str) -> None:
    file = DocumentFile.of(book(page), suffix=".epub")
    assert list(file.texts().places) == ["title", "label"]
    written = file.rewritten({"title": "TITLE", "label": "LABEL"})
    assert part(written.content, "OPS/a b.xhtml") == page
    assert "<text>LABEL</text>" in part(written.content, "OPS/toc.ncx")
    [refusal] = written.refusals
    assert refusal.where == "OPS/a b.xhtml"
    assert refusal.message.startswith("it has stayed as it is: OPS/a b.xhtml: not well-formed XML")
