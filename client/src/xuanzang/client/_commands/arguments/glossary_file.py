"""Files of terms and their translations."""

from __future__ import annotations

from pathlib import Path


def read_glossary(file: Path) -> dict[str, list[str]]:
    """Read a file of terms, as the server reads those of its own.

    Args:
        file: Lines of a term, a tab, and its translations with tabs between them; empty lines, and those that begin
            with "#", are left out.

    Returns:
        Translations by term.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not UTF-8, or a line has no translation.
    """
    entries: dict[str, list[str]] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8-sig").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        term, *translations = (part.strip() for part in line.split("\t"))
        if not term or not all(translations) or not translations:
            raise ValueError(f"{file}, line {number}: must be a term, a tab and a translation")
        entries[term] = translations
    return entries
