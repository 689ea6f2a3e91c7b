from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.types import DecodingOptions, SamplingOptions
from xuanzang.server.metrics import Metrics

Script = Any
Start = Any
PAIR = {"model": "small", "live": "1", "shadow": "2"}


@pytest.fixture
async def engine(start: Start) -> AsyncIterator[Engine]:
    async with start() as engine:
        await engine.promoter.share("small", 2, canary=None, shadow=1.0)
        yield engine


async def translate(engine: Engine, *texts: str, options: DecodingOptions, version: int = 1) -> list[str]:
    model = engine.models[version - 1]
    answer = await engine.translate(list(texts), model=model, options=options, deadline=None)
    return [hypotheses[0].text for hypotheses in answer]


async def copied(engine: Engine) -> None:
    await asyncio.gather(*engine._shadow._copies)


def results(metrics: Metrics) -> dict[str, float]:
    values = {
        result: metrics.registry.get_sample_value("nmt_shadow_requests_total", {**PAIR, "result": result})
        for result in ("compared", "dropped", "failed")
    }
    return {result: value for result, value in values.items() if value}


def value(metrics: Metrics, name: str) -> float | None:
    return metrics.registry.get_sample_value(f"nmt_shadow_{name}", PAIR)


async def test_a_shadow_that_translates_alike_is_counted_so(
    engine: Engine, metrics: Metrics, options: DecodingOptions
) -> None:
    await translate(engine, "hello world", "a cat", " ", options=options)
    await copied(engine)
    assert results(metrics) == {"compared": 1}
    # White space is copied by any model.
    assert (value(metrics, "texts_total"), value(metrics, "exact_matches_total")) == (2, 2)
    assert (value(metrics, "chrf_sum"), value(metrics, "length_ratio_sum")) == (200, 2)
    gaps = {
        bound: metrics.registry.get_sample_value("nmt_shadow_score_gap_bucket", PAIR | {"le": bound})
        for bound in ("-0.05", "0.0")
    }
    assert gaps == {"-0.05": 0, "0.0": 2}
    # The copy is no request of the shadow.
    labels = {"model": "small", "version": "2"}
    assert metrics.registry.get_sample_value("nmt_request_duration_seconds_count", labels) == 0


async def test_a_shadow_that_translates_worse_diverges(
    engine: Engine, script: Script, metrics: Metrics, options: DecodingOptions
) -> None:
    script.worse_versions = (2,)
    assert await translate(engine, "the weather is fine", options=options) == ["the weather is fine"]
    await copied(engine)
    assert value(metrics, "exact_matches_total") == 0
    assert 0 < (value(metrics, "chrf_sum") or 0) < 50


async def test_what_cannot_be_compared_is_not_copied(
    engine: Engine, metrics: Metrics, options: DecodingOptions
) -> None:
    sampling = SamplingOptions(top_k=1, top_p=1.0, temperature=1.0, seed=1)
    await translate(engine, "a cat", options=replace(options, beam_size=1, sampling=sampling))
    await translate(engine, "a cat", options=replace(options, return_alternatives=True))
    await translate(engine, "a cat", options=options, version=2)
    await translate(engine, *["a cat a dog"] * 400, options=options)
    assert not engine._shadow._copies
    assert results(metrics) == {}


async def test_only_the_share_is_copied(engine: Engine, metrics: Metrics, options: DecodingOptions) -> None:
    await engine.promoter.share("small", 2, canary=None, shadow=0.5)
    draws = iter([0.4, 0.5, 0.6, 0.0])
    engine._shadow._draw = lambda: next(draws)
    for _ in range(4):
        await translate(engine, "a cat", options=options)
        await copied(engine)
    assert results(metrics) == {"compared": 2}


async def test_a_shadow_that_fails_is_seen_by_no_caller_and_logs_no_text(
    engine: Engine, metrics: Metrics, options: DecodingOptions, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: Any, **__: Any) -> Any:
        raise ValueError("secret")

    engine._shadow._translate = fail  # type: ignore[assignment]
    with caplog.at_level(logging.DEBUG):
        assert await translate(engine, "secret", options=options) == ["secret"]
        await copied(engine)
    assert results(metrics) == {"failed": 1}
    lines = [record for record in caplog.records if record.message == "shadow request failed"]
    assert [vars(line)["error"] for line in lines] == ["ValueError"]
    assert "secret" not in caplog.text


async def test_copies_beyond_a_few_are_dropped(
    engine: Engine, script: Script, metrics: Metrics, options: DecodingOptions
) -> None:
    released = asyncio.Event()
    translate_in_background = engine._shadow._translate

    async def wait(*arguments: Any, **named: Any) -> Any:
        await released.wait()
        return await translate_in_background(*arguments, **named)

    engine._shadow._translate = wait  # type: ignore[assignment]
    for _ in range(7):
        # The copies hang, and no caller does.
        await translate(engine, "a cat", options=options)
    released.set()
    await copied(engine)
    assert results(metrics) == {"compared": 4, "dropped": 3}


async def test_a_copy_is_dropped_when_callers_have_to_wait(
    make_engine: Any, engine: Engine, script: Script, metrics: Metrics, options: DecodingOptions
) -> None:
    limit = engine._settings.max_batch_sentences
    await translate(engine, "a cat", options=options)
    script.allow(0)
    await script.until(lambda script: script.blocked)
    # More sentences of callers than a batch has room for.
    calls = [asyncio.create_task(translate(engine, "hello world", options=options)) for _ in range(limit + 1)]
    await copied(engine)
    assert results(metrics) == {"dropped": 1}
    script.allow(math.inf)
    assert await asyncio.gather(*calls) == [["hello world"]] * (limit + 1)


async def test_a_drain_drops_the_copies(
    engine: Engine, script: Script, metrics: Metrics, options: DecodingOptions
) -> None:
    await translate(engine, "a cat", options=options)
    script.allow(0)
    await script.until(lambda script: script.blocked)
    engine.drain()
    await asyncio.gather(*engine._shadow._copies, return_exceptions=True)
    assert results(metrics) == {"dropped": 1}
    script.allow(math.inf)
    assert await engine.join(60)


async def test_the_shadow_has_its_own_defaults_where_the_request_has_none(
    start: Start, add_version: Any, script: Script
) -> None:
    defaults = {"beam_size": 3, "length_penalty": 0.5, "max_length_factor": 2.0, "max_length_offset": 8}
    async with start() as engine:
        add_version(3, generation_defaults=defaults)
        await engine.live.load("small", 3)
        await engine.promoter.share("small", 3, canary=None, shadow=1.0)
        asked: list[DecodingOptions] = []

        async def ask(*_: Any, options: DecodingOptions, **__: Any) -> Any:
            asked.append(options)
            return []

        engine._shadow._translate = ask
        own = engine.models[0].default_options
        for options in (own, replace(own, beam_size=2, num_hypotheses=2, max_target_length=5)):
            await translate(engine, "a cat", options=options)
        await copied(engine)
    assert [(each.beam_size, each.length_penalty, each.num_hypotheses, each.max_target_length) for each in asked] == [
        (3, 0.5, 1, None),
        (2, 0.5, 1, 5),
    ]


async def test_a_shadow_makes_few_steps_while_callers_wait_for_theirs(
    engine: Engine, script: Script, options: DecodingOptions
) -> None:
    text = "the weather is fine the weather"
    shadow = engine.live.catalog.models[1]
    script.allow(0)
    copy = asyncio.create_task(
        engine._shadow._translate([text], model=shadow, options=options, target_language="", caller="shadow")
    )
    await script.until(lambda script: script.blocked)
    script.steps.clear()
    call = asyncio.create_task(translate(engine, text, options=options))
    while not engine._threads.scheduler._queue.count:  # noqa: ASYNC110 - the queue has no event
        await asyncio.sleep(0)
    script.allow(math.inf)
    assert await asyncio.gather(call, copy)
    steps = script.steps
    awaited = steps[steps.index(1) : len(steps) - steps[::-1].index(1)]
    # Its own before and after; in between one in eight rounds, and one as the call joins.
    assert awaited.count(1) > 8
    assert awaited.count(2) <= 1 + awaited.count(1) / 8
