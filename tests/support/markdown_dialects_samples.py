"""Markdown of many dialects in which "word" stands for each word to translate; all else is to stay as it is."""

from __future__ import annotations

import json
from pathlib import Path

_SAMPLES = json.loads((Path(__file__).parent / "texts" / "markdown_dialects.json").read_text(encoding="utf-8"))
DIALECTS: dict[str, list[str]] = _SAMPLES["dialects"]
"""Sources by kind."""
REFERENCES: list[tuple[str, str]] = [(source, translation) for source, translation in _SAMPLES["references"]]
"""Links by their text: sources and translations."""
