"""A part of a Word document: neighbouring runs are one text to translate, in which looks and links are markup."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from xuanzang.documents.formats.blocks import Kind, Piece, decoded, encoded, markup_text
from xuanzang.documents.formats.html_tokens import unescaped as unescaped_html
from xuanzang.documents.formats.xml.xml_tokens import Token, escaped, tokens, unescaped
from xuanzang.documents.splicing import Edit, flowing, parted, translatable

# Between two texts of one stretch of words: whatever else comes is a reason to translate them apart.
_TRANSPARENT = ("r", "t", "hyperlink", "proofErr", "bookmarkStart", "bookmarkEnd", "lastRenderedPageBreak")
_INVISIBLE = re.compile(r'<w:(?:lang|noProof|rtl|cs)\b[^>]*>|(?<!\s)\s++w:(?:hint|rsid\w*)="[^"]*"|<w:rFonts\s*/>')
_KEPT = re.compile(r"<w:bookmark(?:Start|End)\b[^>]*>")
_SPACE = '<w:t xml:space="preserve">'


@dataclass(frozen=True, slots=True, kw_only=True)
class _Text:
    """An element w:t: its tag, the span of its characters, and what it is in."""

    tag: Token
    start: int
    end: int
    link: str
    """Start tag of the link that it is in; empty outside of links."""
    run: str
    """Start tag and properties of its run."""
    looks: str
    """Properties that can be seen."""

    def key(self) -> tuple[str, str]:
        """Return what neighbours in one run have in common."""
        return self.link, self.looks

    @property
    def opening(self) -> str:
        """XML before its characters, in a run of its own."""
        return f"{self.link}{self.run}{_SPACE}"

    @property
    def closing(self) -> str:
        """XML after its characters, in a run of its own."""
        return "</w:t></w:r>" + ("</w:hyperlink>" if self.link else "")


def part_edits(source: str) -> Iterator[Edit]:
    """Yield an edit for each stretch of words.

    Args:
        source: XML of the part.
    """
    yield from _Reader(source).edits()


class _Reader:
    """Walk over a part that joins neighbouring texts, as Word often splits words."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._texts: list[_Text] = []
        self._link = ""
        self._run = ""
        """Start tag and properties of the run under way."""
        self._looks = ""
        self._has_looks = False
        """True if the run under way has its properties."""
        self._properties: Token | None = None
        """Start of the properties under way, inside which nothing is text."""
        self._tag: Token | None = None

    def edits(self) -> Iterator[Edit]:
        """Yield an edit for each stretch of words."""
        for token in tokens(self._source):
            if self._properties is not None:
                self._go_on_with_properties(token)
            elif token.name in ("rPr", "pPr") and token.is_start:
                self._properties = None if token.is_end else token
            elif token.name == "t" and not (token.is_start and token.is_end):
                self._text(token)
            else:
                self._enter(token)
                if token.name and token.name not in _TRANSPARENT:
                    yield from self._flush()
        yield from self._flush()

    def _enter(self, token: Token) -> None:
        if token.name == "r" and token.is_start:
            self._run, self._looks, self._has_looks = token.raw, "", False
        elif token.name == "hyperlink":
            self._link = "" if token.is_end else token.raw

    def _go_on_with_properties(self, token: Token) -> None:
        opened = self._properties
        if opened is not None and token.is_end and not token.is_start and token.name == opened.name:
            if token.name == "rPr" and not self._has_looks:
                self._has_looks = True
                self._looks = _INVISIBLE.sub("", self._source[opened.end : token.start])
                self._run += self._source[opened.start : token.end]
            self._properties = None

    def _text(self, token: Token) -> None:
        if token.is_start:
            self._tag = token
        elif self._tag is not None:
            self._texts.append(
                _Text(
                    tag=self._tag,
                    start=self._tag.end,
                    end=token.start,
                    link=self._link,
                    run=self._run,
                    looks=self._looks,
                )
            )

    def _flush(self) -> Iterator[Edit]:
        texts, self._texts = self._texts, []
        content = "".join(map(self._content, texts))
        if translatable(flowing(content).strip()):
            stretches = [list(group) for _, group in groupby(texts, _Text.key)]
            yield (self._uniform if len(stretches) == 1 else self._mixed)(texts)

    def _content(self, text: _Text) -> str:
        return unescaped(self._source[text.start : text.end])

    def _between(self, texts: Sequence[_Text]) -> str:
        return "".join(self._source[one.end : other.start] for one, other in pairwise(texts))

    def _uniform(self, texts: Sequence[_Text]) -> Edit:
        """Return the edit of texts of the same looks: all goes into the first element; the others are emptied."""
        content = "".join(map(self._content, texts))
        before, _, after = parted(content)
        text = markup_text(flowing(content).strip())

        def render(found: tuple[str, ...]) -> str:
            written = before + flowing(unescaped_html(found[0])) + after
            return _space_kept(texts[0].tag.raw) + escaped(written) + self._between(texts)

        return Edit(start=texts[0].tag.start, end=texts[-1].end, texts=(text,), render=render)

    def _mixed(self, texts: Sequence[_Text]) -> Edit:
        """Return the edit of texts of several looks: words that have not the commonest are within tags."""
        before, _, after = parted("".join(map(self._content, texts)))
        base = self._commonest(texts)
        pieces: list[Piece] = []
        looks: dict[int, _Text] = {}
        for _, group in groupby(texts, _Text.key):
            stretch = list(group)
            words = _piece(Kind.TEXT, flowing("".join(map(self._content, stretch))))
            if stretch[0].key() == base.key() or not words.text.strip():
                pieces.append(words)
            else:
                looks[len(pieces)] = stretch[0]
                pieces += [_piece(Kind.OPEN, number=len(pieces)), words, _piece(Kind.CLOSE)]

        def render(found: tuple[str, ...]) -> str:
            runs = list(_runs(decoded(found[0], pieces), base, looks)) or [(base, "")]
            runs[0] = (runs[0][0], before + runs[0][1])
            runs[-1] = (runs[-1][0], runs[-1][1] + after)
            return _written(runs, texts, kept="".join(_KEPT.findall(self._between(texts))))

        return Edit(start=texts[0].tag.start, end=texts[-1].end, texts=(encoded(pieces),), render=render)

    def _commonest(self, texts: Sequence[_Text]) -> _Text:
        """Return the first text of the looks that most characters have."""
        sizes: Counter[tuple[str, str]] = Counter()
        for text in texts:
            sizes[text.key()] += len(self._content(text).strip())
        return max(texts, key=lambda text: sizes[text.key()])


def _piece(kind: Kind, text: str = "", *, number: int = 0) -> Piece:
    return Piece(kind=kind, start=number, end=number, raw="", text=text)


def _runs(pieces: Iterable[Piece], base: _Text, looks: Mapping[int, _Text]) -> Iterator[tuple[_Text, str]]:
    """Yield the runs of a translation: a text of the same looks, and the words."""
    found = base
    for piece in pieces:
        if piece.kind is Kind.TEXT:
            yield found, piece.text
        else:
            found = looks[piece.start] if piece.kind is Kind.OPEN else base


def _written(runs: Sequence[tuple[_Text, str]], texts: Sequence[_Text], *, kept: str) -> str:
    """Return what takes the place of texts: from the tag of the first to the end of the last one's characters.

    Args:
        runs: Looks and words.
        kept: Markup between them that has to stay.
    """
    at, written = texts[0], _space_kept(texts[0].tag.raw)
    for looks, words in [*runs, (texts[-1], "")]:
        if looks.key() != at.key() or (kept and looks is texts[-1] and not words):
            written += at.closing + kept + looks.opening
            at, kept = looks, ""
        written += escaped(words)
    return written


def _space_kept(tag: str) -> str:
    """Return a tag w:t that keeps the white space of its text."""
    return tag if "xml:space" in tag else tag.removesuffix(">") + ' xml:space="preserve">'
