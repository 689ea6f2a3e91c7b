# ruff: noqa: E501 - a pattern is read as a whole
"""Catalogue of placeholders: the spans of a text that are for programs, found by family in linear time.

A span begins at a mark, such as "%", or lies in a run of ASCII without white space, such as an address. Only marks are
searched for, so text without any costs one pass of a character class. Every pattern is bounded or possessive, and no
character is looked at by more than one run, so that no text takes more than linear time.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from enum import Enum, auto
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from xuanzang.text.types import PlaceholderFamily as Family
from xuanzang.text.types import ProtectedPattern


class Role(Enum):
    """Part that a span plays in a sentence."""

    VALUE = auto()
    """A word stands in for it."""
    POINT = auto()
    """The model reads nothing in its place."""
    SIGN = auto()
    """The model reads it, if its vocabulary has it."""
    OPEN = auto()
    """Start tag of an element."""
    CLOSE = auto()
    """End tag of an element."""
    SPACE = auto()
    """It stands for a space."""
    BREAK = auto()
    """It ends a sentence, and keeps its place among the sentences."""


class Found(NamedTuple):
    """A span of a text."""

    start: int
    end: int
    role: Role
    is_ordered: bool = False
    """True if its position among others of its kind identifies it."""


_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,63}+"
_TAG = r"""</?(?:[A-Za-z][A-Za-z0-9:._-]{0,63}+|\d{1,3}+)(?:=[^<>\s]{1,64}+)?(?:\s(?:[^<>"']|"[^"<]{0,500}+"|'[^'<]{0,500}+'){0,500}+)?+/?>|</?>"""
# A tag of HTML between whose texts no sentence goes on.
_BLOCK_TAG = (
    r"(?i:(?=</?(?:br|hr|p|div|[uod]l|li|d[dt]|h[1-6]|pre|table|tbody|thead|t[rdh]|blockquote|section)[\s/>]))"
    rf"(?:{_TAG})"
)
# Ends of the names of fields in brackets, as in [First Name].
_FIELDS = r"(?:Name|Date|Number|Address|E?-?[Mm]ail|Amount|Company|City|Phone|ID|URL|Link)"
_LENGTH = r"(?:hh?|ll?|I64|I32|[qjztL])?"
_WIDTH = r"[-+#0',]*+(?:\d{1,3}|\*(?:\d{1,2}\$)?)?(?:\.(?:\d{1,3}|\*(?:\d{1,2}\$)?)?)?"
# After a digit, as in "5%off" and "%20", only what ends a word is a conversion.
_UNNUMBERED = rf"%(?:{_WIDTH}{_LENGTH}[diouxXeEfFgGaAcCsSpn@]|[-+#]?\d{{1,3}}[bBqvT](?![A-Za-z])|[-_^]?[A-Za-z](?![A-Za-z])| [diouxXeEfFgGcrsa](?![A-Za-z]))"

# The commonest directives; no other pattern matches more characters of them.
_COMMON_PRINTF = tuple(
    rf"(?<![0-9%])%{directive}(?=[.:]?(?:[\s,;?)'\"<]|$))(?! percent)"
    for directive in ("[ds@]", r"[1-9]\$[ds@]", "[1-9]")
)

# Names of fields of Word, with fields within them.
_WORD_FIELDS = (
    "MERGE(?:FIELD|REC|SEQ)|IF|NEXT(?:IF)?|SKIPIF|COMPARE|ASK|FILLIN|SET|QUOTE|(?:PAGE|NOTE|STYLE)?REF|SEQ|PAGE|"
    "(?:NUM|SECTION)PAGES?|(?:CREATE|SAVE|PRINT)?DATE|TIME|HYPERLINK|INCLUDE(?:TEXT|PICTURE)|DOC(?:PROPERTY|VARIABLE)|"
    "TOC|XE|INDEX|ADDRESSBLOCK|GREETINGLINE|FORM(?:TEXT|CHECKBOX|DROPDOWN)|AUTHOR|FILENAME|EQ|SYMBOL|MACROBUTTON|="
)
_IN_FIELD = r"\{(?:[^{}\n]|\{[^{}\n]{0,200}+\}){0,200}+\}"
# Words in brackets that say something of a word before them; others, such as [gallery], are a program's.
_REMARK = "(?:sic|new|old|edit|none|empty|hidden|unknown|default|optional|required|continued|deprecated|laughs|music)"
_ARGUMENT = r"\{(?:[^{}\n]|\{(?:[^{}\n]|\{[^{}\n]{0,64}+\}){0,64}+\}){0,200}+\}"
# Commands of TeX whose names begin as an escape does, as \neq does.
_TEX_NAMES = (
    "alpha|approx|bar|beta|bf|bullet|chi|circ|footnotesize|forall|frac|nabla|neg|neq|newline|newpage|noindent|nu|"
    "rangle|rho|right|rightarrow|rm|tau|textwidth|theta|times|tiny|to|triangle|vartheta|varphi|vec|vee|xi"
)

# By family, spans that begin with a mark: the mark, and the pattern from it on, by role.
_MARKED: Mapping[Family, tuple[tuple[Role, str, str], ...]] = MappingProxyType(
    {
        Family.PRINTF: (
            *((Role.VALUE, "%", pattern) for pattern in _COMMON_PRINTF),
            (Role.VALUE, "%", r"(?<![0-9])%(?:\(\w{1,64}+\)|\d{1,2}\$)?[-+0-9.]{0,8}[diufsg] percent(?![A-Za-z])"),
            (Role.VALUE, "百", r"百分之 ?%(?:\(\w{1,64}+\)|\d{1,2}\$)?[-+0-9.]{0,8}[diufsg](?![A-Za-z])"),
            (Role.VALUE, "%", r"%\([^()\s]{1,64}+\)" + _WIDTH + r"[diouxXeEfFgGcrsab]"),
            (
                Role.VALUE,
                "%",
                r"%[-+#0]{0,4}\{[^{}\s]{1,64}+\}(?:[dsfgx](?![A-Za-z]))?|%<[^<>\s]{1,64}+>" + _WIDTH + "[A-Za-z]",
            ),
            (Role.VALUE, "%", r"%(?:\d{1,2}\$)?#@[A-Za-z_][\w-]{0,64}+@"),
            (Role.VALUE, "%", rf"%\d{{1,2}}\$(?:[( ]?{_WIDTH}{_LENGTH}[A-Za-z@])"),
            # Letters of an address, and %%name, which another program fills in.
            (Role.VALUE, "%", r"%[0-9A-F]{2}(?:%[0-9A-F]{2}){1,64}+|(?<![A-Za-z0-9%}])%%[a-z][A-Za-z0-9_]{0,64}+(?!%)"),
            (Role.VALUE, "%", r"%%|%L\d{1,2}(?!\d)"),
            (Role.VALUE, "%", r"%\d{1,2}![^!\s]{1,16}+!|%\[\w{1,32}+\]" + _WIDTH + r"[A-Za-z]|%s\d{1,2}(?![\d%])"),
            # A name, as %destination, or a conversion with a unit, as %dpx.
            (Role.VALUE, "%", r"(?<![0-9])%[a-z][a-z_]{2,64}+(?![A-Za-z0-9%])"),
            (Role.VALUE, "%", rf"(?<![0-9]){_UNNUMBERED}|(?<=[0-9])(?!% ){_UNNUMBERED}(?![A-Za-z])"),
            (Role.VALUE, "%", r"(?<![0-9%])%\d{1,2}(?![0-9%])|(?<=%[0-9])%[0-9](?![0-9%])"),
        ),
        Family.BRACES: (
            # The commonest comes first.
            (Role.VALUE, "{", r"\{[A-Za-z_0-9][\w.]{0,64}+\}(?:\|[a-z]{2,16}+\([^()\n]{0,200}+\))?"),
            (Role.BREAK, "{", r"\{\{[{~]?\s?(?:[#/^!][^{}]{0,200}+|else(?: [^{}]{0,200}+)?)\}{2,3}"),
            (Role.VALUE, "{", r"\{\{[^{}]{1,200}+\{[^{}]{0,64}+\}[^{}]{0,64}+\}\}"),
            (Role.VALUE, "{", r"\{\{\{[^{}]{0,200}+\}\}\}|\{\{[^{}]{0,200}+\}\}"),
            (Role.BREAK, "{", r"\{[#/:][^{}\n]{1,100}+\}"),
            (Role.VALUE, "$#@", r"(?<!\$)[$#@]!?\{[^{}\n]{0,100}+\}"),
            (Role.VALUE, "%", r"%\{[^{}\n]{0,100}+\}(?:[dsfgx](?![A-Za-z]))?"),
            (Role.VALUE, "!?&~^", r"(?<![A-Za-z0-9_!?&~^.,])[!?&~^]\{[^{}\n]{1,100}+\}"),
            (
                Role.VALUE,
                "{",
                r"\{\s?(?:[-$@.*!]\s?)?(?:[\w.-]{0,64}+(?:\[[^{}\[\]\n]{0,64}+\][\w.]{0,64}+)*+(?:![a-z])?(?:\s?[:,|][^{}\n]{0,100}+)?|[\w.-]{1,64}+/|[A-Z_]{2,32}+\([^{}\n]{0,100}+\)|\"[^\"\n]{0,64}+\"|@?html [^{}\n]{1,64}+)\s?\}",
            ),
            (Role.VALUE, "{", r"\{[\w.]{0,32}+:[^{}\n]{0,16}+\{[\w.]{0,32}+\}[^{}\n]{0,16}+\}"),
            (Role.VALUE, "{", rf"\{{\s?(?:{_WORD_FIELDS})(?=[\s{{}}])(?:[^{{}}\n]|{_IN_FIELD}){{0,300}}+\}}"),
            (Role.POINT, "{", r"\{\\[^{}\n]{1,100}+\}"),
            (Role.VALUE, "{", r"\{(?:(?![%#])[^{}\n]{1,64}+|%[A-Za-z_][\w.-]{0,64}+)\}"),
            (Role.VALUE, "$#@", r"[$#@]\[[^\[\]\n]{1,64}+\]"),
        ),
        Family.TEMPLATES: (
            (Role.BREAK, "{", r"\{%(?:[^%\n]|%(?!\})){0,300}+%\}|\{#(?:[^#\n]|#(?!\})){0,300}+#\}"),
            (Role.VALUE, "{", r"\{\{[^{}]{0,200}+\}\}"),
            (Role.VALUE, "<", r"<%[=-](?:[^%\n]|%(?!>)){0,300}+%>|<\?=(?:[^?]|\?(?!>)){0,300}+\?>"),
            (Role.BREAK, "<", r"<%(?![=-])(?:[^%]|%(?!>)){0,300}+%>|<\?(?!=)(?:[^?]|\?(?!>)){0,300}+\?>"),
            (Role.BREAK, "<", r"</?[#@][a-z][\w.]{0,32}+(?:\s[^<>\n]{0,200}+)?/?>"),
            (Role.BREAK, "[", r"\[%(?:[^%\n]|%(?!\])){0,300}+%\]"),
            (Role.VALUE, "#", r"#[=:](?=[^#\n]{0,64}[\w)\]]\s?#)[^#\n]{1,64}+#"),
        ),
        Family.TAGS: (
            (Role.VALUE, "<", r"<code(?:\s[^<>]{0,200}+)?>[^<]{1,200}+</code>"),
            (Role.BREAK, "<", _BLOCK_TAG),
            (Role.CLOSE, "<", _TAG.replace("</?", "</")),
            (Role.OPEN, "<", _TAG.replace("</?", "<")),
            (Role.VALUE, "<", r"<(?:https?://|mailto:)[^<>|\s]{1,500}+\|[^<>\n]{1,200}+>"),
            (Role.POINT, "<", r"<!--(?:[^-]|-(?!->)){0,1000}+-->|<!\[CDATA\["),
            (Role.POINT, "]", r"\]\]>"),
            (Role.CLOSE, "[", r"\[/(?:[bius]|url|img|color|size|quote|code|list|left|center|right)\]"),
            (
                Role.OPEN,
                "[",
                r"\[(?:[bius]|url|img|color|size|quote|code|list|left|center|right)(?:=[^\[\]\n]{0,200}+)?\]",
            ),
            (Role.POINT, "&", r"&(?:[A-Za-z][A-Za-z0-9]{1,31}+|#\d{1,7}+|#[xX][0-9a-fA-F]{1,6}+);"),
        ),
        Family.VARIABLES: (
            (Role.VALUE, "%", r"%%=[^%\n]{1,200}+=%%"),
            (
                Role.VALUE,
                "%",
                r"%%[A-Za-z][A-Za-z0-9_]{0,63}+%%|(?!%(?:hh?|ll?|[qjztL])[diouxXeEfFgGaA]%%)%[A-Za-z][A-Za-z0-9_.]{1,63}+%(?:%?+(?![A-Za-z])|(?=%[A-Za-z][A-Za-z0-9_.]{1,63}+%))",
            ),
            (Role.VALUE, "$", r"\$[A-Z]{1,3}\$[0-9]{1,7}(?![A-Za-z0-9_$])"),
            (Role.VALUE, "$", rf"\${_NAME}\$|\$t\([^()\n]{{1,100}}+\)"),
            (Role.VALUE, "£", r"£[A-Za-z][A-Za-z0-9_]{1,40}+£"),
            (
                Role.VALUE,
                "!?",
                r"(?<![A-Za-z0-9_!?])(?P<doubled>!!|\?\?)[A-Za-z][A-Za-z0-9_]{0,40}+(?P=doubled)(?![A-Za-z0-9_!?])",
            ),
            (
                Role.VALUE,
                "!?",
                r"(?<![A-Za-z0-9_!?])(?P<single>[!?])[A-Za-z][A-Za-z0-9_]{0,40}+(?P=single)(?![A-Za-z0-9_!?])",
            ),
            (Role.VALUE, "!", r"(?<![!-~])![a-z][a-z0-9_]{2,40}+(?![A-Za-z0-9_!?])"),
            (Role.VALUE, "$", r"\$\((?:[^()\n]|\([^()\n]{0,64}+\)){1,100}+\)"),
            (Role.VALUE, "@", r"(?<![A-Za-z0-9_.])@(?:[a-z][A-Za-z]{0,32}+)?\([^()\n]{1,100}+\)"),
            (Role.VALUE, "~", r"(?<![A-Za-z0-9_~])~[a-z][A-Za-z0-9_]{1,40}+~(?![A-Za-z0-9_~])"),
            (Role.VALUE, "[", r"\[[a-z]{2,16}+(?: [a-z_]{1,16}+=[^\s\[\]]{1,32}+){1,6}+\]"),
            # Codes of terminals.
            (Role.POINT, "\\", r"\\(?:033|e|x1[bB]|u001[bB])\[[0-9;]{0,16}+[A-Za-z]"),
            (Role.POINT, "^", r"\^\[\[[0-9;]{0,16}+[A-Za-z]"),
            (Role.VALUE, "\\", r"\\verb\*?(?P<bar>[|!+])[^|!+\n]{1,100}+(?P=bar)"),
            # Mathematics of TeX, and its commands with their arguments.
            (Role.VALUE, "$", r"\$\$(?=[^$\n]{0,400}\$\$)[^$\n]{1,400}+\$\$"),
            (
                Role.VALUE,
                "$",
                r"(?<![A-Za-z0-9_$\\])\$(?=[^\s$\d{]|\d{1,9}[^\s\d$.,])(?=[^$\n]{0,200}[\\^_=+*/<>|(-]|[A-Za-z]\$)[^$\n]{0,200}(?<=[^\s$\\-])\$(?![A-Za-z0-9_$])",
            ),
            (Role.VALUE, "\\", r"\\\((?:[^\\\n]|\\(?!\))){1,300}+\\\)|\\\[(?:[^\\\n]|\\(?!\])){1,300}+\\\]"),
            (
                Role.VALUE,
                "\\",
                r"\\begin\{(?P<block>(?:[pbvVB]|small)?matrix|equation|align|gather|cases|array|split)\*?\}(?:[^\\\n]|\\(?!end)){0,400}+\\end\{(?P=block)\*?\}",
            ),
            (Role.VALUE, "\\", r"\\(?:begin|end)\{[a-z]{1,32}+\*?\}(?:\[[^\[\]\n]{0,64}+\])?"),
            (
                Role.OPEN,
                "\\",
                r"\\(?:text(?:bf|it|tt|sc|rm|sf|up)|emph|underline|(?:sub){0,2}section\*?|chapter|title|caption|footnote)\{",
            ),
            (Role.CLOSE, "}", r"\}"),
            (Role.VALUE, "\\", rf"\\[A-Za-z]{{2,32}}+\*?(?:\[[^\[\]\n]{{0,64}}+\])?(?:{_ARGUMENT}){{1,4}}+"),
            (
                Role.VALUE,
                "\\",
                rf"\\(?:(?![rnNtvfabhsuxcCiIpPV0])[A-Za-z]{{2,32}}+|(?:{_TEX_NAMES})(?![A-Za-z]))(?:[\^_](?:[A-Za-z0-9]|{_ARGUMENT}))*+",
            ),
            (
                Role.VALUE,
                "$",
                rf"\$!?{_NAME}(?:(?:\.|->|::)(?={_NAME})[A-Za-z0-9_]{{1,64}}+|\[[^\[\]\n]{{1,32}}+\]){{0,8}}+",
            ),
            # No price, whose sentence may have another.
            (Role.VALUE, "$", r"\$[0-9](?![0-9.,]|\s?(?:[mb]illion|thousand)\b|[^$\n]{0,80}\$[0-9]{2})"),
            (
                Role.VALUE,
                ":",
                r"(?<![A-Za-z0-9_:/.)\]}\"'<>])(?::[a-z0-9][a-z0-9_+-]{1,40}+:|:[A-Za-z_][A-Za-z0-9_]{0,63}+)(?![:A-Za-z0-9_])",
            ),
            (
                Role.VALUE,
                "@",
                r"@(?:\.[a-z]{1,20}+)?:(?:\([^()\s]{1,64}+\)|[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,64}[A-Za-z0-9_])?)",
            ),
            (Role.VALUE, "[", r"\[\[[^\[\]\n]{1,200}+\]\]|\[[A-Z][A-Z0-9_]{1,40}+\]"),
            (Role.VALUE, "[", rf"\[(?:(?:[A-Z][a-z]{{1,16}} ){{0,3}}{_FIELDS}|your-[a-z-]{{1,32}})\]"),
            (Role.VALUE, "[", rf"\[(?!{_REMARK}\])[a-z][a-z0-9]{{2,32}}(?:_[a-z0-9]{{1,32}}){{0,6}}\]"),
            (Role.VALUE, "[]", r"[\[\]](?:\d{1,9}+|\*|-?Inf),\s?(?:\d{1,9}+|\*|Inf)[\[\])]"),
            (Role.VALUE, "<", r"<<[^<>\n]{1,64}+>>"),
            (Role.VALUE, "«", r"«[A-Za-z][A-Za-z0-9_.]{0,64}+»"),
            (Role.VALUE, "*", r"\*\|[^|\n]{1,64}+\|\*"),
            # Colours of games.
            (Role.POINT, "|", r"\|c[0-9a-fA-F]{8}|\|r(?![a-z])"),
            (
                Role.VALUE,
                "_",
                r"(?<![A-Za-z0-9_])__[A-Za-z][A-Za-z0-9]{0,40}+(?:_[A-Za-z0-9]{1,40}+){0,8}+__(?![A-Za-z0-9_])",
            ),
            (
                Role.VALUE,
                "#",
                r"(?<![A-Za-z0-9_#&])#{1,2}[A-Za-z][A-Za-z0-9_]{1,40}+#{1,2}(?![A-Za-z0-9_#])|###[A-Za-z][A-Za-z0-9_]{1,40}+###",
            ),
            # A name between equal signs, as @@name@@.
            (Role.VALUE, "=", r"(?<![A-Za-z0-9_=])==[A-Z][A-Z0-9_]{1,40}+==(?![A-Za-z0-9_=])"),
            (
                Role.VALUE,
                "@~|^+",
                r"(?<![A-Za-z0-9_@~|^+])(?P<signs>[@~|^+]{1,3}+)(?:(?<=[@~|^+]{2})[A-Za-z]|[A-Z](?=[A-Z]))[A-Za-z0-9_]{0,40}+(?P=signs)(?![A-Za-z0-9_@~|^+])",
            ),
            # It parts the forms of a plural, and the parts of a title.
            (Role.BREAK, "|", r"(?<!\|)\|(?!\|)"),
            # Other colours of games, and values of theirs.
            (Role.POINT, "§", r"§(?:[A-Za-z!]|[0-9](?=[^\W\d_]|§))"),
            (Role.POINT, "&", r"(?<![A-Za-z0-9])(?:&[0-9a-fk-or](?![a-z0-9;_=]))++"),
            (Role.POINT, "&", r"(?<![^\s\"'“(\[])&(?=[A-Za-z][a-z]{1,32}(?![A-Za-z;=]))"),
            (Role.POINT, "^", r"(?<![A-Za-z0-9_)\]}])\^[0-9](?=[^\W\d_])"),
            (Role.POINT, "~", r"~[a-z]~"),
            (Role.POINT, "\\", r"\\(?:[cC]|[iI])\[\d{1,4}+\]"),
            (Role.VALUE, "\\", r"\\[nNpPvV]\[\d{1,4}+\]"),
            (Role.BREAK, "\\", r"(?:\\[rnNtvf]){1,32}+"),
            (Role.POINT, "\\", r"\\(?:u[0-9a-fA-F]{4}|[ux]\{[0-9a-fA-F]{1,6}+\}|x[0-9a-fA-F]{2}|[0ab\"'\\hs])"),
        ),
        Family.HANDLES: (
            (Role.VALUE, "#", r"(?<![A-Za-z0-9_&#/])#[\u3400-\u9fff][^#\s]{0,40}+#"),
            (Role.VALUE, "@", r"(?<![A-Za-z0-9_.@/+-])@[\u3400-\u9fff][\w-]{0,30}+(?=\s|[，。：、！？,:!?]|$)"),
            (
                Role.VALUE,
                "@",
                r"(?<![A-Za-z0-9_.@/+-])@[A-Za-z0-9_](?:[A-Za-z0-9_./-]{0,62}[A-Za-z0-9_])?(?![A-Za-z0-9_@])",
            ),
            (
                Role.VALUE,
                "#",
                r"(?<![\w&#/])#[A-Za-z_]\w{0,99}+(?:-[A-Za-z0-9]{1,32}+){0,4}(?![#(])|(?<![A-Za-z0-9_&#/])#\d{1,10}+(?![A-Za-z0-9_.])",
            ),
        ),
        Family.CODE: (
            # Formulas of spreadsheets, operators, attributes of Angular, and types with parameters.
            (Role.VALUE, "=", r"(?<![A-Za-z0-9_=])=[A-Z]{2,16}+\((?:[^()\n]|\([^()\n]{0,64}+\)){0,200}+\)"),
            (Role.VALUE, "&", r"(?<![A-Za-z0-9_&])&&(?:[A-Za-z][A-Za-z0-9_]{0,40}+)?(?![A-Za-z0-9_&])"),
            (Role.VALUE, "?", r"(?<=\s)\?\?(?=\s)"),
            # A choice of a regular expression.
            (Role.VALUE, "(", r"\((?:\?:)?[^()\s|]{1,32}+(?:\|[^()\s|]{1,32}+){1,16}+\)[*+?]"),
            (Role.VALUE, "|", r"(?<![A-Za-z0-9_|])\|\|(?![A-Za-z0-9_|])"),
            # Formats of numbers, and times in a table of jobs.
            (
                Role.VALUE,
                "#",
                r"(?<![A-Za-z0-9_#&])#(?:[#,]{0,12}+0{1,8}+(?:\.[#0]{1,8}+)?|[#,]{0,12}+\.[#0]{1,8}+)%?(?![A-Za-z0-9_#])",
            ),
            (
                Role.VALUE,
                "*",
                r"(?<![A-Za-z0-9_*])\*(?:/\d{1,3}+(?: [\d*][\d*/,-]{0,8}+){1,4}+|(?: \*(?:/\d{1,3}+)?){1,4}+)(?![A-Za-z0-9_*])",
            ),
            (Role.VALUE, "*", r"(?<![A-Za-z0-9_*])\*[a-z]{1,16}+[A-Z][A-Za-z]{0,32}+(?![A-Za-z0-9_*])"),
            (Role.VALUE, "<", r"(?<=[A-Za-z])<[A-Z][A-Za-z0-9]{0,32}+(?:, ?[A-Z][A-Za-z0-9]{0,32}+){1,4}+>"),
            (Role.VALUE, "`", r"(?<!`)(?P<ticks>`{1,3})(?!`)(?:(?!`)[^\n]){1,200}+(?P=ticks)(?!`)"),
            (
                Role.VALUE,
                "-",
                r"(?<![A-Za-z0-9_-])--[a-z][a-z0-9]{0,32}+(?:-[a-z0-9]{1,32}+){0,8}+(?:=[\w./:-]{1,64}+)?(?![A-Za-z0-9_])",
            ),
        ),
        Family.IDENTIFIERS: (
            (
                Role.VALUE,
                "+",
                r"(?<![A-Za-z0-9_+])\+[0-9]{1,3}+[ -](?:\([0-9]{1,4}+\)[ -]?)?[0-9]{1,5}+(?:[ -][0-9]{2,5}+){1,5}+(?![A-Za-z0-9_])",
            ),
            (
                Role.VALUE,
                "#",
                r"(?<![A-Za-z0-9_&#])#(?=[0-9a-fA-F]{0,7}[0-9])(?:[0-9a-fA-F]{8}|[0-9a-fA-F]{6})(?![A-Za-z0-9_])",
            ),
        ),
    }
)

_DOMAINS = r"(?:com|org|net|io|dev|app|edu|gov|info|cn|de|fr|jp|uk|eu|ai|co)"
_SUFFIXES = (
    r"(?:txt|md|rst|pdf|docx?|xlsx?|pptx?|od[tsp]|epub|csv|tsv|jsonl?|xml|ya?ml|toml|ini|cfg|conf|log|html?|css|jsx?|tsx?|"
    r"py|c|h|cc|cpp|hpp|rs|go|java|kt|rb|php|swift|sh|bat|ps1|sql|db|sqlite|exe|dll|so|dmg|apk|deb|rpm|iso|zip|tar|t?gz|"
    r"bz2|xz|7z|rar|jar|png|jpe?g|gif|svg|webp|bmp|ico|tiff?|mp[34]|wav|flac|ogg|mov|avi|mkv|srt|vtt|po|lock|bak|tmp|onnx)"
)
_MEDIA = (
    "(?:json|xml|pdf|zip|gzip|octet-stream|javascript|wasm|yaml|rtf|html|plain|css|csv|markdown|calendar|"
    "png|jpe?g|gif|webp|avif|mpeg|ogg|wav|mp4|webm|woff2?)"
)
_GLOB = r"\*\*/(?:[A-Za-z0-9_.*-]{1,64}+/){0,8}+[A-Za-z0-9_.*-]*[A-Za-z0-9_*]"
_ADDRESS_END = r"[A-Za-z0-9/_~=&#%+$-]"
_BEFORE = r"(?<![A-Za-z0-9_])"
_AFTER = r"(?![A-Za-z0-9_])"
# Parts of a format of dates and times.
_DATE_PART = r"(?:(?:yy|YY){1,2}+|M{1,4}+|d{1,2}+|D{1,2}+|H{1,2}+|h{1,2}+|mm|ss|SSS)"
# By family, spans within a run of ASCII without white space.
_WITHIN: Mapping[Family, tuple[str, ...]] = MappingProxyType(
    {
        Family.ADDRESSES: (
            rf"{_BEFORE}data:[a-z]{{1,16}}+/[a-z0-9.+-]{{1,64}}+(?:;[a-z0-9=-]{{1,32}}+){{0,4}}+,[A-Za-z0-9+/=%_-]*+",
            rf"(?<![A-Za-z0-9])(?:[A-Za-z][A-Za-z0-9+.-]{{1,15}}+://|www\.)(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]|\{{[\w.]{{0,64}}+\}})*(?:{_ADDRESS_END}|\{{[\w.]{{0,64}}+\}})",
            r"(?<![A-Za-z0-9._%+-])(?:mailto:|tel:)?[A-Za-z0-9_%+-][A-Za-z0-9._%+-]{0,63}+@[A-Za-z0-9-]{1,63}+(?:\.[A-Za-z0-9-]{1,63}+){1,8}+",
            rf"(?<![A-Za-z0-9._@/\\-])(?:[a-z0-9][a-z0-9-]{{0,62}}+\.){{1,4}}{_DOMAINS}(?::\d{{1,5}}+)?(?:/[A-Za-z0-9\-._~:/?#@!$&'*+,;=%]*{_ADDRESS_END}|/)?{_AFTER}(?!\.[A-Za-z0-9])",
            rf"{_BEFORE}localhost(?::\d{{1,5}}+)?(?:/[A-Za-z0-9\-._~:/?#@!$&*+,;=%]*{_ADDRESS_END})?{_AFTER}",
        ),
        Family.FILES: (
            r"(?<![A-Za-z0-9])[A-Za-z]:\\[^\s\"'<>|*?,;]*[A-Za-z0-9_\\~%)-]",
            r"\\\\[A-Za-z0-9_.-]{1,64}+\\[^\s\"'<>|*?,;]*[A-Za-z0-9_\\$-]",
            r"%[A-Z_]{2,32}+%\\[^\s\"'<>|*?,;]*[A-Za-z0-9_\\-]|HKEY_[A-Z_]{4,32}+(?:\\[A-Za-z0-9_.-]{1,64}+)*+",
            r"(?<![A-Za-z0-9_.~/<])(?:~|\.{1,2}|\$[A-Z_]{1,32}+)?(?:/[A-Za-z0-9_@.+-]{1,128}(?<![.+-]))(?:/[A-Za-z0-9_@.+-]{1,128}(?<![.+]))*+/?",
            rf"{_BEFORE}(?:[A-Za-z0-9_][A-Za-z0-9_.-]{{0,64}}+/){{1,16}}+(?:[A-Za-z0-9_.-]{{1,64}}\.{_SUFFIXES}{_AFTER}|{_GLOB}|(?![A-Za-z0-9_.<%${{-]))",
            rf"(?<![A-Za-z0-9_*/.]){_GLOB}",
            rf"(?<![A-Za-z0-9_/.])(?:\*|\.?[A-Za-z0-9_][A-Za-z0-9_-]{{0,64}}+(?:\.[A-Za-z0-9_-]{{1,32}}+){{0,4}})\.{_SUFFIXES}{_AFTER}",
        ),
        Family.IDENTIFIERS: (
            # Types of media, and time zones.
            rf"{_BEFORE}(?:application|text|image|audio|video|font)/(?:(?:x-|vnd\.)[a-z0-9.+-]{{1,64}}+|[a-z0-9.-]{{1,32}}\+(?:json|xml|zip)|{_MEDIA}){_AFTER}",
            rf"{_BEFORE}(?:Africa|America|Antarctica|Asia|Atlantic|Australia|Europe|Indian|Pacific|Etc)/(?!Africa|America|Asia|Australia|Europe|Pacific)[A-Z][A-Za-z_]{{2,32}}+{_AFTER}",
            rf"{_BEFORE}\{{?[0-9a-fA-F]{{8}}-[0-9a-fA-F]{{4}}-[0-9a-fA-F]{{4}}-[0-9a-fA-F]{{4}}-[0-9a-fA-F]{{12}}\}}?{_AFTER}",
            rf"{_BEFORE}\d{{4}}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{{1,9}}+)?)?(?:Z|[+-]\d\d:?\d\d)?{_AFTER}|{_BEFORE}\d\d:\d\d:\d\d[.,]\d{{3}}{_AFTER}",
            rf"{_BEFORE}[A-Za-z0-9][A-Za-z0-9-]{{0,38}}+/[A-Za-z0-9_.-]{{1,64}}+#\d{{1,8}}+{_AFTER}",
            rf"{_BEFORE}0x[0-9a-fA-F]{{1,64}}+{_AFTER}",
            rf"{_BEFORE}(?=[a-f]*+[0-9])(?=[0-9]*+[a-f])[0-9a-f]{{7,128}}+{_AFTER}",
            rf"{_BEFORE}(?:[0-9a-fA-F]{{2}}[:-]){{5}}[0-9a-fA-F]{{2}}{_AFTER}",
            rf"{_BEFORE}(?:sha\d{{1,3}}|md5)[:-][A-Za-z0-9+/=]{{8,}}+",
            r"(?<![A-Za-z0-9+/=])(?=[A-Za-z0-9+/]*?[0-9])(?=[A-Za-z0-9+/]*?[a-z])(?=[A-Za-z0-9+/]*?[A-Z])[A-Za-z0-9+/_-]{20,}+={0,2}+",
            r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{6,}+={1,2}+(?![A-Za-z0-9=])",
            rf"{_BEFORE}CVE-\d{{4}}-\d{{4,7}}{_AFTER}|{_BEFORE}10\.\d{{4,9}}/[A-Za-z0-9._;()/:-]*[A-Za-z0-9]",
            rf"(?<![A-Za-z0-9_.,])v?\d{{1,5}}+(?:\.\d{{1,5}}+){{2,3}}+(?:[-+](?:alpha|beta|rc|dev|pre|[a-z]{{1,8}}+)?[.\d]*[A-Za-z0-9]|(?:rc|a|b|\.dev|\.post)\d{{1,3}}+)?(?:/\d{{1,2}})?{_AFTER}(?!\.\d)",
            rf"{_BEFORE}v\d{{1,4}}+(?:\.\d{{1,4}}+){{0,2}}+(?:-[a-z]{{1,8}}+\.?\d{{0,3}}+)?{_AFTER}",
        ),
        Family.CODE: (
            rf"{_BEFORE}(?=[yYMdDHhm]{{1,4}}[-/.:])(?=[A-Za-z/.:-]{{0,12}}(?:yy|YY|MM|dd|DD|HH|hh))(?!mm/h){_DATE_PART}(?:[-/.:]{_DATE_PART}){{1,5}}+{_AFTER}",
            rf"{_BEFORE}(?:YYYY|X{{3,32}}+(?:-X{{1,32}}+){{0,6}}+){_AFTER}",
            rf"(?<![A-Za-z0-9_$.])(?:[A-Za-z0-9]{{0,64}}+(?:_{{1,2}}[A-Za-z0-9]{{1,64}}+){{1,16}}+_{{0,2}}|[a-z][a-z0-9]{{0,64}}+[A-Z][A-Za-z0-9]{{0,64}}+)(?:\.[A-Za-z_][A-Za-z0-9_]{{0,64}}+){{0,8}}+(?:\([\w\s,.\"'=-]{{0,64}}+\))?{_AFTER}",
            r"(?<![A-Za-z0-9_$.])[A-Za-z_][A-Za-z0-9_]{0,64}+(?:(?:\.|::|->)[A-Za-z_][A-Za-z0-9_]{0,64}+){0,8}+\(\)",
            r"(?<![A-Za-z0-9_$.:])[A-Za-z_][A-Za-z0-9_]{0,64}+(?:(?:::|->)[A-Za-z_][A-Za-z0-9_]{0,64}+){1,8}+",
        ),
    }
)
# Marks that a run of ASCII has where a pattern may match within it. Python searches fast for a class at the beginning.
_TELLTALE = re.compile(
    r"[A-Z0-9./@:=_\\(-](?:"
    r"(?<=[A-Z])(?:(?<=[a-z][A-Z])|(?<=[XY])(?<=YYY|XXX))"
    r"|(?<![A-Z])(?:(?<=[A-Za-z][0-9])|(?<=[0-9])(?=[a-fA-Fx.:-][0-9a-zA-Z]|[0-9]{6})"
    r"|(?<=[A-Za-z0-9*]\.)(?=[A-Za-z0-9])|(?<=/)(?<!</)(?=[A-Za-z0-9_@.+-]|[^!-~]|\Z)|(?<=[A-Za-z0-9]@)(?=[A-Za-z0-9])"
    r"|(?<=[A-Za-z0-9_]:)(?=//|:|[0-9]{2})|(?<=[A-Za-z0-9+/]{6}=)(?!\w)|(?<=\w\()(?=\))|(?<=-)(?=>)|(?<=[_\\])"
    r"|(?<=[yYMdDHh][-:])(?=[yYMdDms])))",
    re.ASCII,
)
# Priority of families for a mark, and the closing marks of spans.
_MARKED_ORDER = (
    *(Family.BRACES, Family.TEMPLATES, Family.VARIABLES, Family.PRINTF),
    *(Family.TAGS, Family.IDENTIFIERS, Family.HANDLES, Family.CODE),
)
# Patterns that are tried first, because most spans are theirs, and no span of another one.
_FIRST = frozenset((*_COMMON_PRINTF, *(pattern for _, mark, pattern in _MARKED[Family.TAGS] if mark in "<&")))
_CLOSERS: Mapping[str, str] = MappingProxyType({"{": "}", "<": ">", "[": "]", "`": "`"})
_MAX_SPAN = 2000
_PROTECTED: Mapping[ProtectedPattern, frozenset[Family]] = MappingProxyType(
    {
        ProtectedPattern.URL: frozenset({Family.ADDRESSES}),
        ProtectedPattern.EMAIL: frozenset({Family.ADDRESSES}),
        ProtectedPattern.CODE: frozenset({Family.CODE}),
        ProtectedPattern.PLACEHOLDER: frozenset({Family.PRINTF, Family.BRACES}),
        ProtectedPattern.TAG: frozenset({Family.TAGS}),
    }
)
_MAIL = re.compile(r"(?:mailto:)?[A-Za-z0-9._%+-]{1,64}+@")
_NUMBER = re.compile(r"(?<![A-Za-z0-9_])(?<![0-9][.,:/])[0-9]++(?:[.,:/][0-9]++)*+%?(?![A-Za-z0-9_])")
_RUN = re.compile(r"[!-~]+")
# Fields without a name or number.
_FIELDS_OF_PLACES = ("%s", "%dpx", "%d percent", "百分之%d", "{}", "{:d}", "{!r}")
_COMMON_FIELDS = frozenset(("%s", "%d", "%@", "{}"))
_ORDERED = re.compile(
    rf"%(?! *%)[ ]?{_WIDTH}{_LENGTH}[diouxXeEfFgGaAcCsSp@](?: percent|[a-z]{{0,2}})$|百分之 ?%[^($]*$|\{{[:!}}]"
)


# Signs around emphasised words. The closing sign is looked for in the same line.
_EMPHASIS = re.compile(
    r"(?P<sign>(?P<one>[*_~='|])(?<![A-Za-z0-9\\].)(?<!\*\*|__|~~|==|''|\|\|)"
    r"(?:(?<=[*_])(?P=one){0,2}+|(?P=one){1,2}+))(?!\s|(?P=one))"
    r"(?=(?P<words>(?:(?!(?P=sign))[^\n]){1,200}+)(?<!\s)(?P<end>(?P=sign))(?![A-Za-z0-9]|(?P=one)))"
)
# A name that a program replaces together with its signs, as in *name*.
_REPLACED = re.compile(r"(?:(?:user|first|last|full|file|host)_?)?name|user|email|id|url|count|value|key|[a-z]")

_Matches = Callable[[str, int], "re.Match[str] | None"]


class _Catalogue(NamedTuple):
    """Compiled patterns of some families."""

    marks: re.Pattern[str] | None
    """Characters that a span may begin with."""
    patterns: Mapping[str, tuple[_Matches, Sequence[tuple[Role, bool]]]]
    """By mark, the function that matches a span and the text up to the next mark, and by its last group the role of the
    span and whether it may be a field without name or number."""
    within: re.Pattern[str] | None


@cache
def _catalogue(families: frozenset[Family]) -> _Catalogue:
    patterns: dict[str, list[tuple[str, Role]]] = {}
    for family in _MARKED_ORDER:
        for role, marks, pattern in _MARKED.get(family, ()) if family in families else ():
            for mark in marks:
                patterns.setdefault(mark, []).append((pattern, role))
    for each in patterns.values():
        each.sort(key=lambda pattern: pattern[0] not in _FIRST)
    within = [pattern for family in Family if family in families for pattern in _WITHIN.get(family, ())]
    marks = "".join(map(re.escape, patterns))
    return _Catalogue(
        marks=re.compile(f"[{marks}]") if patterns else None,
        patterns={mark: _alternatives(each, marks) for mark, each in patterns.items()},
        # None begins within a word, which is seen before any of them is tried.
        within=re.compile(f"(?<![A-Za-z0-9])(?:{'|'.join(within)})", re.ASCII) if within else None,
    )


def _alternatives(patterns: Sequence[tuple[str, Role]], marks: str) -> tuple[_Matches, Sequence[tuple[Role, bool]]]:
    """Join patterns, the first match winning, to one whose last group tells the pattern and where the span ends."""
    joined = "|".join(f"(?:{pattern})(?P<p{number}>)" for number, (pattern, _) in enumerate(patterns))
    compiled = re.compile(f"(?:{joined})[^{marks}]*+")
    roles = [(Role.VALUE, False)] * (compiled.groups + 1)
    for number, (pattern, role) in enumerate(patterns):
        has_fields = any(re.match(pattern, field) for field in _FIELDS_OF_PLACES)
        roles[compiled.groupindex[f"p{number}"]] = role, has_fields
    return compiled.match, roles


def find(text: str, families: Set[Family]) -> list[Found]:
    """Find the spans of some families, in the order of the text: the first at each place, and of those the longest."""
    catalogue = _catalogue(frozenset(families))
    found = _marked(text, catalogue)
    for span in list(_in_runs(text, catalogue, found)):
        start, end = span[:2]
        first = last = bisect_left(found, (start,))
        while last < len(found) and found[last][0] < end:
            last += 1
        is_within = bool(first) and found[first - 1][1] > start
        is_shorter = first < last and found[first][0] == start and found[first][1] >= end
        if not is_within and not is_shorter:
            found[first:last] = [span]
    return _with_emphasis(text, found) if Family.VARIABLES in families else found


def _with_emphasis(text: str, found: list[Found]) -> list[Found]:
    """Add signs of emphasis, in pairs that no other span overlaps."""
    closing = set[int]()
    for match in _EMPHASIS.finditer(text):
        start, end, last = match.start(), match.end(), match.start("end")
        after = match.end("end")
        if start in closing or _overlaps(found, last, after):
            continue
        if match["one"] == "_":
            first = bisect_left(found, (start,))
            if first < len(found) and found[first].start == start and found[first].end < last:
                # The first of several words, as in _not this_, which alone is a name.
                del found[first]
        if _overlaps(found, start, end):
            continue
        closing.add(last)
        if _REPLACED.fullmatch(match["words"]):
            insort(found, Found(start, after, Role.VALUE))
        else:
            insort(found, Found(start, end, Role.OPEN))
            insort(found, Found(last, after, Role.CLOSE))
    return found


def _overlaps(found: Sequence[Found], start: int, end: int) -> bool:
    place = bisect_left(found, (start,))
    return (place < len(found) and found[place].start < end) or (place > 0 and found[place - 1].end > start)


def find_protected(text: str, pattern: ProtectedPattern) -> list[Found]:
    """Find the texts of a protected pattern, which are those of some families, or numbers in digits."""
    if pattern is ProtectedPattern.NUMBER:
        return [Found(*match.span(), Role.VALUE) for match in _NUMBER.finditer(text)]
    found = find(text, _PROTECTED[pattern])
    if pattern in (ProtectedPattern.URL, ProtectedPattern.EMAIL):
        is_mail = pattern is ProtectedPattern.EMAIL
        return [span for span in found if bool(_MAIL.match(text, span.start)) is is_mail]
    return found


def _marked(text: str, catalogue: _Catalogue) -> list[Found]:
    found: list[Found] = []
    if catalogue.marks is None or (first := catalogue.marks.search(text)) is None:
        return found
    next_mark, patterns, make = catalogue.marks.search, catalogue.patterns, tuple.__new__
    closed: dict[str, int] = {}
    place, length = first.start(), len(text)
    while place < length:
        mark = text[place]
        match_span, roles = patterns[mark]
        # Only a mark that has begun no span needs its closer looked for: the next one may fail at the same cost.
        is_open = not closed or mark not in closed or _closes(text, mark, place, closed)
        if is_open and (match := match_span(text, place)) and (group := match.lastindex):
            role, is_ordered = roles[group]
            end = match.start(group)
            if is_ordered and text[place:end] not in _COMMON_FIELDS:
                is_ordered = _ORDERED.match(text, place, end) is not None
            # A third of the time of its constructor.
            found.append(make(Found, (place, end, role, is_ordered)))
            place = match.end()
        else:
            if mark in _CLOSERS:
                closed.setdefault(mark, place)
            begun = next_mark(text, place + 1)
            place = begun.start() if begun else length
    return found


def _closes(text: str, mark: str, place: int, closed: dict[str, int]) -> bool:
    """Return whether the closer of a mark follows a place soon; `closed` keeps where the next one is, by mark."""
    if closed[mark] <= place:
        found = text.find(_CLOSERS[mark], place + 1)
        closed[mark] = found if found >= 0 else len(text) + _MAX_SPAN
    return closed[mark] - place <= _MAX_SPAN


def _in_runs(text: str, catalogue: _Catalogue, marked: Sequence[Found]) -> Iterator[Found]:
    """Find spans within runs of ASCII, other than in marked spans."""
    if catalogue.within is None:
        return
    place, passed, make = 0, 0, tuple.__new__
    while telltale := _TELLTALE.search(text, place):
        start = telltale.start()
        while passed < len(marked) and marked[passed][1] <= start:
            passed += 1
        if passed < len(marked) and marked[passed][0] <= start and text[start] != "\\":
            # Only an escape may be a part of a longer span, such as C:\\new.
            place = marked[passed][1]
            continue
        while start > place and "!" <= text[start - 1] <= "~":
            start -= 1
        run = _RUN.match(text, start)
        place = run.end() if run else start + 1
        for match in catalogue.within.finditer(text, start, place):
            first, last = match.span()
            if first < last:
                yield make(Found, (first, last, Role.VALUE, False))
