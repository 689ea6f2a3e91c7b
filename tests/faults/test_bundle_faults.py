"""Damaged bundles beside a good one: each is refused with its reason, and the good one is served.

The number of bundles is an option: pytest tests/faults/test_bundle_faults.py --damaged-bundles 1000
"""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
from pathlib import Path

import pytest
from damaged_bundles import damage
from prometheus_client import CollectorRegistry

from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.models.prober import Prober
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.types import DecodingOptions
from xuanzang.server.metrics import Metrics

SETTINGS = EngineSettings(workers=1, provider="cpu")
OPTIONS = DecodingOptions(
    beam_size=2, num_hypotheses=1, length_penalty=1.0, min_target_length=0, max_target_length=None
)
# A safety net only: a bundle takes a fraction of a second.
SECONDS_PER_BUNDLE = 60.0


@pytest.fixture
def repository(tiny_bundle_repository: Path, tmp_path: Path) -> Path:
    """Holds model "tiny", version 1; free to be changed."""
    return Path(shutil.copytree(tiny_bundle_repository, tmp_path / "models"))


async def translated(repository: Path, *, prober: Prober | None) -> tuple[list[int], str]:
    """Start an engine; return the versions that it serves, and the translation of a sentence by the first."""
    engine = Engine(repository, settings=SETTINGS, metrics=Metrics(CollectorRegistry()), prober=prober)
    try:
        await engine.start()
        [[hypothesis]] = await engine.translate(["我有一只猫。"], model=engine.models[0], options=OPTIONS, deadline=None)
        return [model.version for model in engine.models], hypothesis.text
    finally:
        await engine.join(5)


def refused(caplog: pytest.LogCaptureFixture) -> dict[int, str]:
    """Return the logged reasons by version."""
    records = [record.__dict__ for record in caplog.records if record.message == "bundle refused"]
    return {int(Path(record["bundle"]).name): "\n".join(record["reasons"]) for record in records}


@pytest.mark.parametrize("probed", [True, False], ids=["probed", "not probed"])
async def test_every_damaged_bundle_is_refused_and_the_good_one_served(
    repository: Path, caplog: pytest.LogCaptureFixture, pytestconfig: pytest.Config, probed: bool
) -> None:
    count: int = pytestconfig.getoption("--damaged-bundles")
    original = repository / "tiny" / "1"
    alone = await translated(repository, prober=None)
    damages = {
        version: damage(original, repository / "tiny" / str(version), number)
        for number, version in enumerate(range(2, count + 2))
    }
    prober = Prober(SETTINGS, max_seconds_per_bundle=SECONDS_PER_BUNDLE) if probed else None
    with caplog.at_level(logging.ERROR):
        served = await asyncio.wait_for(translated(repository, prober=prober), count * SECONDS_PER_BUNDLE)
    assert served == alone
    found = refused(caplog)
    wrong = {
        version: (kind, words, found.get(version, "served"))
        for version, (kind, words) in damages.items()
        if not re.search(words, found.get(version, ""))
    }
    assert not wrong
