"""An engine with a golden set, whose new versions do not go live by themselves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.settings import EngineSettings, PromotionSettings

GOLDEN = (
    "the weather is fine",
    "a cat, a dog",
    "你好",
    "a dog",
    "a cat",
    "fine weather",
    "hello",
    "hello a cat",
    "dog",
)
"""The echo of each is its reference."""


@pytest.fixture
def golden_sets(tmp_path: Path) -> Path:
    folder = tmp_path / "golden"
    folder.mkdir()
    (folder / "small.tsv").write_text("".join(f"{text}\t{text}\n" for text in GOLDEN), encoding="utf-8")
    return folder


@pytest.fixture
def start(make_engine: Any, golden_sets: Path, add_version: Any) -> Callable[..., Any]:
    """Starts an engine with versions 1 and 2: `async with start(promotion="manual") as engine`."""

    @asynccontextmanager
    async def started(*versions: int, **settings: Any) -> AsyncIterator[Engine]:
        for version in versions or (2,):
            add_version(version)
        promotion = PromotionSettings(**{"promotion": "manual", "golden_sets": golden_sets, **settings})
        engine: Engine = make_engine(EngineSettings(workers=1, max_content_characters=1500), promotion)
        await engine.start()
        yield engine

    return started
