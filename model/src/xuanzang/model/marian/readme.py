"""What the README of a model directory tells."""

from __future__ import annotations

import re
from typing import NamedTuple

_HEADER = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_LICENCE = re.compile(r"^license:[ \t]*['\"]?([^\s'\"]+)", re.MULTILINE)
_LANGUAGES = re.compile(r"^language:[ \t]*(.*(?:\n[ \t]*-[ \t]*\S+.*)*)", re.MULTILINE)


class Readme(NamedTuple):
    """The parts that a model card needs."""

    text: str
    """Without the header."""
    licence: str
    """As the header names it, or empty."""
    languages: list[str]
    """As the header names them."""


def parse_readme(text: str) -> Readme:
    """Take a README apart, which may have a YAML header of the kind that the hub reads."""
    text = text.replace("\r\n", "\n")
    header = _HEADER.match(text)
    fields = header[1] if header else ""
    licence, languages = _LICENCE.search(fields), _LANGUAGES.search(fields)
    return Readme(
        text=text[header.end() :].strip() if header else text.strip(),
        licence=licence[1] if licence else "",
        languages=re.findall(r"[\w-]*\w", languages[1]) if languages else [],
    )
