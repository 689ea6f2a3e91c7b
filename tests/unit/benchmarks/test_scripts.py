"""What is said of the benchmarks, in their own first lines and in documents, is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "benchmarks"


def commands() -> dict[str, str]:
    """Return the first lines of scripts that people run, by the name of the module; others are processes of these."""
    lines = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): ast.get_docstring(ast.parse(path.read_text("utf-8")))
        for path in FOLDER.rglob("*.py")
        if path.name != "__init__.py"
    }
    return {name: text for name, text in lines.items() if text and "\n    python -m " in text}


def test_every_script_says_how_it_is_run_and_what_it_prints() -> None:
    assert len(commands()) >= 20
    for name, text in commands().items():
        assert set(re.findall(r"^    python -m (\S+)", text, re.MULTILINE)) == {name}
        assert re.search(r"\b[Pp]rint(s|ed)?\b", text), name


def test_the_readme_lists_every_script() -> None:
    table = (FOLDER / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [name for name in commands() if f"`python -m {name}" not in table and f"-m {name}" not in makefile] == []


def test_documents_name_only_benchmarks_that_are_there() -> None:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), FOLDER / "README.md", ROOT / "Makefile"]
    named = {
        module
        for document in documents
        for module in re.findall(r"-m\s+(benchmarks[.\w]+)", document.read_text(encoding="utf-8"))
    }
    assert named
    assert {name for name in named if not (ROOT / f"{name.replace('.', '/')}.py").is_file()} == set()
