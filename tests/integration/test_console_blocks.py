"""The console blocks of README, CONTRIBUTING and the tutorials, run as a reader would type them."""

from __future__ import annotations

from pathlib import Path

import pytest
from console_blocks import PAGES, ROOT, BlockError, blocks_of, run

# The Chinese page has the commands of the English one, and test_tutorials.py runs the website's.
FAST = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "docs" / "tutorials" / "tables.md"]


@pytest.mark.parametrize("page", FAST, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_fast_block_of_a_page_runs_and_prints_what_it_says(page: Path) -> None:
    assert run(page) >= 3


def test_a_block_that_is_not_run_says_why() -> None:
    blocks = [block for page in PAGES for block in blocks_of(page.read_text(encoding="utf-8"))]
    assert [block for block in blocks if block.speed == "not run" and len(block.reason) < 10] == []
    assert {block.speed for block in blocks} == {"fast", "slow", "not run"}


def test_commands_end_where_their_output_begins() -> None:
    text = "```console\n$ a \\\n    b\none\n…\n$ cat <<'END'\nno command\nEND\ntwo\n```\n"
    [block] = blocks_of(text)
    assert [(each.text, each.output) for each in block.commands] == [
        ("a \\\n    b", ("one",)),
        ("cat <<'END'\nno command\nEND", ("two",)),
    ]


@pytest.mark.parametrize(
    ("commands", "message"),
    [
        ("$ echo one\ntwo", "printed\none\n\nand not\ntwo"),
        ("$ true\n$ xuanzang translat one", "status 2: xuanzang translat one"),
        ("$ make nothing-of-this-name", "status 2: make nothing-of-this-name"),
    ],
)
def test_a_page_that_is_not_true_is_named_with_its_line(tmp_path: Path, commands: str, message: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n```console\n{commands}\n```\n", encoding="utf-8")
    with pytest.raises(BlockError) as raised:
        run(page)
    assert str(raised.value).startswith("page.md:3: ")
    assert message in str(raised.value)
