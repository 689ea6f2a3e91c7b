"""How many explanations are made at once, and what is left of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from xuanzang.server.engine.calls.record import Call
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.errors import OverloadedError
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.engine.types import DecodingOptions
from xuanzang.server.explanation.explainer import AttentionChoice, Explainer
from xuanzang.server.explanation.limits import ExplanationLimits
from xuanzang.server.metrics import Metrics

LABELS = {"model": "small", "version": "1"}


@pytest.fixture
async def engine(make_engine: Callable[..., Engine]) -> Engine:
    engine = make_engine(EngineSettings(workers=1))
    await engine.start()
    return engine


def explain(engine: Engine, explainer: Explainer, options: DecodingOptions) -> Any:
    return explainer.explain(Call(texts=("a b",), model=engine.models[0], options=options), AttentionChoice())


def counted(metrics: Metrics, outcome: str) -> float | None:
    return metrics.registry.get_sample_value("nmt_explanations_total", LABELS | {"outcome": outcome})


async def test_no_more_are_made_at_once_than_the_limit(
    engine: Engine, script: Any, options: DecodingOptions, metrics: Metrics
) -> None:
    explainer = Explainer(engine, ExplanationLimits(max_explanations=2))
    script.allow(0)
    running = [asyncio.create_task(explain(engine, explainer, options)) for _ in range(2)]
    await script.until(lambda script: script.blocked)
    with pytest.raises(OverloadedError, match="2 translations are being explained") as raised:
        await explain(engine, explainer, options)
    assert raised.value.retry_after_seconds > 0
    assert counted(metrics, "refused") == 1
    # Those who translate are not refused.
    translating = asyncio.create_task(engine.translate(Call(texts=("a",), model=engine.models[0], options=options)))
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    script.allow(1000)
    assert await translating
    assert counted(metrics, "failed") == 2
    # The places are free again.
    script.allow(0)
    again = asyncio.create_task(explain(engine, explainer, options))
    await script.until(lambda script: script.blocked)
    again.cancel()
    await asyncio.gather(again, return_exceptions=True)
    assert counted(metrics, "refused") == 1
