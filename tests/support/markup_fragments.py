"""Well-formed fragments of HTML and XML at random, and oracles of what their translations must keep."""

from __future__ import annotations

import random
import re
from collections import Counter
from xml.etree import ElementTree as ET

_TEXTS = (
    *(
        "我有一只猫。",
        "他昨天在北京",
        "买了三本书",
        "，",
        "请提交报告！",
        "price 100美元",
        " ",
        "\n  ",
        "再见。你好",
        "2024",
    ),
    *("&amp;", "&lt;x&gt;", "&#8364;", "AT", "2024"),
)
_INLINE = ("b", "i", "a", "span", "em", "u", "g")
_BLOCK = ("p", "div", "li", "td")
_EMPTY = ('<img src="a.png"/>', "<br/>", "<!-- note -->", '<x id="1"/>', "<wbr/>")
_ATTRIBUTES = ("", ' class="k"', " title='a > b &amp; c'", ' href="/x?y=1&amp;z=2"', '\n  id = "q"')
_TAG = re.compile(r"<!--.*?-->|<(?:[^<>\"']|\"[^\"]*\"|'[^']*')*>", re.DOTALL)


def fragment(seed: int, *, with_islands: bool = False) -> str:
    """Return a well-formed fragment.

    Args:
        seed: Seed; equal ones give equal fragments.
        with_islands: Whether some elements are not translated.
    """
    return _content(random.Random(seed), depth=0, blocks=True, islands=with_islands)


def _content(rng: random.Random, *, depth: int, blocks: bool, islands: bool) -> str:
    pieces = []
    for _ in range(rng.randint(1, 4)):
        draw = rng.random()
        if draw < 0.5 or depth > 4:
            pieces.append(rng.choice(_TEXTS))
        elif draw < 0.6:
            pieces.append(rng.choice(_EMPTY))
        elif islands and draw < 0.7:
            pieces.append(rng.choice(("<code>f(x)</code>", '<span translate="no">小米</span>', "<pre>a\n b</pre>")))
        else:
            is_block = blocks and rng.random() < 0.4
            name = rng.choice(_BLOCK if is_block else _INLINE)
            inner = _content(rng, depth=depth + 1, blocks=is_block, islands=islands)
            pieces.append(f"<{name}{rng.choice(_ATTRIBUTES)}>{inner}</{name}>")
    return "".join(pieces)


def tags(markup: str) -> Counter[str]:
    """Return how often each tag and comment occurs, byte for byte."""
    return Counter(_TAG.findall(markup))


def text_of(markup: str) -> str:
    """Return the text of a well-formed fragment.

    Raises:
        ParseError: It is not well-formed.
    """
    return "".join(ET.fromstring(f"<r>{markup}</r>").itertext())
