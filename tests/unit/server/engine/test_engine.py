from __future__ import annotations

import asyncio
import dataclasses
import math
import random
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine.calls import call, preparation
from xuanzang.server.engine.calls.record import Call
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.errors import (
    DeadlineExceededError,
    DrainingError,
    InvalidInputError,
    ModelNotFoundError,
    OverloadedError,
    UnservedLanguageError,
)
from xuanzang.server.engine.hardware import memory_limit
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling import worker
from xuanzang.server.engine.settings import EngineSettings, Provider
from xuanzang.server.engine.types import CallerId, DecodingOptions, FinishReason, Hypothesis, SamplingOptions
from xuanzang.server.metrics import TIERS, UNSERVED_TEXTS, Metrics

Script = Any
MakeEngine = Callable[[EngineSettings], Engine]
Translate = Callable[..., Awaitable[list[list[Hypothesis]]]]
LABELS = {"model": "small", "version": "1"}
SETTINGS = EngineSettings(workers=1)


@pytest.fixture
def translate(engine: Engine, options: DecodingOptions) -> Translate:
    def translate(*texts: str, deadline: float | None = None, **changes: Any) -> Awaitable[list[list[Hypothesis]]]:
        changed = dataclasses.replace(options, **changes)
        return engine.translate(Call(texts=tuple(texts), model=engine.models[0], options=changed), deadline=deadline)

    return translate


def value(metrics: Metrics, name: str, **labels: str) -> float:
    found = metrics.registry.get_sample_value(f"nmt_{name}", LABELS | labels)
    assert found is not None, name
    return found


async def until_waiting(metrics: Metrics, requests: int) -> None:
    while value(metrics, "requests_waiting") < requests:  # noqa: ASYNC110 - a gauge has no event
        await asyncio.sleep(0)


async def test_texts_are_answered_in_their_order_with_their_white_space_kept(translate: Translate) -> None:
    answer = await translate("hello world", "  我有一只猫。你好,世界!\n\n a cat ", "")
    assert [hypotheses[0].text for hypotheses in answer] == ["hello world", "  我有一只猫。 你好,世界!\n\n a cat ", ""]


@pytest.mark.parametrize(("seconds", "shrinks"), [(0.0, True), (math.inf, False)])
async def test_a_worker_that_never_rests_frees_memory_from_time_to_time(
    translate: Translate, script: Script, monkeypatch: pytest.MonkeyPatch, seconds: float, shrinks: bool
) -> None:
    monkeypatch.setattr(worker, "_TRIM_SECONDS", seconds)
    assert (await translate("hello world"))[0][0].text == "hello world"
    assert (script.shrunk > 0) == shrinks


async def test_a_text_of_sentences_has_their_tokens_and_the_first_unusual_finish_reason(translate: Translate) -> None:
    [[short]] = await translate("你好，世界！")
    [[long]] = await translate("你好，世界！我有一只猫。")
    [[cut]] = await translate("你好，世界！我有一只猫。", max_target_length=2)
    assert short.finish_reason is long.finish_reason is FinishReason.END_OF_SENTENCE
    assert long.token_count > short.token_count
    assert (cut.token_count, cut.finish_reason) == (4, FinishReason.MAX_LENGTH)
    assert long.score == pytest.approx(-1.0)


async def test_all_texts_over_a_limit_are_named_with_limit_and_length(make_engine: MakeEngine, options: Any) -> None:
    engine = make_engine(SETTINGS.model_copy(update={"max_content_characters": 200}))
    await engine.start()
    texts = ["hello", "a" * 201, "x" * 150, "ok", "y" * 149]
    refusing = dataclasses.replace(options, refuse_long_sentences=True)
    with pytest.raises(InvalidInputError) as refusal:
        await engine.translate(Call(texts=tuple(texts), model=engine.models[0], options=refusing))
    first, second, third = refusal.value.violations
    assert (first.field, first.description) == ("contents[1]", "must have at most 200 characters, has 201")
    assert second.field == "contents[2]"
    assert "at most 24 source tokens" in second.description
    assert third.field == "contents[4]"


async def test_a_deadline_ends_a_sentence_in_the_queue(translate: Translate, script: Script, metrics: Metrics) -> None:
    script.allow(0)
    running = asyncio.ensure_future(translate("hello world"))
    await script.until(lambda script: script.blocked)
    with pytest.raises(DeadlineExceededError, match="waited in the queue"):
        await translate("a cat", deadline=time.monotonic() + 2)
    assert value(metrics, "queue_tokens") == 0
    script.allow(math.inf)
    assert (await running)[0][0].text == "hello world"
    assert len(script.batches) == 1
    assert value(metrics, "request_failures_total", reason="queue_timeout") == 1
    assert value(metrics, "requests_waiting") == value(metrics, "requests_running") == 0


async def test_a_deadline_ends_a_running_sentence(translate: Translate, script: Script, metrics: Metrics) -> None:
    script.allow(0)
    with pytest.raises(DeadlineExceededError, match="was being translated"):
        await translate("hello world", deadline=time.monotonic() + 2)
    script.allow(math.inf)
    await translate("a cat")  # the worker is back, so it has discarded
    assert len(script.discarded) == 1
    assert value(metrics, "wasted_decode_tokens_total") == 1  # the step that was under way
    assert value(metrics, "rows_retired_total", reason="deadline") == 1
    assert value(metrics, "request_failures_total", reason="deadline") == 1


async def test_faults_reach_all_and_the_worker_goes_on(translate: Translate, script: Script, metrics: Metrics) -> None:
    script.fault = ArithmeticError("broken")
    outcomes = await asyncio.gather(translate("hello", "a cat"), translate("a dog"), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ArithmeticError] * 2
    assert value(metrics, "request_failures_total", reason="backend") == 2
    script.fault = None
    assert (await translate("hello"))[0][0].text == "hello"


async def test_faults_are_told_under_load(
    make_engine: MakeEngine, script: Script, options: Any, metrics: Metrics
) -> None:
    engine = make_engine(SETTINGS.model_copy(update={"max_queue_tokens": 80, "max_batch_sentences": 1}))
    await engine.start()
    script.allow(0)

    def translate(text: str) -> asyncio.Task[list[list[Hypothesis]]]:
        call = Call(texts=(text,), model=engine.models[0], options=options)
        return asyncio.ensure_future(engine.translate(call))

    running = translate("hello world")
    await script.until(lambda script: script.blocked)
    waiting = translate("hello world")
    await until_waiting(metrics, 1)
    with pytest.raises(OverloadedError):
        await translate("hello world")
    with pytest.raises(InvalidInputError, match="must have at most 20000 characters"):
        await translate("a" * 20_001)
    # One that only tokenising finds.
    two_best = dataclasses.replace(options, beam_size=2, num_hypotheses=2)
    several = Call(texts=("hello\n" * 16,), model=engine.models[0], options=two_best)
    with pytest.raises(InvalidInputError, match="only for texts of a single sentence"):
        await engine.translate(several)
    script.allow(math.inf)
    await asyncio.gather(running, waiting)


async def test_every_request_of_a_storm_is_answered(make_engine: MakeEngine, options: Any, metrics: Metrics) -> None:
    engine = make_engine(EngineSettings(workers=3, max_batch_sentences=4))
    await engine.start()
    random_source = random.Random(7)
    words = ["hello", "world", "a cat", "the weather is fine", "我有一只猫。你好！"]

    async def call(number: int) -> bool:
        texts = random_source.choices(words, k=random_source.randint(1, 6))
        started = time.monotonic()
        deadline = started + random_source.choice([60, 60, 0.0005, 0.01])
        task = asyncio.ensure_future(
            engine.translate(Call(texts=tuple(texts), model=engine.models[0], options=options), deadline=deadline)
        )
        if number % 5 == 0:
            for _ in range(random_source.randint(1, 20)):
                await asyncio.sleep(0)
            task.cancel()
        try:
            answer = await task
        except (DeadlineExceededError, asyncio.CancelledError):
            return False
        except OverloadedError:
            if deadline > started + 1:
                raise
            return False  # its turn would have come after its deadline
        expected = [text.replace("。你", "。 你").replace("！", "!") for text in texts]
        assert [hypotheses[0].text for hypotheses in answer] == expected
        return True

    answered = await asyncio.gather(*(call(number) for number in range(300)))
    assert 0 < sum(answered) < 300
    assert await engine.join(60)
    for gauge in ("requests_waiting", "requests_running", "queue_tokens"):
        assert value(metrics, gauge) == 0
    ended = [
        value(metrics, "requests_total", finish_reason=reason) for reason in ("eos", "deadline", "cancelled", "error")
    ]
    assert sum(ended) == 300
    assert ended[0] == sum(answered)


async def test_long_texts_leave_others_a_thread(engine: Engine, options: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, begun, prepare = threading.Event(), [], preparation.prepare
    given_up = []

    def counted(asked: Call, context: Any, *others: Any, **named: Any) -> Any:
        begun.append(context.caller.share)
        if context.caller.share == "many":
            given_up.append(not go_on.wait(timeout=120))
        return prepare(asked, context, *others, **named)

    monkeypatch.setattr(call, "prepare", counted)
    text = " ".join(["hello"] * 100)

    def translate(caller: str) -> asyncio.Task[list[list[Hypothesis]]]:
        translating = engine.translate(
            Call(texts=(text,), model=engine.models[0], options=options), caller=CallerId(caller)
        )
        return asyncio.ensure_future(translating)

    many = [translate("many") for _ in range(4)]
    await asyncio.sleep(0)
    assert await translate("one")
    assert begun == ["many", "one"]
    go_on.set()
    assert await asyncio.gather(*many)
    assert not any(given_up)


async def test_an_error_of_the_only_bundle_ends_it(make_engine: MakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError("no room")

    engine = make_engine(SETTINGS)
    monkeypatch.setattr(LoadedModel, "__init__", fail)
    with pytest.raises(BundleError, match=r"cannot be loaded: MemoryError in the opening .*: no room"):
        await engine.start()
    assert engine.models == ()


def shown(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"nmt_{name}", labels)


async def test_a_started_engine_shows_its_workers_memory_and_bundles(engine: Engine, metrics: Metrics) -> None:
    assert [shown(metrics, name) for name in ("workers", "workers_stopped", "bundles_refused")] == [1, 0, 0]
    assert {shown(metrics, name, tier=tier) for name in ("held_places", "waiting_places") for tier in TIERS} == {0}
    assert shown(metrics, "memory_limit_bytes") == memory_limit()


async def test_workers_that_errors_have_ended_are_counted_and_nobody_waits_for_them(
    make_engine: Any, metrics: Metrics, options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(EngineSettings(workers=2))
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
    assert shown(metrics, "workers_stopped") == 2


LENGTHS = ("short", "medium", "long", "document")


@pytest.mark.parametrize(
    ("sentences", "length"), [(0, "short"), (1, "short"), (10, "medium"), (30, "long"), (200, "document")]
)
async def test_answers_are_timed_by_length_and_failures_not(
    translate: Translate, metrics: Metrics, sentences: int, length: str
) -> None:
    with pytest.raises(DeadlineExceededError):
        await translate("hello", deadline=0.0)
    await translate(*["hello"] * sentences)
    found = {each: value(metrics, "answer_duration_seconds_count", length=each) for each in LENGTHS}
    assert found == dict.fromkeys(LENGTHS, 0) | {length: 1}


async def test_texts_in_unserved_languages_are_counted_by_their_fate(engine: Engine, metrics: Metrics) -> None:
    assert {shown(metrics, "unserved_texts_total", outcome=each) for each in UNSERVED_TEXTS} == {0}
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
    assert [shown(metrics, "unserved_texts_total", outcome=each) for each in UNSERVED_TEXTS] == [2, 1]


SOURCE = "他明天去北京看他的朋友"
SAMPLING = SamplingOptions(top_k=10, top_p=0.95, temperature=1.5, seed=11)


async def translated(engine: Engine, text: str, *, deadline: float | None = None, **changes: Any) -> list[Hypothesis]:
    model = engine.models[0]
    options = dataclasses.replace(model.default_options, **changes)
    [hypotheses] = await engine.translate(Call(texts=(text,), model=model, options=options), deadline=deadline)
    return hypotheses


async def test_long_texts_and_alternatives_of_many_are_answered_though_the_queue_is_small(
    tiny_bundle_repository: Path, metrics: Metrics, provider: Provider
) -> None:
    settings = EngineSettings(provider=provider, workers=2, max_batch_sentences=2, max_queue_tokens=20_000)
    engine = Engine(tiny_bundle_repository, settings=settings, metrics=metrics)
    await engine.start()
    # A long text is prepared in a thread.
    [long], [short] = await translated(engine, (SOURCE + "。") * 30), await translated(engine, SOURCE + "。")
    assert long.text == " ".join([short.text] * 30)
    asked = (translated(engine, SOURCE, num_hypotheses=3, return_alternatives=True) for _ in range(6))
    first, *others = await asyncio.gather(*asked)
    assert others == [first] * 5
    assert await engine.join(60)


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
        task = asyncio.ensure_future(translated(engine, SOURCE, deadline=time.monotonic() + seconds, **options))
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
