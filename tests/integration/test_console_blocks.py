"""The console blocks of README, CONTRIBUTING and the tutorials, run as a reader would type them."""

from __future__ import annotations

from pathlib import Path

import pytest
from console_blocks import ROOT, BlockError, run

# The Chinese page has the commands of the English one, and test_tutorials.py runs the website's.
FAST = [
    pytest.param(ROOT / "README.md", marks=pytest.mark.slow),
    pytest.param(ROOT / "CONTRIBUTING.md", marks=pytest.mark.slow),
    ROOT / "docs" / "tutorials" / "tables.md",
]


@pytest.mark.parametrize("page", FAST, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_fast_block_of_a_page_runs_and_prints_what_it_says(page: Path) -> None:
    assert run(page) >= 3


def test_a_page_that_is_not_true_is_named_with_its_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```console\n$ echo one\ntwo\n```\n", encoding="utf-8")
    with pytest.raises(BlockError, match=r"^page\.md:3: ") as raised:
        run(page)
    assert "printed\none\n\nand not\ntwo" in str(raised.value)
