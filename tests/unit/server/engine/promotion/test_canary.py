from __future__ import annotations

import math
import random
from typing import Any

import pytest

from xuanzang.server.access.callers import KeyCaller
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.errors import ModelNotFoundError, ModelStateError
from xuanzang.server.engine.types import TextKind

Start = Any


def answered_by(engine: Engine, model: str = "small", source_language: str = "") -> int:
    return engine.router.resolve(model=model, source_language=source_language, target_language="").model.version


def seed(engine: Engine) -> None:
    engine.router._canary._draw = random.Random(1).random


@pytest.mark.parametrize("weight", [0.05, 0.5, 0.9, 1.0])
async def test_a_canary_answers_its_share_of_the_requests_that_name_no_version(start: Start, weight: float) -> None:
    async with start() as engine:
        seed(engine)
        await engine.promoter.share("small", 2, canary=weight, shadow=None)
        count = 4000
        canaries = sum(answered_by(engine) == 2 for _ in range(count))
        # Four standard deviations of a binomial.
        assert abs(canaries - count * weight) <= 4 * math.sqrt(count * weight * (1 - weight))
        assert {answered_by(engine, "small/1") for _ in range(100)} == {1}


async def test_a_canary_ends_with_its_share_its_version_or_a_promotion(start: Start, metrics: Any) -> None:
    def gauge(version: str, role: str) -> float | None:
        labels = {"model": "small", "version": version, "role": role}
        return metrics.registry.get_sample_value("nmt_traffic_share", labels)  # type: ignore[no-any-return]

    async with start(2, 3) as engine:
        await engine.promoter.share("small", 2, canary=0.25, shadow=0.5)
        assert (gauge("1", "live"), gauge("2", "canary"), gauge("2", "shadow")) == (0.75, 0.25, 0.5)
        # The share of another version takes its place, and the end of one that is none ends nothing.
        await engine.promoter.share("small", 3, canary=1.0, shadow=0.0)
        assert (gauge("2", "canary"), gauge("3", "canary"), gauge("2", "shadow")) == (0, 1, 0.5)
        assert answered_by(engine) == 3
        await engine.promoter.share("small", 3, canary=0.0, shadow=None)
        assert (gauge("1", "live"), answered_by(engine)) == (1, 1)
        await engine.promoter.share("small", 3, canary=1.0, shadow=None)
        await engine.live.unload("small", 3)
        assert answered_by(engine) == 1
        await engine.promoter.share("small", 2, canary=1.0, shadow=None)
        await engine.promoter.promote("small", 2)
        assert (gauge("2", "live"), gauge("2", "canary"), gauge("1", "live")) == (1, 0, 0)
        status = await engine.live.status("small", 1)
        assert (status.is_previous, status.canary_weight, status.shadow_share) == (True, 0, 0)


async def test_a_canary_whose_bundle_is_replaced_has_no_share(
    start: Start, repository: Any, edit_manifest: Any
) -> None:
    async with start() as engine:
        await engine.promoter.share("small", 2, canary=1.0, shadow=1.0)
        edit_manifest(repository / "small" / "2", lambda manifest: manifest["generation_defaults"].update(beam_size=3))
        status = await engine.live.load("small", 2)
        assert (status.canary_weight, status.shadow_share, answered_by(engine)) == (0, 0, 1)


async def test_a_canary_answers_only_in_languages_that_it_has(start: Start, add_version: Any) -> None:
    async with start() as engine:
        add_version(3, source_language_codes=["en"])
        await engine.live.load("small", 3)
        await engine.promoter.share("small", 3, canary=1.0, shadow=None)
        assert answered_by(engine, source_language="zh") == 1
        assert answered_by(engine) == 3


async def test_a_key_that_does_not_allow_the_canary_has_the_live_version(start: Start, metrics: Any) -> None:
    async with start() as engine:
        await engine.promoter.share("small", 2, canary=1.0, shadow=None)
        for models, version in ((("small",), 2), (("small/1",), 1), (("small/2",), 2)):
            caller = KeyCaller.__new__(KeyCaller)
            caller._models = frozenset(models)
            route = await caller.limited(engine.router.route)(
                model="", source_language="", target_language="", texts=["我有一只猫。"]
            )
            assert route.model.version == version
            assert [each.kind for each in route.readings] == [TextKind.SERVED]


async def test_only_a_loaded_version_that_is_not_live_may_have_a_share(start: Start) -> None:
    async with start() as engine:
        with pytest.raises(ModelStateError, match="small/1 is live already"):
            await engine.promoter.share("small", 1, canary=0.5, shadow=None)
        with pytest.raises(ModelNotFoundError, match="small/3 is not loaded"):
            await engine.promoter.share("small", 3, canary=0.5, shadow=None)
