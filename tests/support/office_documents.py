"""Office documents made by their reference libraries of paragraphs, and read by them again."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from datetime import date
from typing import Any
from zipfile import ZipFile

from lxml import etree

Run = tuple[str, bool, bool]
"""Words, whether they are bold, and whether they are italic."""
Paragraph = list[Run]
Characters = list[tuple[str, bool, bool]]
"""Characters with their looks; white space has none."""


def _seen(runs: Paragraph) -> Characters:
    return [
        (character, bold and not character.isspace(), italic and not character.isspace())
        for words, bold, italic in runs
        for character in words
    ]


def _bytes(save: Callable[[Any], object]) -> bytes:
    output = io.BytesIO()
    save(output)
    return output.getvalue()


def make_docx(paragraphs: list[Paragraph]) -> bytes:
    """Return a document with the first paragraph in its header, the last in a table."""
    import docx

    document = docx.Document()
    cell = document.add_table(rows=1, cols=2).rows[0].cells[1]
    places = [document.sections[0].header.paragraphs[0], *(document.add_paragraph() for _ in paragraphs[2:])]
    for place, runs in zip([*places, cell.paragraphs[0]], paragraphs, strict=False):
        for words, bold, italic in runs:
            run = place.add_run(words)
            run.bold, run.italic = bold or None, italic or None
    return _bytes(document.save)


def read_docx(raw: bytes) -> list[Characters]:
    """Return the paragraphs that python-docx finds."""
    import docx

    document = docx.Document(io.BytesIO(raw))
    cells = [paragraph for row in document.tables[0].rows for cell in row.cells for paragraph in cell.paragraphs]
    paragraphs = [*document.sections[0].header.paragraphs, *document.paragraphs, *cells]
    return [_seen([(run.text, bool(run.bold), bool(run.italic)) for run in each.runs]) for each in paragraphs]


def make_pptx(paragraphs: list[Paragraph]) -> bytes:
    """Return a slide with the first paragraph in its title, the last in its notes, the others in a table."""
    import pptx
    from pptx.util import Inches

    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    rows = max(1, len(paragraphs) - 2)
    table = slide.shapes.add_table(rows, 1, Inches(1), Inches(2), Inches(5), Inches(1)).table
    title, *others = paragraphs
    frames = [slide.shapes.title.text_frame, *(table.cell(number, 0).text_frame for number in range(rows))]
    for frame, runs in zip([*frames, slide.notes_slide.notes_text_frame], [title, *others], strict=False):
        for words, bold, italic in runs:
            run = frame.paragraphs[0].add_run()
            run.text = words
            run.font.bold, run.font.italic = bold or None, italic or None
    return _bytes(presentation.save)


def read_pptx(raw: bytes) -> list[Characters]:
    """Return the paragraphs that python-pptx finds."""
    import pptx

    slide = pptx.Presentation(io.BytesIO(raw)).slides[0]
    frames = [slide.shapes.title.text_frame, slide.notes_slide.notes_text_frame]
    frames += [cell.text_frame for shape in slide.shapes if shape.has_table for cell in shape.table.iter_cells()]
    return [
        _seen([(run.text, bool(run.font.bold), bool(run.font.italic)) for run in paragraph.runs])
        for frame in frames
        for paragraph in frame.paragraphs
    ]


def make_xlsx(paragraphs: list[Paragraph]) -> bytes:
    """Return a sheet with a paragraph in each row, beside values that are no texts."""
    import openpyxl
    from openpyxl.cell.rich_text import CellRichText, TextBlock
    from openpyxl.cell.text import InlineFont

    book = openpyxl.Workbook()
    sheet = book.active
    for number, runs in enumerate(paragraphs, start=1):
        blocks = [
            TextBlock(InlineFont(b=bold or None, i=italic or None), words) for words, bold, italic in runs if words
        ]
        plain = "".join(words for words, *_ in runs)
        sheet.append([CellRichText(blocks) if number % 2 else plain, number, date(2024, 1, number % 28 + 1)])
        sheet.cell(number, 4).value = f'=IF(B{number}>1,"stays",A{number})'
    return _bytes(book.save)


def read_xlsx(raw: bytes) -> list[Characters]:
    """Return the cells that openpyxl finds; those that are no strings as one character."""
    import openpyxl
    from openpyxl.cell.rich_text import CellRichText, TextBlock

    def runs(value: object) -> Paragraph:
        if isinstance(value, CellRichText):
            return [
                (part.text, bool(part.font.b), bool(part.font.i))
                if isinstance(part, TextBlock)
                else (part, False, False)
                for part in value
            ]
        return [(value, False, False)] if isinstance(value, str) and not value.startswith("=") else []

    cells = [cell.value for row in openpyxl.load_workbook(io.BytesIO(raw), rich_text=True).active.rows for cell in row]
    return [_seen(runs(value)) or [(repr(value), False, False)] for value in cells]


def _make_odf(document: Any, body: Any, paragraphs: list[Paragraph]) -> bytes:
    from odf.style import Style, TextProperties
    from odf.teletype import addTextToElement
    from odf.text import P, Span

    for bold in (False, True):
        for italic in (False, True):
            style = Style(name=f"x{bold:d}{italic:d}", family="text")
            style.addElement(
                TextProperties(fontweight="bold" if bold else "normal", fontstyle="italic" if italic else "normal")
            )
            document.automaticstyles.addElement(style)
    for runs in paragraphs:
        paragraph = P()
        for words, bold, italic in runs:
            span = Span(stylename=f"x{bold:d}{italic:d}")
            addTextToElement(span, words)
            paragraph.addElement(span)
        body.addElement(paragraph)
    return _bytes(document.write)


def make_odt(paragraphs: list[Paragraph]) -> bytes:
    """Return a text document."""
    from odf.opendocument import OpenDocumentText

    document = OpenDocumentText()
    return _make_odf(document, document.text, paragraphs)


def make_odp(paragraphs: list[Paragraph]) -> bytes:
    """Return a presentation with all paragraphs in one box."""
    from odf.draw import Frame, Page, TextBox
    from odf.opendocument import OpenDocumentPresentation
    from odf.style import MasterPage, PageLayout

    document = OpenDocumentPresentation()
    document.automaticstyles.addElement(PageLayout(name="layout"))
    document.masterstyles.addElement(MasterPage(name="master", pagelayoutname="layout"))
    page, frame, box = Page(masterpagename="master"), Frame(), TextBox()
    frame.addElement(box)
    page.addElement(frame)
    document.presentation.addElement(page)
    return _make_odf(document, box, paragraphs)


def make_ods(paragraphs: list[Paragraph]) -> bytes:
    """Return a table with a paragraph in each row, beside a number that is shown."""
    from odf.opendocument import OpenDocumentSpreadsheet
    from odf.table import Table, TableCell, TableRow
    from odf.text import P

    document = OpenDocumentSpreadsheet()
    table = Table(name="sheet")
    document.spreadsheet.addElement(table)
    row, cell = TableRow(), TableCell(valuetype="string")
    number = TableCell(valuetype="float", value="1.5")
    number.addElement(P(text="one and a half"))
    for each in (cell, number):
        row.addElement(each)
    table.addElement(row)
    return _make_odf(document, cell, paragraphs)


def read_odf(raw: bytes) -> list[Characters]:
    """Return the paragraphs that odfpy finds."""
    from odf.opendocument import load
    from odf.teletype import extractText
    from odf.text import P

    document = load(io.BytesIO(raw))
    found = []
    for paragraph in document.getElementsByType(P):
        runs = []
        for node in paragraph.childNodes:
            style = (node.getAttribute("stylename") or "") if node.nodeType == node.ELEMENT_NODE else ""
            runs.append((extractText(node), style[1:2] == "1", style[2:3] == "1"))
        found.append(_seen(runs))
    return found


def make_epub(paragraphs: list[Paragraph]) -> bytes:
    """Return a book of one page, which its contents name by the first paragraph."""
    from html import escape

    from ebooklib import epub

    book = epub.EpubBook()
    title = "".join(words for words, *_ in paragraphs[0]) or "-"
    book.set_title("A title")
    page = epub.EpubHtml(title="Page", file_name="page.xhtml", lang="en")
    body = []
    for runs in paragraphs:
        tags = [
            ("<b>" * bold + "<i>" * italic, escape(words), "</i>" * italic + "</b>" * bold)
            for words, bold, italic in runs
        ]
        body.append(f"<p>{''.join(map(''.join, tags))}</p>")
    page.content = f"<html><head></head><body>{''.join(body)}</body></html>"
    book.add_item(page)
    book.toc = (epub.Link("page.xhtml", title, "page"),)
    book.add_item(epub.EpubNcx())
    book.add_item(epub.EpubNav())
    book.spine = ["nav", page]
    return _bytes(lambda output: epub.write_epub(output, book))


def read_epub(raw: bytes) -> list[Characters]:
    """Return the paragraphs that EbookLib finds."""
    from ebooklib import epub

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        book = epub.read_epub(io.BytesIO(raw))
    root = etree.fromstring(book.get_item_with_href("page.xhtml").content)
    found = []
    for paragraph in root.iter("{*}p"):
        runs: Paragraph = []
        for text in paragraph.xpath(".//text()"):
            around = [text.getparent(), *text.getparent().iterancestors()]
            if text.is_tail:
                around = around[1:]
            tags = [etree.QName(each).localname for each in around]
            runs.append((str(text), "b" in tags, "i" in tags))
        found.append(_seen(runs))
    return found


FORMATS: dict[str, tuple[Callable[[list[Paragraph]], bytes], Callable[[bytes], list[Characters]]]] = {
    ".docx": (make_docx, read_docx),
    ".pptx": (make_pptx, read_pptx),
    ".xlsx": (make_xlsx, read_xlsx),
    ".odt": (make_odt, read_odf),
    ".odp": (make_odp, read_odf),
    ".ods": (make_ods, read_odf),
    ".epub": (make_epub, read_epub),
}
"""Functions that make and read the files of a format, by suffix."""


def opens(raw: bytes) -> bool:
    """Return whether every file in an archive can be read."""
    with ZipFile(io.BytesIO(raw)) as archive:
        return archive.testzip() is None
