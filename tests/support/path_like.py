"""Strings that programs mistake for paths, and what a folder holds."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

_PARTS = (
    *("..", ".", "/", "//", "\\", "~", "~root", "-", "--", " ", "\t", "\n", ":", "*", "?", "%2e%2e", "%2f", "$HOME"),
    *("a", "zh-en", "tiny", "1", "A", "é", "猫", "．．", "／", "\u202e", "\x7f", "C:", "nul", "con"),
    *(".lock", ".old", ".partial", ".pulling", ".tsv", "manifest.json", "models", "etc/passwd", "x" * 70, "x" * 300),
)


def path_like(count: int = 2000) -> Iterator[str]:
    """Yield different strings that are made of parts of paths, none with a null character, the same in each run."""
    draw = random.Random(20261126)
    seen: set[str] = set()
    while len(seen) < count:
        text = "".join(draw.choices(_PARTS, k=draw.choice((1, 1, 2, 2, 3, 4, 5, 8))))
        if text not in seen:
            seen.add(text)
            yield text


def tree(folder: Path) -> dict[str, bytes | str | None]:
    """Return what is in a folder, by relative path: contents of files, targets of links, None for folders."""
    found: dict[str, bytes | str | None] = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place) / name
            kept = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else None
            found[str(path.relative_to(folder))] = kept
    return found
