"""The Python of the tutorial on tables, run as it stands against a server with the tiny model."""

from __future__ import annotations

import asyncio
import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from xuanzang.client import TranslationClient

if TYPE_CHECKING:
    from tests.integration.conftest import RunningServer

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "tables.md"


def run_tutorial(library: str, address: str) -> Any:
    """Run the function of the tutorial, then the block of a library, and return the table."""
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"NOT TESTED: the recipe for {library}: pip install {library}")
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    for block in blocks:
        if f"import {library}" in block or "def translated" in block:
            exec(block.replace("localhost:50051", address), names)
    return names["frame"]


def translated(address: str, text: str) -> str:
    with TranslationClient(address) as client:
        return client.translate_one(text, target_language="en").text


@pytest.mark.parametrize("library", ["pandas", "polars"])
async def test_a_column_is_translated_row_by_row(running: RunningServer, library: str) -> None:
    before = await running.scrape()
    frame = await asyncio.to_thread(run_tutorial, library, running.address)
    rows = list(zip(frame["question"], frame["question_en"], strict=True))
    expected = {
        text: await asyncio.to_thread(translated, running.address, text) for text in {text for text, _ in rows if text}
    }
    assert len(set(expected.values())) == 2
    assert rows == [(text, expected.get(text)) for text, _ in rows]
    # Equal values are asked for once: two by the recipe, two here.
    metrics = (await running.scrape()).since(before)
    assert metrics.value("nmt_sentences_total") == 4
