"""Limits of models and of memory: what must wait, what is refused, and what goes on meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.engine.scheduling.virtual_server import GREEDY, Unread

from xuanzang.server.engine.errors import MemoryLimitError, OverloadedError
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling import scheduler as scheduler_module
from xuanzang.server.engine.scheduling.queue import COMMON, LIGHT
from xuanzang.server.engine.scheduling.request import CallContext, QueuedSentence, Request
from xuanzang.server.engine.scheduling.scheduler import Scheduler
from xuanzang.server.engine.settings import EngineSettings, ModelLimits
from xuanzang.server.engine.types import CallerId
from xuanzang.server.metrics import Metrics


class LimitedModel(LoadedModel):
    """A model whose sentences need a thousand bytes for each source token."""

    def __init__(self, directory: Path, metrics: Metrics, limits: ModelLimits) -> None:
        super().__init__(directory, metrics)
        self.limits, self.max_cache_bytes = limits, limits.memory_bytes

    def cache_bytes_of(self, sentence: Any) -> int:
        return 1000 * len(sentence.source_ids)


class Bench:
    """A scheduler, and models with limits."""

    def __init__(self, repository: Path, metrics: Metrics, workers: int = 2, **settings: Any) -> None:
        self.scheduler = Scheduler(EngineSettings(**settings), workers=workers)
        self._directory, self._metrics = repository / "small" / "1", metrics
        self.taken: dict[int, list[QueuedSentence]] = {}

    def model(self, **limits: int) -> LimitedModel:
        return LimitedModel(self._directory, self._metrics, ModelLimits(**limits))

    def submit(self, model: LoadedModel, *lengths: int, caller: str = "") -> Request:
        sentences = [model.sentence((5,) * length, GREEDY) for length in lengths]
        request = Request(CallContext(model=model, caller=CallerId(caller)), sentences, Unread())
        self.scheduler.submit(request)
        return request

    def take(self, worker: int) -> list[QueuedSentence]:
        decision = self.scheduler.take(worker, idle_seconds=0)
        assert decision is not None
        taken = [queued for joins in decision.joins.values() for queued in joins]
        self.taken.setdefault(worker, []).extend(taken)
        self.scheduler.charge(worker, COMMON, 0.0, is_joining=True)
        return taken

    def trims(self, worker: int) -> bool:
        """Return whether a worker gives memory back before its next step."""
        decision = self.scheduler.take(worker, idle_seconds=0)
        return decision is not None and decision.trims

    def report(self, worker: int, *running: QueuedSentence, held: int = 0) -> None:
        """Let all sentences of a worker leave but some, whose batch holds memory."""
        mine = self.taken.pop(worker, [])
        for queued in running or mine:
            self.scheduler.hold(worker, queued.request.model, COMMON, {queued.shape: held} if held else {})
        self.scheduler.leave(worker, [queued for queued in mine if queued not in running], seconds=1.0)
        self.taken[worker] = list(running)


MakeBench = Callable[..., Bench]


@pytest.fixture
def make_bench(repository: Path, metrics: Metrics) -> MakeBench:
    return partial(Bench, repository, metrics)


@pytest.fixture
def bench(make_bench: MakeBench) -> Bench:
    return make_bench(max_cache_mb=1)


async def test_a_model_is_decoded_by_as_many_workers_as_it_may_have_which_take_all(make_bench: MakeBench) -> None:
    bench = make_bench(workers=4)
    model, scheduler = bench.model(workers=1), bench.scheduler
    bench.submit(model, *[3] * 31)
    assert len(bench.take(0)) == 31
    assert (scheduler.reserved_bytes(model.labels), scheduler.serving(model.labels)) == (31 * 3000, 1)
    bench.submit(model, 3)
    assert [bench.take(worker) for worker in range(1, 4)] == [[]] * 3
    bench.report(0)
    assert (scheduler.reserved_bytes(model.labels), scheduler.serving(model.labels)) == (0, 0)
    assert len(bench.take(1)) == 1
    assert bench.take(0) == []


async def test_heavy_callers_have_turns_in_the_only_worker_of_a_model(bench: Bench) -> None:
    model = bench.model(workers=1)
    bench.submit(model, 3, caller="light")
    bench.submit(model, *[3] * 64, caller="heavy")
    assert [queued.tier for queued in bench.take(0)] == [LIGHT]
    assert bench.take(1) == []
    # No other worker could take them.
    bench.scheduler.charge(0, LIGHT, 1.0)
    assert {queued.tier for queued in bench.take(0)} == {COMMON}


# Of three workers one is woken for the other model, which might leave it to the third.
@pytest.mark.parametrize(
    ("limits", "workers", "length"),
    [({"workers": 1}, 2, 7), ({"memory_bytes": 10_000}, 2, 900), ({"memory_bytes": 10_000}, 3, 3)],
)
async def test_others_go_on_beside_one_that_waits(
    make_bench: MakeBench, limits: dict[str, int], workers: int, length: int
) -> None:
    bench = make_bench(workers=workers, max_cache_mb=1)
    limited, free = bench.model(**limits), bench.model()
    bench.submit(limited, 6)
    bench.take(0)
    bench.submit(limited, 7)
    bench.submit(free, length)
    assert [queued.request.model for queued in bench.take(1)] == [free]


@pytest.mark.parametrize("limits", [{"workers": 1}, {"memory_bytes": 3000}])
async def test_heavier_callers_of_other_models_go_on_beside_one_who_waits(bench: Bench, limits: dict[str, int]) -> None:
    limited, free = bench.model(**limits), bench.model()
    bench.submit(limited, 3, caller="one")
    bench.take(0)
    bench.submit(limited, 3, caller="other")
    bench.submit(free, *[7] * 40, caller="heavy")
    taken = bench.take(1)
    assert {queued.request.model for queued in taken} == {free}
    bench.report(1, *taken[:1])
    assert {queued.request.model for queued in bench.take(1)} == {free}
    # Whoever waited has the next turn once the model is free.
    bench.report(0)
    assert [queued.request.model for queued in bench.take(0)][:1] == [limited]


async def test_a_sentence_waits_until_the_memory_of_its_model_is_free(bench: Bench) -> None:
    model = bench.model(memory_bytes=10_000)
    bench.submit(model, 6)
    [first] = bench.take(0)
    bench.submit(model, 7)
    assert bench.take(1) == []
    bench.report(0, first, held=2000)
    assert bench.take(1) == []
    bench.report(0)
    assert [queued.source_tokens for queued in bench.take(1)] == [7]


async def test_one_that_needs_nearly_all_memory_waits_for_running_ones(bench: Bench) -> None:
    model = bench.model()
    bench.submit(model, 200, caller="light")
    [light] = bench.take(0)
    bench.submit(model, 900, caller="large")
    assert bench.take(1) == []
    # Traffic goes on, but none of it joins before the one that has waited for longer.
    bench.submit(model, 100, caller="light")
    bench.submit(model, 100, caller="other")
    assert bench.take(1) == bench.take(0) == []
    bench.report(0)
    assert [queued.source_tokens for queued in bench.take(1)] == [900]
    assert light.source_tokens == 200


async def test_small_sentences_do_not_overtake_one_that_waits_for_memory(bench: Bench) -> None:
    model = bench.model(memory_bytes=10_000)
    bench.submit(model, 6)
    bench.take(0)
    bench.submit(model, 9, caller="large")
    assert bench.take(1) == []
    bench.submit(model, 1, 1, 1, 1, caller="small")
    assert bench.take(1) == []
    bench.report(0)
    assert 9 in [queued.source_tokens for queued in bench.take(0)]


async def test_a_sentence_that_no_free_memory_suffices_for_is_refused(bench: Bench) -> None:
    model = bench.model(memory_bytes=10_000)
    with pytest.raises(MemoryLimitError, match=r"model small/1 may use 10000 \(--model-memory-mb\)"):
        bench.submit(model, 11)
    with pytest.raises(MemoryLimitError, match=r"the server may use 1000000 \(--max-cache-mb\)"):
        bench.submit(bench.model(), 1001)


async def test_a_limited_model_leaves_half_of_the_queue_to_others(make_bench: MakeBench) -> None:
    bench = make_bench(max_queue_tokens=100)
    limited = bench.model(workers=1)
    bench.submit(limited, 10, caller="a")
    bench.submit(limited, 10, caller="b")
    with pytest.raises(OverloadedError, match=r"model small/1 is limited to --model-workers 1.*at most 50"):
        bench.submit(limited, 10, caller="c")
    assert bench.submit(bench.model(), 10, caller="a").sentences


async def test_memory_kept_for_later_is_given_back_when_others_wait_for_it(bench: Bench) -> None:
    model, other = bench.model(), bench.model()
    bench.submit(model, 100)
    [queued] = bench.take(0)
    bench.report(0, queued, held=950_000)
    bench.submit(other, 120)
    assert bench.take(1) == []
    assert bench.trims(0)
    assert not bench.trims(1)
    bench.report(0, queued, held=90_000)
    assert not bench.trims(0)
    assert [queued.request.model for queued in bench.take(1)] == [other]


async def test_caches_have_half_of_what_weights_leave(monkeypatch: pytest.MonkeyPatch, make_bench: MakeBench) -> None:
    monkeypatch.setattr(scheduler_module, "memory_limit", lambda: 512_000)
    bench = make_bench()
    model = bench.model()
    bench.scheduler.leave_memory(300_000)
    bench.submit(model, 106)
    with pytest.raises(MemoryLimitError, match=r"the server may use 106000 \(--max-cache-mb\)"):
        bench.submit(model, 107)
    # Where they leave nothing, nothing is begun; what was let in before is, alone.
    bench.scheduler.leave_memory(600_000)
    with pytest.raises(MemoryLimitError, match="the server may use 0 "):
        bench.submit(model, 1)
    assert [queued.source_tokens for queued in bench.take(0)] == [106]
    # A limit that is set does not follow the weights.
    limited = make_bench(max_cache_mb=1).scheduler
    limited.leave_memory(2**60)
    assert limited.max_cache_bytes == 10**6
