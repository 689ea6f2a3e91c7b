"""A document of each format with what is odd about it."""

from __future__ import annotations

MARKDOWN = """\
---
title: stays
---
# Head *em* #

First line
second `code` line with [a link](http://x "t") and ![alt](y).
Hard break  \r
after it \\* &amp; so

> quote one
> two
lazy

- item a
  more
- 2 * 3 [nolink] **strong**text

1) first

| a b | b a |
|-----|-----|
| b a | x \\| y |
| | **b** a |

    code block

```python
fence = "text"
```

<div class="x">html text</div>

[ref]: http://x "title"

Set
ext
===
"""

HTML = """\
<!DOCTYPE html>\r
<html><head><title>T &amp; t</title><script>var x = "<b>a</b>";</script><style>p{}</style></head>
<body><!-- <p>comment</p> --><p title="tip it" class='x'>Hello <b>big</b>, wide &nbsp;world&nbsp;!
<p class=notranslate>no<p>yes
 more<br/>x AT&T &lt;<code>c <i>d</i></code> e<img alt='a cat' src=x>end <textarea>area</textarea>
<![CDATA[odd]]><svg><text>drawn</text></svg><? pi ?></body> <a href="a&b">unclosed &
"""

SRT = (
    "1\r\n00:00:01,000 --> 00:00:02,000\r\nHello there\r\nyou <i>two</i>\r\n\r\n"
    "2\r\n00:00:03,000 --> 00:00:04,000\r\n{\\an8}- A b\r\n- C d\r\n\r\n"
    "3\r\n00:00:05,000 --> 00:00:06,000\r\n\r\n4\r\n00:00:05,000 --> 00:00:06,000\r\nlast"
)

VTT = (
    "WEBVTT title\n\nNOTE a comment\n\nSTYLE\n::cue { color: red }\n\n"
    "id\n00:01.000 --> 00:02.000 align:start\n<v Bob>Hi &amp; bye\n\n01:00:01.000 --> 01:00:02.000\nTwo\nlines\n"
)

PO = (
    'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    '#: a.c:1\n#, c-format\nmsgctxt "menu"\nmsgid "Hello %s\\n"\nmsgstr "done \\"%s\\"\\n"\n\n'
    'msgid ""\n"two "\n"parts"\nmsgstr "zwei"\n\n#~ msgid "old"\n#~ msgstr ""\n'
)

XLIFF = """\
<?xml version="1.0" encoding="utf-8"?>
<!-- c --><xliff version="1.2"><file><body>
  <trans-unit id='1'><source>Hello <g id="1">big</g></source>\r
    <target>Hallo</target></trans-unit>
  <trans-unit id="2" translate="no"><source>No</source></trans-unit>
</body></file></xliff>
"""

JSON = (
    '\ufeff{"key": "caf\\u00e9 x",\r\n "list": [1.0, "http://x/y", " hi \\n", {"a:": "b\\"c"}], "e": "", "n": null}\n'
)

JSONL = '{"text": "one", "id": "two"}\n\n{"text": "th\\u0072ee", "id": 3}'

CSV = 'id,text,"no ""te"""\r\n1,"say ""hi""\r\nyou", a \r\n2,,\r\n\r\n3,"x, y"'

WORD = (
    '<w:p><w:pPr><w:rPr><w:b/></w:rPr></w:pPr><w:r><w:t>Hel</w:t></w:r><w:proofErr w:type="x"/>'
    '<w:r><w:rPr><w:lang w:val="en"/></w:rPr><w:t xml:space="preserve">lo </w:t></w:r>'
    "<w:r><w:rPr><w:b/></w:rPr><w:t>big</w:t></w:r><w:r><w:tab/><w:t>a &amp; b</w:t></w:r></w:p>"
    "<w:p><w:r><w:instrText>PAGE</w:instrText></w:r><w:r><w:t/></w:r></w:p>"
)

TEXTS = {
    ".txt": "\ufefffirst line \r\n\r\n  second\tline\rthird\u2028same\n\n",
    ".md": MARKDOWN,
    ".html": HTML,
    ".srt": SRT,
    ".vtt": VTT,
    ".po": PO,
    ".json": JSON,
    ".jsonl": JSONL,
    ".csv": CSV,
    ".tsv": CSV.replace(",", "\t"),
    ".xliff": XLIFF,
}

NAMED = (".csv", ".tsv")
"""Formats whose columns must be named."""
