# ruff: noqa: E501 - a pattern is read as a whole
"""Patterns of placeholders by family. Every pattern is bounded or possessive, so that none takes more than linear time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType

from xuanzang.text.types import PlaceholderFamily as Family


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


_NAME = r"[A-Za-z_][A-Za-z0-9_]{0,63}+"
_TAG = r"""</?(?:[A-Za-z][A-Za-z0-9:._-]{0,63}+|\d{1,3}+)(?:=[^<>\s]{1,64}+)?(?:\s(?:[^<>"']|"[^"<]{0,500}+"|'[^'<]{0,500}+'){0,500}+)?+/?>|</?>"""
# A tag of HTML between whose texts no sentence goes on.
_BLOCK_TAG = (
    r"(?i:(?=</?(?:br|hr|p|div|[uod]l|li|d[dt]|h[1-6]|pre|table|tbody|thead|t[rdh]|blockquote|section)[\s/>]))"
    rf"(?:{_TAG})"
)
# Ends of the names of fields in brackets, as in [First Name].
_FIELDS = r"(?:Name|Date|Number|Address|E?-?[Mm]ail|Amount|Company|City|Phone|ID|URL|Link)"
LENGTH = r"(?:hh?|ll?|I64|I32|[qjztL])?"
WIDTH = r"[-+#0',]*+(?:\d{1,3}|\*(?:\d{1,2}\$)?)?(?:\.(?:\d{1,3}|\*(?:\d{1,2}\$)?)?)?"
# After a digit, as in "5%off" and "%20", only what ends a word is a conversion.
_UNNUMBERED = rf"%(?:{WIDTH}{LENGTH}[diouxXeEfFgGaAcCsSpn@]|[-+#]?\d{{1,3}}[bBqvT](?![A-Za-z])|[-_^]?[A-Za-z](?![A-Za-z])| [diouxXeEfFgGcrsa](?![A-Za-z]))"

# The commonest directives; no other pattern matches more characters of them.
COMMON_PRINTF = tuple(
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
MARKED: Mapping[Family, tuple[tuple[Role, str, str], ...]] = MappingProxyType(
    {
        Family.PRINTF: (
            *((Role.VALUE, "%", pattern) for pattern in COMMON_PRINTF),
            (Role.VALUE, "%", r"(?<![0-9])%(?:\(\w{1,64}+\)|\d{1,2}\$)?[-+0-9.]{0,8}[diufsg] percent(?![A-Za-z])"),
            (Role.VALUE, "百", r"百分之 ?%(?:\(\w{1,64}+\)|\d{1,2}\$)?[-+0-9.]{0,8}[diufsg](?![A-Za-z])"),
            (Role.VALUE, "%", r"%\([^()\s]{1,64}+\)" + WIDTH + r"[diouxXeEfFgGcrsab]"),
            (
                Role.VALUE,
                "%",
                r"%[-+#0]{0,4}\{[^{}\s]{1,64}+\}(?:[dsfgx](?![A-Za-z]))?|%<[^<>\s]{1,64}+>" + WIDTH + "[A-Za-z]",
            ),
            (Role.VALUE, "%", r"%(?:\d{1,2}\$)?#@[A-Za-z_][\w-]{0,64}+@"),
            (Role.VALUE, "%", rf"%\d{{1,2}}\$(?:[( ]?{WIDTH}{LENGTH}[A-Za-z@])"),
            # Letters of an address, and %%name, which another program fills in.
            (Role.VALUE, "%", r"%[0-9A-F]{2}(?:%[0-9A-F]{2}){1,64}+|(?<![A-Za-z0-9%}])%%[a-z][A-Za-z0-9_]{0,64}+(?!%)"),
            (Role.VALUE, "%", r"%%|%L\d{1,2}(?!\d)"),
            (Role.VALUE, "%", r"%\d{1,2}![^!\s]{1,16}+!|%\[\w{1,32}+\]" + WIDTH + r"[A-Za-z]|%s\d{1,2}(?![\d%])"),
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
WITHIN: Mapping[Family, tuple[str, ...]] = MappingProxyType(
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
TELLTALE = re.compile(
    r"[A-Z0-9./@:=_\\(-](?:"
    r"(?<=[A-Z])(?:(?<=[a-z][A-Z])|(?<=[XY])(?<=YYY|XXX))"
    r"|(?<![A-Z])(?:(?<=[A-Za-z][0-9])|(?<=[0-9])(?=[a-fA-Fx.:-][0-9a-zA-Z]|[0-9]{6})"
    r"|(?<=[A-Za-z0-9*]\.)(?=[A-Za-z0-9])|(?<=/)(?<!</)(?=[A-Za-z0-9_@.+-]|[^!-~]|\Z)|(?<=[A-Za-z0-9]@)(?=[A-Za-z0-9])"
    r"|(?<=[A-Za-z0-9_]:)(?=//|:|[0-9]{2})|(?<=[A-Za-z0-9+/]{6}=)(?!\w)|(?<=\w\()(?=\))|(?<=-)(?=>)|(?<=[_\\])"
    r"|(?<=[yYMdDHh][-:])(?=[yYMdDms])))",
    re.ASCII,
)
