from __future__ import annotations

import asyncio
from typing import Any

import pytest

from xuanzang.server.engine.calls.record import Call
from xuanzang.server.engine.errors import DrainingError, ModelNotFoundError, UnservedLanguageError
from xuanzang.server.engine.hardware import memory_limit
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.metrics import TIERS, UNSERVED_TEXTS, Metrics

SETTINGS = EngineSettings(workers=2)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"nmt_{name}", labels)


def answered(metrics: Metrics, length: str) -> float | None:
    return value(metrics, "answer_duration_seconds_count", model="small", version="1", length=length)


async def test_a_started_engine_shows_its_workers_memory_and_bundles(make_engine: Any, metrics: Metrics) -> None:
    await make_engine(SETTINGS).start()
    assert value(metrics, "workers") == 2
    assert value(metrics, "workers_stopped") == 0
    assert value(metrics, "bundles_refused") == 0
    assert {value(metrics, name, tier=tier) for name in ("held_places", "waiting_places") for tier in TIERS} == {0}
    assert value(metrics, "memory_limit_bytes") == memory_limit()


async def test_workers_that_errors_have_ended_are_counted_and_nobody_waits_for_them(
    make_engine: Any, metrics: Metrics, options: Any, monkeypatch: pytest.MonkeyPatch, script: Any
) -> None:
    engine = make_engine(SETTINGS)
    await engine.start()

    def fail(*args: object, **named: object) -> None:
        raise ArithmeticError("a fault of the scheduler")

    monkeypatch.setattr(engine._threads.scheduler, "leave", fail)
    calls = [engine.translate(Call(texts=("hello",), model=engine.models[0], options=options)) for _ in range(20)]
    waiting = asyncio.gather(*calls, return_exceptions=True)
    await engine.broken.wait()
    # As the server does then.
    await engine.join(60)
    assert all(isinstance(outcome, list | ArithmeticError | DrainingError) for outcome in await waiting)
    assert value(metrics, "workers_stopped") == 2


@pytest.mark.parametrize(
    ("sentences", "length"), [(0, "short"), (1, "short"), (10, "medium"), (30, "long"), (200, "document")]
)
async def test_an_answer_is_timed_with_those_of_its_length(
    make_engine: Any, metrics: Metrics, options: Any, sentences: int, length: str
) -> None:
    engine = make_engine(SETTINGS)
    await engine.start()
    await engine.translate(Call(texts=("hello",) * sentences, model=engine.models[0], options=options))
    tokens = metrics.registry.get_sample_value("nmt_request_source_tokens_sum", {"model": "small", "version": "1"})
    assert {each: answered(metrics, each) for each in ("short", "medium", "long", "document")} == {
        "short": 0,
        "medium": 0,
        "long": 0,
        "document": 0,
        length: 1,
    }, tokens


async def test_a_request_that_fails_is_not_timed_among_the_answers(
    make_engine: Any, metrics: Metrics, options: Any
) -> None:
    engine = make_engine(SETTINGS)
    await engine.start()
    with pytest.raises(Exception, match="deadline"):
        await engine.translate(Call(texts=("hello",), model=engine.models[0], options=options), deadline=0.0)
    assert answered(metrics, "short") == 0


async def test_texts_in_unserved_languages_are_counted_by_what_became_of_them(
    make_engine: Any, metrics: Metrics
) -> None:
    engine = make_engine(SETTINGS)
    await engine.start()
    assert {value(metrics, "unserved_texts_total", outcome=each) for each in UNSERVED_TEXTS} == {0}
    german, chinese = "Das Wetter ist heute sehr schön.", "我有三只猫，今天天气很好。"

    async def route(*texts: str, target_language: str = "", **asked: Any) -> None:
        await engine.router.route(model="", source_language="", target_language=target_language, texts=texts, **asked)

    with pytest.raises(UnservedLanguageError):
        await route(german, chinese, german)
    await route(chinese, pass_through_unserved=True)
    await route(german, chinese, pass_through_unserved=True)
    # Refused for another reason, it is not given back.
    with pytest.raises(ModelNotFoundError):
        await route(german, target_language="xx", pass_through_unserved=True)
    counted = [value(metrics, "unserved_texts_total", outcome=each) for each in UNSERVED_TEXTS]
    assert counted == [2, 1]
