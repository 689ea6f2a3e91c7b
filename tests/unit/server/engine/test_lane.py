"""Sentences that join and leave at any step, over real graphs."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import math
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from xuanzang.server.engine.decoding.decoder import Decoder
from xuanzang.server.engine.decoding.hypotheses import TargetHypothesis
from xuanzang.server.engine.errors import DeadlineExceededError
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.runtime.sessions import Runtime
from xuanzang.server.engine.scheduling.model_runner import Lane, NewDecoder
from xuanzang.server.engine.scheduling.repetition import has_loop
from xuanzang.server.engine.scheduling.request import Request, Terms
from xuanzang.server.engine.types import DecodingOptions, FinishReason, SamplingOptions
from xuanzang.server.metrics import Metrics

SOURCES = ("我有一只猫。", "你好", "今天天气很好", "他明天去北京看他的朋友", "谢谢")
KINDS: tuple[dict[str, Any], ...] = (
    {"beam_size": 4},
    {"beam_size": 4, "length_penalty": 0.0, "repetition_penalty": 1.3},
    {"beam_size": 4, "coverage_penalty": 0.5, "token_details": True},
    {"beam_size": 1},
    {"beam_size": 2, "num_hypotheses": 2, "no_repeat_ngram_size": 2},
    {"beam_size": 1, "sampling": SamplingOptions(top_k=5, top_p=0.9, temperature=1.2, seed=3)},
)

Result = tuple[FinishReason, Sequence[TargetHypothesis]]


class Bench:
    """A lane on which tests put sentences; each is a request of its own."""

    def __init__(self, model: LoadedModel, new_decoder: NewDecoder) -> None:
        self.model = model
        self.metrics = Metrics(CollectorRegistry())
        self.lane = Lane(model, new_decoder, metrics=self.metrics)

    def request(self, source: str, options: dict[str, Any], *, cutoff: float = math.inf) -> Request[Result]:
        resolved: DecodingOptions = dataclasses.replace(self.model.served(is_default=True).default_options, **options)
        [piece] = self.model.text.split(source)
        sentence = self.model.sentence(piece.source_ids, resolved)
        terms = Terms(model=self.model, caller="", cutoff=cutoff)
        return Request(terms, [sentence], render=lambda _position, found, cut: (cut, found))

    def run(self, arrivals: Sequence[tuple[int, Request[Result]]]) -> None:
        """Let each request join at its step, and step until all are done."""
        step = 0
        while step <= max(at for at, _ in arrivals) or len(self.lane):
            newcomers = [request.sentences[0] for at, request in arrivals if at == step]
            if newcomers:
                self.lane.admit(newcomers)
            self.lane.step()
            step += 1

    def answer(self, source: str, options: dict[str, Any]) -> list[int]:
        async def ask() -> list[int]:
            request = self.request(source, options)
            self.run([(0, request)])
            [(_, found)] = await request.done
            return found[0].target_ids

        return asyncio.run(ask())

    def value(self, name: str, **labels: str) -> float | None:
        model = {"model": self.model.name, "version": str(self.model.version)}
        return self.metrics.registry.get_sample_value(f"nmt_{name}", model | labels)


@pytest.fixture(scope="session")
def graphs(tiny_bundle_repository: Path, provider: str) -> tuple[LoadedModel, NewDecoder]:
    model = LoadedModel(tiny_bundle_repository / "tiny" / "1")
    return model, partial(Decoder, Runtime(model.bundle, provider=provider, intra_op_threads=1))


@pytest.fixture
def bench(graphs: tuple[LoadedModel, NewDecoder]) -> Bench:
    return Bench(*graphs)


async def solo(bench: Bench, source: str, options: dict[str, Any]) -> Sequence[TargetHypothesis]:
    request = bench.request(source, options)
    bench.run([(0, request)])
    [(_, found)] = await request.done
    return found


arrivals = st.lists(
    st.tuples(st.integers(0, 15), st.sampled_from(SOURCES), st.sampled_from(KINDS)), min_size=1, max_size=10
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(arrivals)
def test_a_sentence_that_joins_at_any_step_is_translated_as_it_is_alone(
    graphs: tuple[LoadedModel, NewDecoder], arriving: list[tuple[int, str, dict[str, Any]]]
) -> None:
    async def check() -> None:
        bench = Bench(*graphs)
        requests = [(at, bench.request(source, options)) for at, source, options in arriving]
        bench.run(requests)
        for (_, source, options), (_, request) in zip(arriving, requests, strict=True):
            [(_, together)] = await request.done
            alone = await solo(bench, source, options)
            assert [found.target_ids for found in together] == [found.target_ids for found in alone]
            assert [found.score for found in together] == pytest.approx([found.score for found in alone], abs=1e-4)

    asyncio.run(check())


async def test_joining_is_counted_and_the_cache_is_measured(bench: Bench) -> None:
    requests = [(0, bench.request(SOURCES[0], {})), (1, bench.request(SOURCES[1], {}))]
    bench.run(requests)
    assert bench.value("rows_joined_total") == 1
    assert bench.value("sentences_total") == 2
    assert bench.value("cache_bytes") > 0  # type: ignore[operator]
    steps = bench.value("decode_step_duration_seconds_count")
    assert bench.value("batch_rows_count") == steps
    assert steps < bench.value("batch_rows_sum") < 2 * steps  # type: ignore[operator]


async def test_a_request_that_is_given_up_leaves_before_the_next_step_and_its_steps_were_wasted(bench: Bench) -> None:
    gone, stays = (bench.request(SOURCES[3], {"min_target_length": 12}) for _ in range(2))
    bench.lane.admit([gone.sentences[0], stays.sentences[0]])
    bench.lane.step()
    bench.lane.step()
    gone.abandoned = "cancelled"
    bench.lane.step()
    assert len(bench.lane) == 1
    assert bench.value("wasted_decode_tokens_total") == 2
    assert bench.value("rows_retired_total", reason="cancelled") == 1
    while len(bench.lane):
        bench.lane.step()
    [(_, found)] = await stays.done
    assert found == await solo(bench, SOURCES[3], {"min_target_length": 12})
    assert not gone.done.done()


async def test_at_the_cutoff_the_best_so_far_is_the_answer(bench: Bench) -> None:
    request = bench.request(SOURCES[3], {"min_target_length": 12}, cutoff=time.monotonic() + 3600)
    bench.lane.admit(request.sentences)
    for _ in range(3):
        bench.lane.step()
    request.terms = dataclasses.replace(request.terms, cutoff=time.monotonic())
    bench.lane.step()
    [(cut, [best])] = await request.done
    assert cut is FinishReason.DEADLINE
    assert (len(best.target_ids), best.finished) == (3, False)
    assert bench.value("rows_retired_total", reason="deadline") == 1
    assert bench.value("wasted_decode_tokens_total") in (None, 0)
    assert len(bench.lane) == 0


async def test_a_sentence_that_was_not_begun_at_the_cutoff_ends_in_an_error(bench: Bench) -> None:
    request = bench.request(SOURCES[0], {}, cutoff=time.monotonic())
    bench.lane.admit(request.sentences)
    assert bench.lane.step() == 0
    with pytest.raises(DeadlineExceededError, match="before anything was translated"):
        await request.done
    assert len(bench.lane) == 0


async def test_after_a_fault_every_sentence_is_answered_and_the_next_is_translated(bench: Bench) -> None:
    request = bench.request(SOURCES[0], {})
    bench.lane.admit(request.sentences)
    bench.lane.fail(ArithmeticError("broken"))
    with pytest.raises(ArithmeticError, match="broken"):
        await request.done
    assert len(bench.lane) == 0
    assert len(await solo(bench, SOURCES[0], {})) == 1


class Listening:
    def __init__(self) -> None:
        self.beginnings: list[str] = []

    def begun(self, position: int, text: str) -> None:
        self.beginnings.append(text)

    def finished(self, position: int, result: Result) -> None: ...


@pytest.mark.parametrize("options", [*KINDS[:4], {"beam_size": 4, "length_penalty": 0.0}])
async def test_what_is_told_is_what_the_best_hypothesis_begins_with(bench: Bench, options: dict[str, Any]) -> None:
    sentence = bench.request(SOURCES[3], options).sentences[0].sentence
    listener = Listening()
    terms = Terms(model=bench.model, caller="")
    request = Request[Result](terms, [sentence], render=lambda _position, found, cut: (cut, found), listener=listener)
    bench.run([(0, request)])
    [(_, [best, *_])] = await request.done
    text = bench.model.text.decode(best.target_ids)
    assert all(text.startswith(beginning.rstrip("\ufffd")) for beginning in listener.beginnings)
    assert listener.beginnings == sorted(set(listener.beginnings), key=len)
    if options["beam_size"] == 1:
        assert listener.beginnings


def test_a_translation_that_runs_in_circles_is_searched_again_under_the_limit_of_its_model(
    graphs: tuple[LoadedModel, NewDecoder],
) -> None:
    model, new_decoder = graphs
    guarded = copy.copy(model)
    guarded.loop_retry_ngram_size = 2
    looped = 0
    for source in SOURCES:
        options = {"beam_size": 1, "max_target_length": 60}
        plain, again = Bench(model, new_decoder), Bench(guarded, new_decoder)
        [as_is, limited, found] = [
            bench.answer(source, options | more)
            for bench, more in ((plain, {}), (plain, {"no_repeat_ngram_size": 2}), (again, {}))
        ]
        is_loop = has_loop(model.text.decode(as_is))
        assert found == (limited if is_loop else as_is)
        assert again.value("rows_retired_total", reason="loop") == is_loop
        looped += is_loop
    assert looped


def test_what_the_source_says_again_and_again_may_be_said_so(graphs: tuple[LoadedModel, NewDecoder]) -> None:
    guarded = copy.copy(graphs[0])
    guarded.loop_retry_ngram_size = 2
    bench = Bench(guarded, graphs[1])
    for word in SOURCES[1:]:
        bench.answer(word * 4, {"beam_size": 1, "max_target_length": 60})
    assert bench.value("rows_retired_total", reason="loop") == 0
