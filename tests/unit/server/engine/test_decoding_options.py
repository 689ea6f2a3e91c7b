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
from xuanzang.server.engine.errors import DeadlineExceededError, InvalidInputError, OverloadedError
from xuanzang.server.engine.settings import EngineSettings, Provider
from xuanzang.server.engine.types import FinishReason, Hypothesis, SamplingOptions
from xuanzang.server.metrics import Metrics

SOURCE = "他明天去北京看他的朋友"
TEXT = " 我有一只猫。你好！\n今天天气很好\n"
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


async def progressively(engine: Engine, text: str, **changes: Any) -> tuple[list[str], list[Hypothesis]]:
    model = engine.models[0]
    options = dataclasses.replace(model.default_options, **changes)
    stream = engine.translate_progressively(Call(texts=(text,), model=model, options=options))
    *told, answer = [part async for part in stream]
    assert isinstance(answer, list)
    assert all(isinstance(part, str) for part in told)
    return [str(part) for part in told], answer


async def violations(engine: Engine, text: str, **changes: Any) -> dict[str, str]:
    with pytest.raises(InvalidInputError) as refusal:
        await translate(engine, text, **changes)
    return {violation.field: violation.description for violation in refusal.value.violations}


@pytest.mark.parametrize("beam_size", [1, 4])
async def test_what_is_told_progressively_is_the_text_of_an_ordinary_answer(
    engine: Engine, metrics: Metrics, beam_size: int
) -> None:
    told, answer = await progressively(engine, TEXT, beam_size=beam_size)
    assert answer == await translate(engine, TEXT, beam_size=beam_size)
    assert "".join(told) == answer[0].text
    assert len(told) > 3
    assert all(told)
    labels = {"model": engine.models[0].name, "version": "1"}
    assert metrics.registry.get_sample_value("nmt_first_text_duration_seconds_count", labels) == 1


async def test_of_several_draws_nothing_is_told_before_the_end(engine: Engine) -> None:
    told, answer = await progressively(engine, SOURCE, beam_size=1, num_hypotheses=3, sampling=SAMPLING)
    assert told == []
    assert len(answer) == 3


async def test_a_fault_of_a_progressive_request_is_raised_by_its_stream(engine: Engine) -> None:
    with pytest.raises(InvalidInputError):
        await progressively(engine, "猫" * 20_001)


async def test_a_caller_who_leaves_a_stream_frees_the_worker(engine: Engine, metrics: Metrics) -> None:
    model = engine.models[0]
    options = dataclasses.replace(model.default_options, min_target_length=60, max_target_length=60)
    stream = engine.translate_progressively(Call(texts=(SOURCE,), model=model, options=options))
    await anext(stream)
    await stream.aclose()
    assert await engine.join(60)
    labels = {"model": model.name, "version": "1"}
    assert metrics.registry.get_sample_value("nmt_requests_total", labels | {"finish_reason": "cancelled"}) == 1
    assert metrics.registry.get_sample_value("nmt_requests_running", labels) == 0


async def test_alternatives_are_the_best_continuations_of_different_beginnings(
    engine: Engine,
) -> None:
    alternatives = await translate(engine, SOURCE, num_hypotheses=4, return_alternatives=True, token_details=True)
    firsts = [alternative.tokens[0].text for alternative in alternatives]
    assert len(set(firsts)) == len(alternatives) == 4
    scores = [alternative.score for alternative in alternatives]
    assert scores == sorted(scores, reverse=True)
    for alternative in alternatives:
        total = sum(token.score for token in alternative.tokens)
        assert alternative.score == pytest.approx(total / alternative.token_count, abs=1e-4)


async def test_the_best_alternative_of_a_greedy_search_is_the_greedy_translation(engine: Engine) -> None:
    [greedy] = await translate(engine, SOURCE, beam_size=1, length_penalty=0.0)
    alternatives = await translate(
        engine, SOURCE, beam_size=1, length_penalty=0.0, num_hypotheses=3, return_alternatives=True
    )
    [same] = [alternative for alternative in alternatives if alternative.text == greedy.text]
    assert same.score == pytest.approx(greedy.score, abs=1e-4)


async def test_alternatives_come_after_the_prefix(engine: Engine) -> None:
    alternatives = await translate(
        engine, SOURCE, num_hypotheses=3, return_alternatives=True, target_prefix="they have"
    )
    assert len(alternatives) == 3
    assert all(alternative.text.startswith("they have") for alternative in alternatives)


async def test_a_long_text_is_prepared_in_a_thread_and_translated_all_the_same(engine: Engine) -> None:
    [long] = await translate(engine, (SOURCE + "。") * 30)
    [short] = await translate(engine, SOURCE + "。")
    assert long.text == " ".join([short.text] * 30)


async def test_draws_are_independent_repeatable_and_best_first(engine: Engine) -> None:
    drawn = await translate(engine, SOURCE, beam_size=1, num_hypotheses=5, sampling=SAMPLING)
    again = await translate(engine, SOURCE, beam_size=1, num_hypotheses=5, sampling=SAMPLING)
    assert drawn == again
    assert len({hypothesis.text for hypothesis in drawn}) > 1
    assert [one.score for one in drawn] == sorted((one.score for one in drawn), reverse=True)
    second = dataclasses.replace(SAMPLING, seed=SAMPLING.seed + 1)
    [alone] = await translate(engine, SOURCE, beam_size=1, sampling=second)
    assert alone.text in [hypothesis.text for hypothesis in drawn]


async def test_a_draw_from_one_token_is_the_greedy_translation(engine: Engine) -> None:
    sampling = dataclasses.replace(SAMPLING, top_k=1)
    [drawn] = await translate(engine, SOURCE, beam_size=1, sampling=sampling)
    [greedy] = await translate(engine, SOURCE, beam_size=1)
    assert drawn.text == greedy.text


async def test_suppressed_texts_do_not_occur(engine: Engine) -> None:
    [free] = await translate(engine, SOURCE)
    words = tuple(dict.fromkeys(free.text.split()))[:3]
    [suppressed] = await translate(engine, SOURCE, suppressed_texts=words)
    assert words
    assert not any(word in suppressed.text for word in words)


async def test_token_details_are_the_text_the_score_and_places_in_the_source(engine: Engine) -> None:
    [hypothesis] = await translate(engine, TEXT, token_details=True)
    assert len(hypothesis.tokens) == hypothesis.token_count
    assert "".join(hypothesis.text.split()) == "".join("".join(token.text for token in hypothesis.tokens).split())
    assert all(token.score <= 1e-6 for token in hypothesis.tokens)
    assert all(0 <= token.source_start <= token.source_end <= len(TEXT) for token in hypothesis.tokens)
    starts = [token.source_start for token in hypothesis.tokens]
    assert max(starts) > TEXT.index("\n") > min(starts)
    [plain] = await translate(engine, TEXT)
    assert plain == dataclasses.replace(hypothesis, tokens=())


async def partial(engine: Engine, options: dict[str, Any]) -> list[Hypothesis]:
    """Return what is found by a deadline that leaves time to find something, on a slow machine too."""
    seconds = 0.25
    while True:
        try:
            deadline = time.monotonic() + seconds
            return await translate(engine, SOURCE, deadline=deadline, partial_on_deadline=True, **options)
        except DeadlineExceededError:
            seconds *= 2


async def test_what_has_been_found_by_the_deadline_is_the_answer(engine: Engine, metrics: Metrics) -> None:
    options = {"beam_size": 16, "min_target_length": 64, "max_target_length": 64}
    [hypothesis] = await partial(engine, options)
    assert hypothesis.finish_reason in (FinishReason.DEADLINE, FinishReason.MAX_LENGTH)
    labels = {"model": engine.models[0].name, "version": "1"}
    # Attempts whose deadline left too little time count as "deadline", too.
    ended = {
        reason: metrics.registry.get_sample_value("nmt_requests_total", labels | {"finish_reason": reason})
        for reason in ("deadline", "length")
    }
    failed = metrics.registry.get_sample_value("nmt_request_failures_total", labels | {"reason": "deadline"})
    is_partial = hypothesis.finish_reason is FinishReason.DEADLINE
    assert failed is not None
    assert ended == {"deadline": failed + is_partial, "length": not is_partial}


async def test_what_has_not_begun_by_the_deadline_is_an_error_in_spite_of_all(engine: Engine) -> None:
    with pytest.raises(DeadlineExceededError):
        await translate(engine, SOURCE, deadline=time.monotonic() + 0.015, partial_on_deadline=True)


async def test_a_deadline_that_is_not_reached_changes_nothing(engine: Engine) -> None:
    in_time = await translate(engine, SOURCE, deadline=time.monotonic() + 600, partial_on_deadline=True)
    assert in_time == await translate(engine, SOURCE)


async def test_a_prefix_needs_a_single_sentence_and_room_within_the_target_limit(engine: Engine) -> None:
    assert await violations(engine, TEXT, target_prefix="the") == {
        "options.target_prefix": "only for texts of a single sentence, contents[0] has 3"
    }
    refused = await violations(engine, SOURCE, target_prefix="they have one cat", max_target_length=2)
    assert "must have fewer than 2 target tokens" in refused["options.target_prefix"]
    assert (
        "white space"
        in (await violations(engine, SOURCE, suppressed_texts=("cat", " ")))["options.suppressed_texts[1]"]
    )


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
    chance = random.Random(5)

    async def call(number: int) -> object:
        options = MIX[number % len(MIX)]
        if number % 7 == 0:
            return await progressively(engine, SOURCE, **options)
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
    labels = {"model": engine.models[0].name, "version": "1"}
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
