"""The README of a model directory: licence, languages and text."""

from __future__ import annotations

import re
from typing import NamedTuple

_HEADER = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_LICENCE = re.compile(r"^license:[ \t]*['\"]?([^\s'\"]+)", re.MULTILINE)
_LANGUAGES = re.compile(r"^language:[ \t]*(.*(?:\n[ \t]*-[ \t]*\S+.*)*)", re.MULTILINE)


class Readme(NamedTuple):
    """The parts that a model card needs."""

    text: str
    """Text without the header."""
    licence: str
    """Licence that the header names, or empty."""
    languages: list[str]
    """Languages that the header names."""


def parse_readme(text: str) -> Readme:
    """Parse a README, which may begin with the YAML header of a model hub."""
    text = text.replace("\r\n", "\n")
    header = _HEADER.match(text)
    fields = header[1] if header else ""
    licence, languages = _LICENCE.search(fields), _LANGUAGES.search(fields)
    return Readme(
        text=text[header.end() :].strip() if header else text.strip(),
        licence=licence[1] if licence else "",
        languages=re.findall(r"[\w-]*\w", languages[1]) if languages else [],
    )
