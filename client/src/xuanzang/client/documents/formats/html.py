"""HTML: the text of blocks, the title, and attributes that people read; scripts, code and all markup stay."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser

from xuanzang.client.documents.document import Document, DocumentError, ReadSettings
from xuanzang.client.documents.encoding import EncodedText
from xuanzang.client.documents.formats.runs import Run, run_edits
from xuanzang.client.documents.splicing import Edit, SplicedDocument, replacement

_DECLARED = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE)
_UNTRANSLATED = frozenset(
    ("script", "style", "code", "pre", "kbd", "samp", "var", "textarea", "template", "svg", "math")
)
_VOID = frozenset(
    ("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr")
)
_CLOSED_BY_THE_NEXT = frozenset(("p", "option", "dt", "dd"))
_ATTRIBUTE = re.compile(r"""[\s"'](alt|title|placeholder|aria-label)\s*=\s*(?:"([^"]*)"|'([^']*)')""", re.IGNORECASE)


def read(raw: bytes, settings: ReadSettings) -> Document:
    """Read an HTML file; see `Format`."""
    declared = _DECLARED.search(raw[:4096])
    source = EncodedText.decode(raw, settings.encoding or (declared and declared[1].decode("ascii")))
    edits = html_edits(source.text, depth=settings.limits.depth)
    return SplicedDocument(source, edits, errors="xmlcharrefreplace")


def html_edits(text: str, *, depth: int) -> list[Edit]:
    """Return the edits of a document or a part of one.

    Args:
        text: HTML.
        depth: Limit of untranslated elements inside one another.

    Raises:
        DocumentError: The limit is exceeded.
    """
    scanner = _Scanner(text, depth)
    scanner.feed(text)
    scanner.close()
    scanner.flush()
    return scanner.edits


class _Scanner(HTMLParser):
    """Reader that finds runs by the places of the tags around them.

    Args:
        text: HTML.
        depth: Limit of untranslated elements inside one another.
    """

    def __init__(self, text: str, depth: int) -> None:
        super().__init__(convert_charrefs=False)
        self.edits: list[Edit] = []
        self._text = text
        self._depth = depth
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]
        self._run: int | None = None
        """Start of the run under way."""
        self._skipped: list[str] = []
        """Untranslated elements that are open: the outermost, and those of its name inside."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """End the run; take the tag's attributes; enter what is not translated."""
        self.flush()
        if self._skipped:
            if tag != self._skipped[0]:
                return
            if tag not in _CLOSED_BY_THE_NEXT:
                self._enter(tag)
                return
            self._skipped.clear()
        raw = self.get_starttag_text() or ""
        self.edits += _attribute_edits(raw, self._at())
        values = dict(attrs)
        classes = (values.get("class") or "").split()
        if tag not in _VOID and (tag in _UNTRANSLATED or values.get("translate") == "no" or "notranslate" in classes):
            self._enter(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Treat <p/> as browsers do, which is as <p>; <svg/> is empty."""
        if tag not in ("svg", "math"):
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        """End the run; leave what is not translated."""
        self.flush()
        if self._skipped and tag == self._skipped[0]:
            self._skipped.pop()

    def handle_data(self, data: str) -> None:  # noqa: ARG002
        """Begin a run, or go on with it."""
        if self._run is None:
            self._run = self._at()

    def handle_entityref(self, name: str) -> None:
        """Go on with the run."""
        self.handle_data(name)

    def handle_charref(self, name: str) -> None:
        """Go on with the run."""
        self.handle_data(name)

    def handle_comment(self, data: str) -> None:  # noqa: ARG002
        """End the run."""
        self.flush()

    def handle_decl(self, decl: str) -> None:  # noqa: ARG002
        """End the run."""
        self.flush()

    def handle_pi(self, data: str) -> None:  # noqa: ARG002
        """End the run."""
        self.flush()

    def unknown_decl(self, data: str) -> None:  # noqa: ARG002
        """End the run."""
        self.flush()

    def flush(self) -> None:
        """End the run under way at the present place."""
        start, self._run = self._run, None
        if start is None or self._skipped:
            return
        runs = [Run(start=start, end=self._at())]
        self.edits += run_edits(self._text, runs, read=html.unescape, write=partial(html.escape, quote=False))

    def _enter(self, tag: str) -> None:
        self._skipped.append(tag)
        if len(self._skipped) > self._depth:
            raise DocumentError(f"elements are nested more than {self._depth} deep")

    def _at(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column


def _attribute_edits(tag: str, at: int) -> Iterator[Edit]:
    for match in _ATTRIBUTE.finditer(tag):
        start, end = match.span(2 if match[2] is not None else 3)
        text = html.unescape(tag[start:end]).strip()
        yield from replacement(at + start, at + end, text, html.escape)
