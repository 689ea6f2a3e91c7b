"""Spans that stand in both sides of a pair: found in texts, or made at random."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence

_KINDS = {
    "link": r"(?:https?|ftp)://[^\s<>\"'`)\]}]*[\w/]",
    "address": r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "tag": r"</?[A-Za-z][^<>]*>",
    "code": r"`[!-_a-~]+`",
    "braces": r"\$?\{\{?[\w.:$-]*\}?\}|\$[A-Za-z_]\w*",
    "format": r"%\(\w+\)[sdif]|%(?:\d+\$)?[-+0#]*\d*(?:\.\d+)?l?[sdifuxX](?![A-Za-z])",
    "path": r"(?<![\w/.])(?:~|\.{1,2})?(?:/[\w.-]*\w)+/?|[A-Z]:(?:\\[\w.-]+)+",
    "flag": r"(?<![\w-])--[A-Za-z][\w-]*",
    "name": r"[A-Za-z]\w*_\w+|[a-z]+[A-Z]\w*|[A-Z]{2,}\d*(?!\w)|[\w-]+\.(?:[a-z]{2,4}|[ch])(?!\w)",
    "number": r"\d+(?:[.,:/-]\d+)*",
}
# ASCII, or \w would take adjacent Chinese into a name.
_SPAN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS.items()), re.ASCII)


def copied_spans(text: str) -> list[str]:
    """Return the parts of a sentence that its translation must hold unchanged, in order.

    Args:
        text: Normalised text; otherwise full-width digits would be expected.
    """
    return [match.group() for match in _SPAN.finditer(text)]


def kept_spans(source: str, translation: str) -> tuple[int, int]:
    """Count the spans of a source, and how many its translation holds at least as often.

    Returns:
        Kept spans and all spans.
    """
    wanted = Counter(copied_spans(source))
    return sum(min(count, translation.count(span)) for span, count in wanted.items()), wanted.total()


_FORMATS = ("%s", "%d", "%i", "%u", "%f", "%.2f", "%1$s", "%2$s", "%1$d", "%02d", "%5.1f", "%x", "%ld")
_TAGS = ("b", "i", "em", "strong", "code", "p", "span", "li", "h1", "h2", "u", "kbd", "a", "div", "td", "small")
_QUOTES = (("`", "`"), ("**", "**"), ('"', '"'), ("'", "'"), ("*", "*"), ("(", ")"), ("[", "]"), ("__", "__"))
_ENDINGS = ("txt", "py", "md", "json", "yaml", "html", "js", "png", "conf", "cpp", "h", "csv", "tar.gz", "log", "zip")
_DOMAINS = ("com", "org", "net", "io", "dev", "cn", "edu", "gov")
_CONSONANTS, _VOWELS = "bcdfghjklmnprstvwxz", "aeiouy"


class SpanMaker:
    """Generator of spans, made of random numbers and words of a language."""

    def __init__(self, generator: random.Random, words: Sequence[str]) -> None:
        self._random, self._words = generator, words

    def any(self) -> str:
        """Return a span of some kind."""
        kinds: dict[Callable[[], str], float] = {
            self._placeholder: 5,
            self.number: 4,
            self._name: 2,
            self._identifier: 2,
            self.link: 2,
            self._path: 2,
            self._flag: 1,
            self._address: 0.5,
            self._tag: 1,
        }
        return self._random.choices(list(kinds), list(kinds.values()))[0]()

    def marks(self) -> tuple[str, str]:
        """Return the marks around a phrase: opening and closing tag, or quotes."""
        if self._random.random() < 0.35:
            return self._random.choice(_QUOTES)
        tag = self._random.choice(_TAGS)
        attribute = {"a": f' href="{self.link()}"', "span": f' class="{self._word()}"'}.get(tag, "")
        return f"<{tag}{attribute if self._random.random() < 0.7 else ''}>", f"</{tag}>"

    def number(self) -> str:
        """Return digits: a count, a decimal, a version, a date, a time, a share."""
        draw = self._random.randint
        forms: tuple[Callable[[], str], ...] = (
            lambda: str(draw(0, 10 ** draw(1, 6))),
            lambda: str(draw(2, 99)),
            lambda: f"{draw(1000, 10**7):,}",
            lambda: f"{draw(0, 999)}.{draw(0, 99)}",
            lambda: f"{draw(0, 20)}.{draw(0, 20)}.{draw(0, 99)}",
            lambda: f"{draw(1900, 2099)}-{draw(1, 12):02}-{draw(1, 28):02}",
            lambda: f"{draw(0, 23)}:{draw(0, 59):02}",
            lambda: f"{draw(1, 100)}%",
            lambda: f"{draw(1, 255)}.{draw(0, 255)}.{draw(0, 255)}.{draw(0, 255)}",
            lambda: f"0x{draw(0, 2**32):x}",
        )
        return self._random.choices(forms, (6, 4, 2, 2, 2, 2, 2, 2, 1, 1))[0]()

    def link(self) -> str:
        """Return an address on the web."""
        host = f"{self._random.choice(('', 'www.', 'docs.'))}{self._word()}.{self._random.choice(_DOMAINS)}"
        path = "".join(f"/{self._word()}" for _ in range(self._random.randint(0, 3)))
        query = f"?{self._word()}={self.number()}" if self._random.random() < 0.15 else ""
        return f"{self._random.choice(('http', 'https', 'https'))}://{host}{path}{query}"

    def _placeholder(self) -> str:
        word, form = self._word(), self._random.random()
        if form < 0.35:
            return self._random.choice(_FORMATS)
        if form < 0.45:
            return f"%({word})s"
        return self._random.choice(("{{{}}}", "{{{}}}", "${{{}}}", "{{{{{}}}}}", "${}")).format(
            self._random.choice((word, word, self._identifier(), str(self._random.randint(0, 3))))
        )

    def _name(self) -> str:
        """Return a made-up name, which can only be copied letter by letter."""
        syllables = (
            self._random.choice(_CONSONANTS) + self._random.choice(_VOWELS) + self._random.choice(("", "", "n", "r"))
            for _ in range(self._random.randint(2, 4))
        )
        return "".join(syllables).capitalize()

    def _identifier(self) -> str:
        parts = [self._word() for _ in range(self._random.randint(2, 3))]
        camel = parts[0] + "".join(part.capitalize() for part in parts[1:])
        return self._random.choice(("_".join(parts), camel, "_".join(parts).upper(), f"{parts[0]}()", ".".join(parts)))

    def _path(self) -> str:
        parts = [self._word() for _ in range(self._random.randint(1, 3))]
        ending = self._random.choice(_ENDINGS)
        return self._random.choice(
            (
                f"/{'/'.join(parts)}",
                f"/{'/'.join(parts)}.{ending}",
                f"~/{'/'.join(parts)}",
                f"{parts[0]}.{ending}",
                f"./{parts[0]}.{ending}",
                "C:\\" + "\\".join(parts),
            )
        )

    def _flag(self) -> str:
        return self._random.choice((f"--{self._word()}", f"--{self._word()}-{self._word()}", f"-{self._word()[0]}"))

    def _address(self) -> str:
        return f"{self._word()}@{self._word()}.{self._random.choice(_DOMAINS)}"

    def _tag(self) -> str:
        tag = self._random.choice(_TAGS)
        return self._random.choice((f"<{tag}>", f"</{tag}>", "<br>", "<br/>"))

    def _word(self) -> str:
        return self._random.choice(self._words)
