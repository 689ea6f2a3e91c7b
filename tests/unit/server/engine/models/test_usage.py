"""Models that are loaded by their first requests, and rest."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.engine.errors import DeadlineExceededError, DrainingError, ModelLoadError
from xuanzang.server.engine.models import usage as usage_module
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.models.usage import ModelUsage
from xuanzang.server.engine.settings import OnDemand
from xuanzang.server.engine.types import Residency
from xuanzang.server.metrics import Metrics

Outcome = Callable[[LoadedModel], LoadedModel | BundleError]


class Parts:
    """Models of equal size that rest, and a usage with room for some of them."""

    def __init__(self, repository: Path, *, room: int, idle_seconds: float | None = None) -> None:
        self.metrics = Metrics(CollectorRegistry())
        directory = repository / "small" / "1"
        self.models = [LoadedModel(directory, self.metrics, rests=True) for _ in range(3)]
        self.loads: list[int] = []
        self.outcome: Outcome = self.loaded
        self.usage = ModelUsage(
            OnDemand(memory_bytes=room * self.models[0].memory_bytes, idle_seconds=idle_seconds),
            load=lambda model: self.outcome(model),  # noqa: PLW0108 - tests replace it
            drop=self._drop,
            metrics=self.metrics.server,
        )

    def loaded(self, model: LoadedModel) -> LoadedModel:
        self.loads.append(self.models.index(model))
        model.load()
        return model

    async def _drop(self, model: LoadedModel) -> None:
        assert not self.usage._calls.get(model)

    async def call(self, number: int, deadline: float = float("inf")) -> None:
        """Make a call that ends as soon as its model is there."""
        model = self.models[number]
        self.usage.begin(model)
        try:
            if model.is_resting:
                await self.usage.wake(model, deadline)
            assert model.codec
        finally:
            self.usage.end(model)

    def sample(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)


@pytest.fixture
async def parts(repository: Path) -> Any:
    made: list[Parts] = []

    def make(**arguments: Any) -> Parts:
        made.append(Parts(repository, **arguments))
        return made[-1]

    yield make
    for each in made:
        each.usage.close()


async def test_calls_that_come_together_load_their_model_once(parts: Any) -> None:
    some = parts(room=1)
    await asyncio.gather(*(some.call(0) for _ in range(20)))
    await some.call(0)
    assert some.loads == [0]
    assert some.sample("nmt_model_load_wait_seconds_count") == 20
    assert some.sample("nmt_model_loads_total", result="ok") == 1
    assert some.usage.residency(some.models[0])[0] is Residency.LOADED


async def test_the_least_recently_used_model_leaves_for_another(parts: Any) -> None:
    some = parts(room=2)
    for number in (0, 1, 0, 2):
        await some.call(number)
    assert [model.is_resting for model in some.models] == [False, True, False]
    assert some.sample("nmt_model_evictions_total", reason="memory") == 1
    assert some.sample("nmt_model_memory_bytes") == 2 * some.models[0].memory_bytes
    assert not hasattr(some.models[1], "codec")


async def test_a_model_in_use_stays_until_its_call_has_ended(parts: Any) -> None:
    some = parts(room=1)
    async with some.usage.of(some.models[0]):
        waiting = asyncio.create_task(some.call(1))
        while not some.usage.calls(some.models[1]):  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0)
        with pytest.raises(DeadlineExceededError, match="small/1"):
            await some.call(2, time.monotonic() + 0.05)
        assert not some.models[0].is_resting
        assert some.models[0].codec
    await waiting
    assert [model.is_resting for model in some.models][:2] == [True, False]


async def test_models_that_are_always_in_use_take_turns(parts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_module, "_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(usage_module, "_TENURE", 0.0)
    some = parts(room=1)
    done = [0, 0]

    async def one_after_another(number: int) -> None:
        while min(done) < 3:
            async with some.usage.of(some.models[number]):
                await asyncio.sleep(0)
                done[number] += 1

    async with asyncio.timeout(60):
        # Two callers each, so that no model is ever without a call for long.
        await asyncio.gather(*(one_after_another(number) for number in (0, 1, 0, 1)))
    assert {0, 1} <= set(some.loads)


async def test_a_failed_load_is_the_error_of_those_who_waited_and_is_tried_again(parts: Any) -> None:
    some = parts(room=1)
    some.outcome = lambda model: BundleError(model.bundle.directory, ["weights.bin is missing"])
    outcomes = await asyncio.gather(*(some.call(0) for _ in range(3)), return_exceptions=True)
    assert all(isinstance(outcome, ModelLoadError) for outcome in outcomes)
    assert str(outcomes[0]) == "small/1 cannot be loaded: weights.bin is missing"
    residency, since, fault = some.usage.residency(some.models[0])
    assert (residency, fault) == (Residency.FAILING, "weights.bin is missing")
    assert since > some.models[0].described_at
    assert some.sample("nmt_model_failing", model="small", version="1") == 1
    some.outcome = some.loaded
    with pytest.raises(ModelLoadError) as later:
        await some.call(0)
    assert 0 < later.value.retry_after_seconds <= 0.5
    assert some.loads == []
    assert some.sample("nmt_model_ready", model="small", version="1") == 0
    some.usage._failures.clear()
    await some.call(0)
    assert some.loads == [0]
    assert some.usage.residency(some.models[0])[0] is Residency.LOADED
    assert some.sample("nmt_model_failing", model="small", version="1") == 0
    assert some.sample("nmt_model_loads_total", result="error") == 1
    assert some.sample("nmt_model_memory_bytes") == some.models[0].memory_bytes


async def test_any_fault_of_a_load_ends_the_wait(parts: Any) -> None:
    some = parts(room=1)

    def fails(model: LoadedModel) -> LoadedModel:
        raise MemoryError

    some.outcome = fails
    with pytest.raises(ModelLoadError):
        await some.call(0)


async def test_a_caller_who_goes_away_leaves_the_load_to_the_others(parts: Any) -> None:
    some = parts(room=1)
    gone, stays = (asyncio.create_task(some.call(0)) for _ in range(2))
    await asyncio.sleep(0)
    gone.cancel()
    await stays
    assert gone.cancelled()
    assert (some.loads, some.usage.calls(some.models[0])) == ([0], 0)


async def test_models_without_calls_leave_after_the_idle_time(parts: Any) -> None:
    some = parts(room=3, idle_seconds=0.01)
    await some.call(0)
    some.usage.start()
    async with some.usage.of(some.models[1]), asyncio.timeout(60):
        while some.sample("nmt_model_evictions_total", reason="idle") != 1:
            await some.usage._until_changed(0.05)
        assert [model.is_resting for model in some.models] == [True, False, True]
    assert some.usage.residency(some.models[0])[0] is Residency.ON_DEMAND


async def test_calls_that_wait_at_the_end_are_told_so(parts: Any) -> None:
    some = parts(room=1)
    async with some.usage.of(some.models[0]):
        waiting = asyncio.create_task(some.call(1))
        await asyncio.sleep(0)
        some.usage.close()
        with pytest.raises(DrainingError):
            await waiting


async def test_a_replaced_bundle_is_not_loaded_in_the_place_of_another(parts: Any, edit_manifest: Any) -> None:
    some = parts(room=1)
    edit_manifest(some.models[0].bundle.directory, lambda manifest: manifest.update(precision="PRECISION_INT8"))
    with pytest.raises(BundleError, match="another bundle has taken its place"):
        some.models[0].load()
