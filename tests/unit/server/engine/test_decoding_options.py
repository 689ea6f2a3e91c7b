"""What callers can ask of a translation, over real graphs."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from xuanzang.server.engine.calls.record import Call
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.errors import DeadlineExceededError, OverloadedError
from xuanzang.server.engine.settings import EngineSettings, Provider
from xuanzang.server.engine.types import Hypothesis, SamplingOptions
from xuanzang.server.metrics import Metrics

SOURCE = "他明天去北京看他的朋友"
SAMPLING = SamplingOptions(top_k=10, top_p=0.95, temperature=1.5, seed=11)


@pytest.fixture
async def engine(tiny_bundle_repository: Path, metrics: Metrics, provider: Provider) -> AsyncIterator[Engine]:
    engine = Engine(tiny_bundle_repository, settings=EngineSettings(provider=provider, workers=1), metrics=metrics)
    await engine.start()
    yield engine
    await engine.join(0)


async def translate(engine: Engine, text: str, *, deadline: float | None = None, **changes: Any) -> list[Hypothesis]:
    model = engine.models[0]
    options = dataclasses.replace(model.default_options, **changes)
    [hypotheses] = await engine.translate(Call(texts=(text,), model=model, options=options), deadline=deadline)
    return hypotheses


async def test_a_long_text_is_prepared_in_a_thread_and_translated_all_the_same(engine: Engine) -> None:
    [long] = await translate(engine, (SOURCE + "。") * 30)
    [short] = await translate(engine, SOURCE + "。")
    assert long.text == " ".join([short.text] * 30)


MIX: tuple[dict[str, Any], ...] = (
    {},
    {"beam_size": 1, "partial_on_deadline": True},
    {"num_hypotheses": 3, "return_alternatives": True, "token_details": True},
    {"beam_size": 1, "num_hypotheses": 2, "sampling": SAMPLING},
    {"coverage_penalty": 0.5, "repetition_penalty": 1.2, "partial_on_deadline": True},
)


async def test_nothing_stays_behind_of_a_mix_of_requests_many_of_which_are_given_up(
    tiny_bundle_repository: Path, metrics: Metrics, provider: Provider
) -> None:
    settings = EngineSettings(provider=provider, workers=2, max_batch_sentences=4)
    engine = Engine(tiny_bundle_repository, settings=settings, metrics=metrics)
    await engine.start()
    model, chance = engine.models[0], random.Random(5)

    async def call(number: int) -> object:
        options = MIX[number % len(MIX)]
        if number % 7 == 0:
            resolved = dataclasses.replace(model.default_options, **options)
            parts = engine.translate_progressively(Call(texts=(SOURCE,), model=model, options=resolved))
            return [part async for part in parts]
        seconds = chance.choice([60, 60, 0.02, 0.1])
        task = asyncio.ensure_future(translate(engine, SOURCE, deadline=time.monotonic() + seconds, **options))
        if number % 5 == 0:
            for _ in range(chance.randint(1, 40)):
                await asyncio.sleep(0)
            task.cancel()
        return await task

    outcomes = await asyncio.gather(*(call(number) for number in range(60)), return_exceptions=True)
    faults = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert {type(fault) for fault in faults} <= {DeadlineExceededError, OverloadedError, asyncio.CancelledError}
    assert len(faults) < 60
    assert await engine.join(60)
    labels = {"model": model.name, "version": "1"}
    for gauge in ("requests_running", "requests_waiting", "queue_tokens"):
        assert metrics.registry.get_sample_value(f"nmt_{gauge}", labels) == 0


async def test_alternatives_of_many_callers_are_answered_though_the_queue_is_small(
    tiny_bundle_repository: Path, metrics: Metrics, provider: Provider
) -> None:
    settings = EngineSettings(provider=provider, workers=2, max_batch_sentences=2, max_queue_tokens=20_000)
    engine = Engine(tiny_bundle_repository, settings=settings, metrics=metrics)
    await engine.start()
    answers = await asyncio.gather(
        *(translate(engine, SOURCE, num_hypotheses=3, return_alternatives=True) for _ in range(6))
    )
    assert all(answer == answers[0] for answer in answers)
    assert await engine.join(60)
