"""Benchmarks that documents name are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "benchmarks"


def test_documents_name_only_benchmarks_that_are_there() -> None:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), FOLDER / "README.md", ROOT / "Makefile"]
    named = {
        module
        for document in documents
        for module in re.findall(r"-m\s+(benchmarks[.\w]+)", document.read_text(encoding="utf-8"))
    }
    assert named
    assert {name for name in named if not (ROOT / f"{name.replace('.', '/')}.py").is_file()} == set()
