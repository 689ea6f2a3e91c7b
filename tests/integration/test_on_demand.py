"""Models that a server loads by their first requests."""

from __future__ import annotations

import asyncio
import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from xuanzang.client import AsyncTranslationClient, ServerUnavailableError

NAMES = ("first", "second", "third")


@pytest.fixture
def room_for_two(tiny_bundle_repository: Path) -> str:
    """Return a value of --model-memory that holds two models, and not three."""
    files = sum(path.stat().st_size for path in (tiny_bundle_repository / "tiny" / "1").iterdir())
    return f"{math.ceil(2.5 * (files / 1e6 + 4))}MB"


@pytest.fixture
def repository(tiny_bundle_repository: Path, tmp_path: Path) -> Path:
    """Return a folder with three models, which share the files of one."""
    root = tmp_path / "models"
    for name in NAMES:
        folder = Path(shutil.copytree(tiny_bundle_repository / "tiny" / "1", root / name / "1", copy_function=os.link))
        manifest = folder / "manifest.json"
        content = json.loads(manifest.read_text()) | {"model": name}
        manifest.unlink()
        manifest.write_text(json.dumps(content))
    return root


async def residencies(client: AsyncTranslationClient) -> dict[str, str]:
    return {model.name: model.residency for model in await client.list_models()}


async def test_a_server_loads_models_by_their_first_requests(
    start_server: Any, repository: Path, room_for_two: str
) -> None:
    async with (
        start_server(models=repository, model_memory=room_for_two) as running,
        AsyncTranslationClient(running.address) as client,
    ):
        assert await residencies(client) == dict.fromkeys(NAMES, "on_demand")
        together = [client.translate_one("hello", model="first") for _ in range(5)]
        assert len({translation.text for translation in await asyncio.gather(*together)}) == 1
        assert await residencies(client) == {"first": "loaded", "second": "on_demand", "third": "on_demand"}
        for name in ("second", "third", "first"):
            await client.translate_one("hello", model=name)
        assert sorted((await residencies(client)).values()) == ["loaded", "loaded", "on_demand"]
        assert [model.is_default for model in await client.list_models()] == [True] * 3


async def test_only_the_callers_of_a_broken_model_have_an_error(
    start_server: Any, repository: Path, room_for_two: str
) -> None:
    async with (
        start_server(models=repository, model_memory=room_for_two) as running,
        AsyncTranslationClient(running.address, timeout=2) as client,
    ):
        (repository / "second" / "1" / "weights.bin").unlink()
        with pytest.raises(ServerUnavailableError, match=r"second/1 cannot be loaded"):
            await client.translate_one("hello", model="second")
        assert (await client.translate_one("hello", model="third")).text
        os.link(repository / "first" / "1" / "weights.bin", repository / "second" / "1" / "weights.bin")
        assert (await client.translate_one("hello", model="second", timeout=20)).text
