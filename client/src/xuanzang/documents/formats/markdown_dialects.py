"""Dialects of Markdown as CommonMark: a view of a text for a parser that knows none of them.

In the view each construct of GitHub, Jekyll, Hugo, MkDocs, Docusaurus, MyST, Pandoc or Obsidian has been replaced by
CommonMark of the same length in bytes, so every index of the view is one of the text. A title of an admonition is a
heading there, a line of a template is a comment, a closing fence is a blank line, and inline constructs are masks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass

# The marks of quotations and list items, behind which a line of a dialect may begin.
_PREFIX = re.compile(r"(?:[ \t]*+>)*+[ \t]*+(?:(?:[-*+]|\d{1,9}[.)])[ \t]++)?")
_LINES = re.compile(r"[^\r\n]+(?:\r\n?|\n)?|\r\n?|\n")
_FENCE = re.compile(r"(`{3,}+)[^`]*+|(~{3,}+).*+")
_NAME = r"[a-z][\w-]*+"
_DIRECTIVE = re.compile(
    r":{3,}+[ \t]*+(?:\{[^{}]*+\}|[\w.:-]*+)"
    r"(?:\[(?P<label>.*)\](?:\{[^{}]*+\})?|[ \t]++(?!\{)(?P<title>.*+)|[ \t]*+\{.*+)?"
)
_ADMONITION = re.compile(
    rf'(?:(?:!!!|\?\?\?\+?)(?:[ \t]++{_NAME}){{1,4}}+|===[!+]?)(?:[ \t]++"(?P<title>[^"]*+)")?(?:[ \t]++\{{.*+)?'
)
_BLOCK = re.compile(rf"/{{3,}}+(?:[ \t]++{_NAME}(?:[ \t]*+\|[ \t]*+(?P<title>.*+))?)?")
_ALERT = re.compile(r"\[!\w[\w-]*+[^\[\]]*+\][+-]?(?P<title>.*+)")
_ABBREVIATION = re.compile(r"\*\[[^\[\]]++\]:(?P<title>.*+)")
_BLANKED = re.compile(
    r"\{:.*+\}|\{[#.][^{}]*+\}|\[\[?_?(?:TOC|toc)_?\]?\]|\([\w.:-]++\)=|\[!INCLUDE.*+|--8<--.*+|\\newpage|:::+"
)
_IMPORT = re.compile(r"""import\s(?:.*\sfrom\s+)?['"][^'"]+['"];?""")
_STATEMENT = re.compile(r"import\s+\{[^}]*+|export\s+(?:const|let|var|default|function|async|class)\b.*")
"""Statements that may have more than one line."""
_TEMPLATE_LINE = re.compile(
    r"(?:(?:\{%(?:[^%]|%(?!\}))*+%\}|\{\{[<%](?:[^}]|\}(?!\}))*+\}\}|\{#(?:[^#]|#(?!\}))*+#\}"
    r"|\{/\*(?:[^*]|\*(?!/))*+\*/\}|<%(?:[^%]|%(?!>))*+%>)\s*+)++"
)
_GRID = re.compile(r"\+[-=:+]{2,}\+")
_CODE_TAG = re.compile(r"\{%-?\s*+(?:highlight|code|codeblock|schema|javascript|stylesheet|style|comment|mermaid)\b")
_END = re.compile(r"\$\$|\\\]|\\end\{\w++\*?+\}|\{:/\w*+\}|%%|\bend\w++(?=\s*+-?%\})")

NOTE = "^["
"""Beginning of a note within its paragraph."""
_OPENING = re.compile(
    r"`++|(?<!\[)\^\[|</?(?=[A-Za-z]\w*+\.)|\\[(\[]|\\.|\{\{|\{%|\{#(?=[ -])|\{/\*|<%|<<(?=[A-Za-z_])|!?\[\[|\+\+(?=\w)"
    r"|\{(?=[:.#\w $`])|==(?=[^\s=])|(?<![\w%])%%(?!%)"
    r"|\[-?@|::?(?=[A-Za-z0-9_+-])|(?<![A-Za-z0-9<\"'=@/&])(?:(?:https?|ftp)://|www\.)(?=[^\s/.])"
    r"|(?<![\w.+<-])[A-Za-z0-9][\w.+-]*+@[A-Za-z0-9-]++(?:\.[A-Za-z0-9-]++)++",
    re.DOTALL | re.ASCII,
)
_ADDRESS = re.compile(r"[^\s<>|\[\]\\`\"\u3000-\u303f\uff00-\uffef\u2018-\u201d]++")
_AFTER_ADDRESS = "?!.,:;*_~'\")"
_ATTRIBUTES = re.compile(
    r"\{:[^{}\r\n]*+\}|\{ *+[.#][\w][^{}\r\n]*+\}|\{ *+[\w-]++=(?:\"[^\"\r\n]*+\"|[\w%]++)[^{}\r\n]*+\}"
)
# A role with its code, or an expression.
_ROLE = re.compile(
    r"\{[\w:.-]++\}(?P<ticks>`++)[^`\r\n]++(?P=ticks)(?!`)|\{[A-Za-z_$][\w$.]*+(?:\([^(){}\r\n]*+\))?\}|\{`[^`{}\r\n]*+`\}"
)
_COMPONENT = re.compile(r"</?[A-Za-z]\w*+(?:\.\w++)++(?:\s[^<>]*+)?/?>")
_KEYS = re.compile(r"\+\+[\w\"-]++(?:\+[\w\"-]++)*+\+\+")
_NAMED = re.compile(
    r"(?<![\w:]):[_+-]*+[A-Za-z0-9][A-Za-z0-9_+-]*+:(?![\w:])|(?<![\w:])::?[A-Za-z][\w-]*+\[[^\[\]\r\n]*+\](?:\{[^{}\r\n]*+\})?"
)
_CITED = re.compile(r"\[-?@[\w:.#$%&+?<>~/-]++[^\[\]\r\n]*+\](?![(\[])")
_WIKI = re.compile(r"!?\[\[([^\[\]\r\n`*]++)\]\]")
_NOTE = re.compile(r"\^\[(?:[^\[\]\\]|\\.|\[(?:[^\[\]\\]|\\.)*+\])*+\]", re.DOTALL)
_MARKED = re.compile(r"==(?=\S)[^=~\r\n]*[^=~\s]==(?!=)")
_FORMULA = re.compile(r"[=^_{}+*/<>\\-]|\b\w\b")
_RAW_BLOCK = re.compile(r"\{%-?\s*+(raw|comment|verbatim|highlight|code|schema)\b")
_CLOSING = {"{{": "}}", "{%": "%}", "{#": "#}", "{/*": "*/}", "<%": "%>", "\\(": "\\)", "%%": "%%"}
# An address that goes on behind the value of a template.
_PATH = re.compile(r"/[\w~%+-]++(?=[/.#?][\w~%/+-])[\w~%/+=&#-]*+(?:[.?][\w~%/+=&#-]++)*+")
# A field of mail merge.
_FIELD = re.compile(r"<<[A-Za-z_][\w .:-]{0,80}>>")
_BLANK_LINE = re.compile(r"(?:\r\n?|\n)(?:[ \t]*+>)*+[ \t]*+(?=[\r\n]|\Z)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """A span that is carried through a translation."""

    start: int
    """Index of its first byte."""
    end: int
    """Index after its last byte."""
    is_attribute: bool
    """True if it belongs to the markup before it, such as the attributes of a link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A text as CommonMark."""

    text: str
    """The view, which has as many bytes as the text."""
    masks: tuple[Mask, ...]
    """Masks, in their order."""


def view_of(text: str, labels: Set[str] = frozenset()) -> View:
    """Return the view of a text.

    Args:
        text: Markdown.
        labels: Normalised labels of link definitions, whose links are no wiki links.
    """
    lined = "".join(_block_lines(text))
    pieces: list[str] = []
    masks: list[Mask] = []
    at, byte = 0, 0
    for start, end, is_attribute in _Inline(lined, labels).spans():
        byte += len(lined[at:start].encode())
        size = len(lined[start:end].encode())
        pieces += lined[at:start], _masked(lined[start:end], is_attribute=is_attribute)
        if lined.startswith("==", start):
            pieces[-1] = f"~~{lined[start + 2 : end - 2]}~~"
        else:
            masks.append(Mask(start=byte, end=byte + size, is_attribute=is_attribute))
        at, byte = end, byte + size
    return View(text="".join(pieces) + lined[at:], masks=tuple(masks))


def normalised(label: str) -> str:
    """Return the label of a link definition with its case folded and its spaces collapsed."""
    return " ".join(label.split()).casefold()


def _masked(span: str, *, is_attribute: bool) -> str:
    """Return a word of the same length for a span, with full stops where the span has punctuation at its ends."""
    first, last = ("x" if end.isalnum() or span[:2] in ("{{", "{%", "<%") else "." for end in (span[0], span[-1]))
    inner = "." if is_attribute else "x"
    written = [each if each in "\r\n" else inner * len(each.encode()) for each in span]
    if not is_attribute:
        written[0], written[-1] = first * len(written[0]), last * len(written[-1])
    return "".join(written)


def _block_lines(text: str) -> Iterator[str]:
    """Yield the lines of the view before inline constructs are masked."""
    lines = _LINES.findall(text)
    ends = {end: number for number, line in enumerate(lines) for end in _END.findall(line)}
    closing: str | None = None
    """Mark that ends the lines under way, which are blank in the view; empty: a blank line ends them."""
    fence = ""
    for number, line in enumerate(lines):
        start = len(_PREFIX.match(line)[0])  # type: ignore[index]  # it matches nothing, too
        content = line[start:].rstrip()
        if fence:
            fence = "" if content.startswith(fence) and not content.strip(fence[0]) else fence
            yield line
        elif closing is not None and (closing or content):
            yield _blank(line, start)
            closing = None if closing and closing in content else closing
        elif found := _FENCE.fullmatch(content):
            closing, fence = None, found[1] or found[2]
            yield line
        else:
            closing = _closing(content, start)
            if closing and ends.get(closing, -1) <= number:
                closing = None
            is_blank = closing is not None or _IMPORT.fullmatch(content) or _GRID.fullmatch(content)
            yield _blank(line, start) if is_blank else _with_block(line, start, content)


def _closing(content: str, start: int) -> str | None:
    """Return the end mark of a multi-line construct, empty for a blank line; None: the line begins none."""
    if content in ("$$", "\\["):
        return {"$$": "$$", "\\[": "\\]"}[content]
    if content.startswith("%%") and content.count("%%") == 1:  # a comment of Obsidian
        return "%%"
    if content in ("{::comment}", "{::nomarkdown}"):
        return content.replace("::", ":/")
    if content.startswith("\\begin{"):
        return content.partition("}")[0].replace("begin", "end") + "}"
    if tag := _CODE_TAG.match(content):
        return "end" + tag[0].split()[-1].removeprefix("{%-").removeprefix("{%")
    return "" if (start == 0 and _STATEMENT.fullmatch(content)) or _GRID.fullmatch(content) else None


def _blank(line: str, start: int) -> str:
    """Return a line with spaces from an index on."""
    end = len(line.rstrip("\r\n"))
    return line[:start] + " " * len(line[start:end].encode()) + line[end:]


def _with_block(line: str, start: int, content: str) -> str:
    return line[:start] + _block(content, is_quoted=">" in line[:start]) + line[start + len(content) :]


def _block(content: str, *, is_quoted: bool) -> str:
    """Return the view of a line."""
    size = len(content.encode())
    is_template = bool(_TEMPLATE_LINE.fullmatch(content))
    if _BLANKED.fullmatch(content) or (is_template and size < len("<!---->")):
        return " " * size
    if is_template:
        return f"<!--{' ' * (size - len('<!---->'))}-->"
    if content != "===" and (found := _ADMONITION.fullmatch(content)):
        return _titled(content, found, "title", "- # ")
    if found := _DIRECTIVE.fullmatch(content):
        return _titled(content, found, "title" if found["title"] else "label", "# ")
    for pattern in (_ALERT, _BLOCK, _ABBREVIATION) if is_quoted else (_BLOCK, _ABBREVIATION):
        if found := pattern.fullmatch(content):
            return _titled(content, found, "title", "# ")
    return content


def _titled(content: str, found: re.Match[str], group: str, heading: str) -> str:
    """Return a heading of the title alone; without a title a blank line, or the beginning of a list item."""
    size = len(content.encode())
    if not (found[group] or "").strip():
        return "- ***".ljust(size) if heading.startswith("-") else " " * size
    first, last = found.span(group)
    before, after = (len(each.encode()) for each in (content[:first], content[last:]))
    return heading.ljust(before) + content[first:last] + " " * after


class _Inline:
    """Finds spans within lines that are carried through a translation, in linear time.

    Args:
        text: Markdown, whose block constructs are CommonMark.
        labels: Normalised labels of link definitions.
    """

    def __init__(self, text: str, labels: Set[str]) -> None:
        self._text = text
        self._labels = labels
        self._found: dict[str, int] = {}
        """Index of the next occurrence of each mark; the length of the text: there is none."""
        self._blank = -1
        """Next blank line."""
        self._code_ends = _code_ends(text)

    def spans(self) -> Iterator[tuple[int, int, bool]]:
        """Yield start, end and whether it is an attribute list, for each span."""
        at = 0
        while found := _OPENING.search(self._text, at):
            start, at = found.start(), found.end()
            if found[0][0] == "`":
                end = self._code_ends.get(start, at)
                at = end if end <= self._paragraph_end(start) else at
                continue
            span = self._span(found[0], start)
            if span:
                at = span[0]
                yield start, *span

    def _span(self, opening: str, start: int) -> tuple[int, bool] | None:
        if opening in _CLOSING:
            end = self._closed(opening, start)
            return None if end is None else (end, False)
        if opening == "{":
            found = _ATTRIBUTES.match(self._text, start)
            if found:
                return found.end(), True
        if "://" in opening or opening == "www.":
            return self._address(start)
        patterns = {NOTE: _NOTE, "++": _KEYS, "==": _MARKED, "{": _ROLE, ":": _NAMED, "::": _NAMED}
        patterns |= {"<<": _FIELD, "<": _COMPONENT, "</": _COMPONENT, "[@": _CITED, "[-@": _CITED}
        if "@" in opening[3:]:
            return start + len(opening), False
        pattern = _WIKI if opening.endswith("[[") else patterns.get(opening)
        found = pattern.match(self._text, start) if pattern else None
        is_label = found and pattern is _WIKI and normalised(found[1]) in self._labels
        if found is None or is_label or found.end() > self._paragraph_end(start):
            return None
        return found.end(), False

    def _closed(self, opening: str, start: int) -> int | None:
        """Return the end of a construct with a closing mark in its paragraph."""
        closing, inner = _CLOSING[opening], start + len(opening)
        raw = _RAW_BLOCK.match(self._text, start) if opening == "{%" else None
        if raw:
            end = self._text.find("%}", self._next(f"end{raw[1]}", inner))
            return None if end < 0 else end + 2
        end = self._next(closing, inner)
        if end >= self._paragraph_end(start):
            return None
        if opening == "\\(" and not _FORMULA.search(self._text, inner, end):
            return None
        while opening == "{{" and self._text.startswith("}", end + 2):
            end += 1
        end += len(closing)
        path = _PATH.match(self._text, end) if opening == "{{" else None
        return path.end() if path else end

    def _address(self, start: int) -> tuple[int, bool] | None:
        if self._text[max(0, start - 2) : start] == "](":
            return None
        found = _ADDRESS.match(self._text, start)
        if found is None:
            return None
        end = found.end()
        opened, closed = (self._text.count(each, start, end) for each in "()")
        while self._text[end - 1] in _AFTER_ADDRESS:
            if self._text[end - 1] == ")":
                if closed <= opened:
                    break
                closed -= 1
            end -= 1
        return (end, False) if end > start else None

    def _next(self, what: str, at: int) -> int:
        if self._found.get(what, -1) < at:
            place = self._text.find(what, at)
            self._found[what] = len(self._text) if place < 0 else place
        return self._found[what]

    def _paragraph_end(self, at: int) -> int:
        if self._blank < at:
            blank = _BLANK_LINE.search(self._text, at)
            self._blank = blank.start() if blank else len(self._text)
        return self._blank


def _code_ends(text: str) -> dict[int, int]:
    """Return the end of the code span that may begin with each run of backticks."""
    ends: dict[int, int] = {}
    last: dict[int, re.Match[str]] = {}
    for run in reversed(list(re.finditer("`++", text))):
        closing = last.get(len(run[0]))
        if closing:
            ends[run.start()] = closing.end()
        last[len(run[0])] = run
    return ends
