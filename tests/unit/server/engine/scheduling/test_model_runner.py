"""Sentences that join and leave at any step, over real graphs, and the jobs that look at what is found."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import math
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from tests.unit.server.engine.scheduling.virtual_server import GREEDY, Unread

from xuanzang.kernels.decode import Interrupt
from xuanzang.server.engine.calls.jobs import SentenceJobs, SentenceListener
from xuanzang.server.engine.calls.kept_terms import plan_terms
from xuanzang.server.engine.calls.rendering import PlannedSearch, SentenceRenderer, SentenceResult
from xuanzang.server.engine.decoding.decoder import BatchShape
from xuanzang.server.engine.decoding.hypotheses import Sentence, TargetHypothesis
from xuanzang.server.engine.errors import DeadlineExceededError
from xuanzang.server.engine.models.loaded import UNCONSTRAINED, LoadedModel
from xuanzang.server.engine.runtime.sessions import Sessions
from xuanzang.server.engine.scheduling import worker
from xuanzang.server.engine.scheduling.request import CallContext, Request
from xuanzang.server.engine.scheduling.scheduler import Scheduler
from xuanzang.server.engine.scheduling.worker import ModelRunner
from xuanzang.server.engine.settings import EngineSettings, Provider
from xuanzang.server.engine.types import DecodingOptions, FinishReason, Hypothesis, SamplingOptions
from xuanzang.server.metrics import Metrics
from xuanzang.text.terminology.terms import FoundTerm
from xuanzang.text.words import has_repetition

SOURCES = ("我有一只猫。", "你好", "今天天气很好", "他明天去北京看他的朋友", "谢谢")
KINDS: tuple[dict[str, Any], ...] = (
    {"beam_size": 4},
    {"beam_size": 4, "length_penalty": 0.0, "repetition_penalty": 1.3},
    {"beam_size": 4, "coverage_penalty": 0.5, "token_details": True},
    {"beam_size": 1},
    {"beam_size": 2, "num_hypotheses": 2, "no_repeat_ngram_size": 2},
    {"beam_size": 1, "sampling": SamplingOptions(top_k=5, top_p=0.9, temperature=1.2, seed=3)},
)


class Bench:
    """A runner with metrics of its own; each of its sentences is a request."""

    def __init__(self, model: LoadedModel) -> None:
        self.registry = CollectorRegistry()
        self.model = copy.copy(model)
        self.model.metrics = Metrics(self.registry).models.of(model.labels)
        self.runner = ModelRunner(self.model, worker=3, interrupt=Interrupt())
        self.jobs: dict[Request, SentenceJobs] = {}

    def request(
        self,
        source: str,
        options: dict[str, Any],
        *,
        cutoff: float = math.inf,
        listener: SentenceListener | None = None,
        term: str = "",
    ) -> Request:
        resolved: DecodingOptions = dataclasses.replace(self.model.served(is_default=True).default_options, **options)
        [segment] = self.model.codec.split(source)
        found = [FoundTerm(start=0, end=1, source=source[0], targets=(term,))] if term else []
        terms = plan_terms(
            found, self.model.codec, segment=segment, start=0, suppressed_texts=(), max_tokens=20, in_source=True
        )
        # As if the term were in the source: what a free search writes lacks it.
        sentence = self.model.sentence(segment.source_ids, resolved, terms.added_to(UNCONSTRAINED))
        renderer = SentenceRenderer(codec=self.model.codec, terms=terms.target)
        return self.submitted([PlannedSearch(sentence, renderer)], cutoff=cutoff, listener=listener)

    def submitted(
        self, searches: Sequence[PlannedSearch], *, cutoff: float = math.inf, listener: SentenceListener | None = None
    ) -> Request:
        context = CallContext(model=self.model, cutoff=cutoff)
        return self._request(context, SentenceJobs(searches, context, listener=listener), listener is not None)

    def _request(self, context: CallContext, jobs: SentenceJobs, reads_along: bool) -> Request:
        request = Request(context, jobs.left(), jobs, reads_along=reads_along)
        self.jobs[request] = jobs
        return request

    async def again(self, request: Request) -> Request | None:
        """Return the request of what a request that has been served leaves to search."""
        await request.done
        again = self._request(request.context, self.jobs[request], request.reads_along)
        return again if again.sentences else None

    async def results(self, request: Request) -> list[SentenceResult]:
        """Serve what a request that has been served leaves to search, and return its results."""
        while again := await self.again(request):
            self.run([(0, again)])
            request = again
        return self.jobs[request].results

    def run(self, arrivals: Sequence[tuple[int, Request]], *, steps: int = 1, trims: bool = False) -> None:
        """Let each request join at its turn, and take so many steps at each until all are done."""
        step = 0
        while step <= max(at for at, _ in arrivals) or len(self.runner.sentences):
            newcomers = [request.sentences[0] for at, request in arrivals if at == step]
            if newcomers:
                self.runner.join(newcomers)
            self.runner.step(steps)
            if trims:
                self.runner.trim(shrinks=step % 8 == 0)
            step += 1

    async def found(self, source: str, options: dict[str, Any], **more: Any) -> SentenceResult:
        """Serve a request alone, and return its result."""
        request = self.request(source, options, **more)
        self.run([(0, request)])
        [result] = await self.results(request)
        return result

    def value(self, name: str, **labels: str) -> float | None:
        model = {"model": self.model.name, "version": str(self.model.version)}
        return self.registry.get_sample_value(f"nmt_{name}", model | labels)


@pytest.fixture(scope="session")
def model(tiny_bundle_repository: Path, provider: Provider) -> LoadedModel:
    model = LoadedModel(tiny_bundle_repository / "tiny" / "1", Metrics(CollectorRegistry()))
    model.open(EngineSettings(provider=provider))
    return model


@pytest.fixture
def bench(model: LoadedModel) -> Bench:
    return Bench(model)


async def solo(bench: Bench, source: str, options: dict[str, Any]) -> Sequence[TargetHypothesis]:
    return (await bench.found(source, options)).found


arrivals = st.lists(
    st.tuples(st.integers(0, 15), st.sampled_from(SOURCES), st.sampled_from(KINDS)), min_size=1, max_size=10
)


mixed_shapes = st.lists(
    st.tuples(st.integers(0, 12), st.text("我有一只猫你好今天气", min_size=1, max_size=60), st.integers(1, 16)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=30)
@given(mixed_shapes, st.booleans())
async def test_batches_hold_the_memory_reserved(
    model: LoadedModel, arriving: list[tuple[int, str, int]], trims: bool
) -> None:
    bench = Bench(model)
    waiting = [(at, bench.request(source, {"beam_size": beam}).sentences[0]) for at, source, beam in arriving]
    most: Counter[BatchShape] = Counter()

    def check_memory() -> None:
        # Memory that sentences have left behind is kept, and reused, but does not grow.
        needed: Counter[BatchShape] = Counter()
        for queued in bench.runner.sentences.values():
            needed[queued.shape] += queued.cache_bytes
        for shape, held in bench.runner.held_bytes.items():
            most[shape] = max(most[shape], needed[shape])
            assert held <= most[shape]

    for step in range(200):
        if newcomers := [queued for at, queued in waiting if at == step]:
            bench.runner.join(newcomers)
            check_memory()
        bench.runner.step(1)
        if trims:
            bench.runner.trim()
            most.clear()
        check_memory()
    assert not len(bench.runner.sentences)


@settings(max_examples=40)
@given(arrivals, st.sampled_from((1, 3, 64)), st.booleans())
async def test_a_sentence_that_joins_at_any_step_is_translated_as_if_alone(
    model: LoadedModel, arriving: list[tuple[int, str, dict[str, Any]]], steps: int, trims: bool
) -> None:
    bench = Bench(model)
    requests = [(at, bench.request(source, options)) for at, source, options in arriving]
    bench.run(requests, steps=steps, trims=trims)
    for (_, source, options), (_, request) in zip(arriving, requests, strict=True):
        [result] = await bench.results(request)
        alone = await solo(bench, source, options)
        assert [found.target_ids for found in result.found] == [found.target_ids for found in alone]
        assert [found.score for found in result.found] == pytest.approx([found.score for found in alone], abs=1e-4)


async def test_every_step_is_counted_and_timed_however_many_follow_each_other(bench: Bench) -> None:
    counts = [0.0]
    for steps in (1, 64):
        request = bench.request(SOURCES[3], {"min_target_length": 12})
        bench.run([(0, request)], steps=steps)
        [result] = await bench.results(request)
        counts.append((bench.value("decode_step_duration_seconds_count") or 0) - sum(counts))
        assert result.timeline.steps == counts[-1]
    assert counts[1] == counts[2] > 12


async def test_sentences_of_one_request_wait_for_each_other_while_nobody_wants_their_places(bench: Bench) -> None:
    async def translated(*, has_newcomers: bool) -> tuple[int, list[SentenceResult]]:
        parts = [bench.request(source, {"length_penalty": 1.0}) for source in SOURCES]
        renderer = SentenceRenderer(codec=bench.model.codec)
        request, calls = bench.submitted([PlannedSearch(part.sentences[0].sentence, renderer) for part in parts]), 0
        bench.runner.join(request.sentences)
        while len(bench.runner.sentences):
            bench.runner.step(64, has_newcomers=has_newcomers)
            calls += 1
        return calls, await bench.results(request)

    (often, expected), (seldom, found) = await translated(has_newcomers=True), await translated(has_newcomers=False)
    assert [result.found for result in found] == [result.found for result in expected]
    # As if each had been answered at once.
    assert [result.timeline.steps for result in found] == [result.timeline.steps for result in expected]
    assert len({result.timeline.steps for result in found}) > 1
    assert (seldom < often) == (bench.model.sessions.step_functions is not None)


async def test_at_the_cutoff_steps_that_follow_each_other_end(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    request = bench.request(SOURCES[3], {"min_target_length": 20}, cutoff=time.monotonic())
    bench.runner.join(request.sentences)
    now = time.monotonic()
    request.cutoff = now + 1e-4
    with monkeypatch.context() as frozen:
        # However late the thread has its turn, the steps begin before the cutoff.
        frozen.setattr(worker, "time", SimpleNamespace(monotonic=lambda: now))
        bench.runner.step(64)
    assert len(bench.runner.sentences) == 1, "its own end is after 20 tokens"
    bench.runner.step(64)
    [([best], [rendered], _)] = await bench.results(request)
    assert rendered.finish_reason is FinishReason.DEADLINE
    assert len(best.target_ids) < 20


async def test_a_result_and_metrics_say_when_and_in_what_company_sentences_were_decoded(bench: Bench) -> None:
    first, second = bench.request(SOURCES[3], {"min_target_length": 12}), bench.request(SOURCES[0], {})
    bench.run([(0, first), (2, second)])
    [early], [late] = await bench.results(first), await bench.results(second)
    assert (early.timeline.worker, early.timeline.batch_size, late.timeline.batch_size) == (3, 1, 2)
    assert early.timeline.steps >= len(early.found[0].target_ids)
    for timeline in (early.timeline, late.timeline):
        times = (timeline.queued_at, timeline.taken_at, timeline.encoded_at, timeline.finished_at)
        assert list(times) == sorted(times)
    assert late.timeline.taken_at > early.timeline.encoded_at
    assert (bench.value("rows_joined_total"), bench.value("sentences_total")) == (1, 2)
    steps = bench.value("decode_step_duration_seconds_count")
    assert bench.value("batch_rows_count") == steps
    assert steps < bench.value("batch_rows_sum") < 2 * steps  # type: ignore[operator]


async def test_a_runner_without_sentences_frees_all_memory(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, new_bindings = list[bool](), Sessions.new_bindings

    def recorded(sessions: Sessions, *, shrinks: bool = False) -> Any:
        asked.append(shrinks)
        return new_bindings(sessions, shrinks=shrinks)

    monkeypatch.setattr(Sessions, "new_bindings", recorded)
    bench.runner.join(bench.request(SOURCES[0], {}).sentences)
    bench.runner.release()
    assert bench.value("cache_bytes")
    while len(bench.runner.sentences):
        bench.runner.step(1)
    assert not any(asked)
    asked.clear()
    bench.runner.release()
    assert (bench.value("cache_bytes"), asked) == (0, [True])
    assert len(await solo(bench, SOURCES[0], {})) == 1


async def test_an_abandoned_request_leaves_before_the_next_step_and_counts_as_its_work(bench: Bench) -> None:
    gone, stays = (bench.request(SOURCES[3], {"min_target_length": 12}) for _ in range(2))
    [queued] = gone.sentences
    bench.runner.join([queued, stays.sentences[0]])
    bench.runner.step(1)
    bench.runner.step(1)
    assert bench.runner.left == []
    gone.abandoned = "cancelled"
    bench.runner.step(1)
    assert (bench.runner.left, queued.steps, len(bench.runner.sentences)) == ([queued], 2, 1)
    assert queued.worked == queued.source_tokens + (queued.cost - queued.source_tokens) * 2 // queued.target_tokens
    assert bench.value("wasted_decode_tokens_total") == 2
    assert bench.value("rows_retired_total", reason="cancelled") == 1
    while len(bench.runner.sentences):
        bench.runner.step(1)
    [result] = await bench.results(stays)
    assert result.found == await solo(bench, SOURCES[3], {"min_target_length": 12})
    assert not gone.done.done()


async def test_at_the_cutoff_the_best_so_far_is_the_answer(bench: Bench) -> None:
    request = bench.request(SOURCES[3], {"min_target_length": 12}, cutoff=time.monotonic() + 3600)
    bench.runner.join(request.sentences)
    for _ in range(3):
        bench.runner.step(1)
    request.cutoff = time.monotonic()
    bench.runner.step(1)
    [([best], [rendered], _)] = await bench.results(request)
    assert rendered.finish_reason is FinishReason.DEADLINE
    assert (len(best.target_ids), best.finished) == (3, False)
    assert bench.value("rows_retired_total", reason="deadline") == 1
    assert bench.value("wasted_decode_tokens_total") in (None, 0)
    assert len(bench.runner.sentences) == 0


async def test_a_sentence_without_a_step_at_the_cutoff_ends_in_an_error(bench: Bench) -> None:
    request = bench.request(SOURCES[0], {}, cutoff=time.monotonic())
    bench.runner.join(request.sentences)
    bench.runner.step(1)
    [left] = bench.runner.left
    assert (left.worked, left.steps) == (request.sentences[0].source_tokens, 0)
    with pytest.raises(DeadlineExceededError, match="before anything was translated"):
        await bench.results(request)
    assert len(bench.runner.sentences) == 0


async def test_after_a_fault_every_sentence_is_answered_and_the_next_is_translated(bench: Bench) -> None:
    request = bench.request(SOURCES[0], {})
    bench.runner.join(request.sentences)
    bench.runner.fail(ArithmeticError("broken"))
    with pytest.raises(ArithmeticError, match="broken"):
        await bench.results(request)
    assert len(bench.runner.sentences) == 0
    assert len(await solo(bench, SOURCES[0], {})) == 1


class NoText(SentenceRenderer):
    """A renderer with a fault."""

    def render(self, sentence: Sentence, found: TargetHypothesis, *, cut: FinishReason) -> Hypothesis:
        raise ArithmeticError("no text")


async def test_a_fault_of_one_text_ends_its_call_and_not_the_batch(bench: Bench) -> None:
    beside = bench.request(SOURCES[0], {})
    sentence = bench.request(SOURCES[3], {}).sentences[0].sentence
    broken = bench.submitted([PlannedSearch(sentence, NoText(codec=bench.model.codec))])
    bench.run([(0, broken), (0, beside)])
    with pytest.raises(ArithmeticError, match="no text"):
        await broken.done
    [result] = await bench.results(beside)
    assert result.found == await solo(bench, SOURCES[0], {})


class Listening:
    reads_along = True

    def __init__(self) -> None:
        self.beginnings: list[str] = []

    def on_prefix(self, position: int, text: str) -> None:
        self.beginnings.append(text)

    def on_result(self, position: int, result: SentenceResult) -> None: ...


@pytest.mark.parametrize("options", [*KINDS[:4], {"beam_size": 4, "length_penalty": 0.0}])
async def test_a_caller_who_reads_along_gets_beginnings_after_every_step(bench: Bench, options: dict[str, Any]) -> None:
    listeners = Listening(), Listening()
    for steps, listener in zip((1, 64), listeners, strict=True):
        request = bench.request(SOURCES[3], options, listener=listener)
        bench.run([(0, request)], steps=steps)
        [([best, *_], *_)] = await bench.results(request)
        text = bench.model.codec.decode(best.target_ids)
        assert all(text.startswith(beginning.rstrip("\ufffd")) for beginning in listener.beginnings)
        assert listener.beginnings == sorted(set(listener.beginnings), key=len)
    assert listeners[0].beginnings == listeners[1].beginnings
    assert listener.beginnings or options["beam_size"] > 1


@pytest.fixture
def guarded(model: LoadedModel) -> Bench:
    """A bench whose model searches again under an n-gram limit what is a repetition."""
    guarded = copy.copy(model)
    guarded.repetition_retry_ngram_size = 2
    return Bench(guarded)


async def test_a_repetition_is_searched_again_under_the_ngram_limit_of_its_model(bench: Bench, guarded: Bench) -> None:
    repetitions, options = 0, {"beam_size": 1, "max_target_length": 60}
    for source in SOURCES:
        [as_is], [limited], [found] = (
            await solo(bench, source, options),
            await solo(bench, source, options | {"no_repeat_ngram_size": 2}),
            await solo(guarded, source, options),
        )
        is_repetition = has_repetition(bench.model.codec.decode(as_is.target_ids))
        assert found.target_ids == (limited if is_repetition else as_is).target_ids
        repetitions += is_repetition
        assert guarded.value("rows_retired_total", reason="loop") == repetitions
    assert repetitions


async def test_a_repetition_of_the_source_may_be_translated_as_one(guarded: Bench) -> None:
    for word in SOURCES[1:]:
        await solo(guarded, word * 4, {"beam_size": 1, "max_target_length": 60})
    assert guarded.value("rows_retired_total", reason="loop") == 0


@pytest.mark.parametrize("options", [{}, {"num_hypotheses": 3}, {"token_details": True, "coverage_penalty": 0.5}])
async def test_a_term_that_a_search_leaves_out_is_required_of_another(bench: Bench, options: dict[str, Any]) -> None:
    plain, bound = bench.request(SOURCES[3], options), bench.request(SOURCES[3], options, term="tiger fish")
    beside = bench.request(SOURCES[0], options)
    bench.run([(0, plain), (1, bound), (4, beside)])
    [result], [free] = await bench.results(bound), await bench.results(plain)
    assert all("tiger fish" in hypothesis.text for hypothesis in result.hypotheses)
    assert "tiger fish" not in free.hypotheses[0].text
    assert (result.timeline.searches, result.timeline.terms_required) == (2, True)
    assert (free.timeline.searches, free.timeline.terms_required) == (1, False)
    assert bench.value("rows_retired_total", reason="terms") == 1
    assert [each.text for each in (await bench.results(beside))[0].hypotheses] == [
        bench.model.codec.decode(found.target_ids) for found in await solo(bench, SOURCES[0], options)
    ]


async def test_a_term_that_the_model_writes_anyway_takes_one_search(bench: Bench) -> None:
    options = {"max_target_length": 12}
    [free] = await solo(bench, SOURCES[0], options)
    result = await bench.found(SOURCES[0], options, term=bench.model.codec.decode(free.target_ids))
    assert result.found[0].target_ids == free.target_ids
    assert (result.timeline.searches, result.timeline.terms_required) == (1, False)


async def test_another_hypothesis_of_the_same_search_that_holds_the_term_is_taken(bench: Bench) -> None:
    options, codec = {"max_target_length": 12}, bench.model.codec
    first, *others = await solo(bench, SOURCES[3], options | {"num_hypotheses": 4})
    words = set(codec.decode(first.target_ids).split())
    term = next(max(more, key=len) for each in others if (more := {*codec.decode(each.target_ids).split()} - words))
    result = await bench.found(SOURCES[3], options, term=term)
    assert (result.timeline.searches, result.timeline.terms_required) == (1, False)
    assert [term in each.text for each in result.hypotheses] == [True]
    assert bench.value("rows_retired_total", reason="terms") == 0


async def test_at_the_cutoff_a_whole_translation_comes_before_a_part_with_its_term(bench: Bench) -> None:
    options = {"max_target_length": 12}
    [whole] = await solo(bench, SOURCES[3], options)
    request = bench.request(SOURCES[3], options, term="tiger fish", cutoff=time.monotonic() + 3600)
    bench.run([(0, request)])
    again = await bench.again(request)
    assert again is not None
    bench.runner.join(again.sentences)
    bench.runner.step(1)
    again.cutoff = 0.0
    bench.runner.step(1)
    [result] = await bench.results(again)
    assert (result.found[0].target_ids, result.found[0].finished) == (whole.target_ids, whole.finished)


async def test_what_is_reported_of_a_sentence_with_terms_is_not_taken_back(bench: Bench) -> None:
    listener = Listening()
    result = await bench.found(SOURCES[3], {}, listener=listener, term="tiger fish")
    assert "tiger fish" in result.hypotheses[0].text
    assert all(result.hypotheses[0].text.startswith(beginning) for beginning in listener.beginnings)


async def test_a_model_that_a_worker_drops_gives_its_memory_back(model: LoadedModel) -> None:
    scheduler = Scheduler(EngineSettings(), workers=1)
    thread = worker.Worker(0, scheduler=scheduler, on_fault=lambda: None)
    options = dataclasses.replace(GREEDY, max_target_length=8)
    request = Request(CallContext(model=model), [model.sentence((5, 6, 7), options)], Unread())
    scheduler.submit(request)
    await request.done
    scheduler.close(request, None)
    # Until now the worker kept the memory for later sentences.
    await asyncio.wrap_future(thread.drop(model))
    assert scheduler.reserved_bytes(model.labels) == 0
    scheduler.stop()
    assert thread.join(timeout=60)
