"""Models that are loaded by their first requests, and rest."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from xuanzang.server.bundles import repository as repository_module
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.files import FileState, digest_of
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
        self.trials = dict[int, asyncio.Future[None]]()
        """Outcomes of the trials of models by their numbers; others have passed."""
        self.outcome: Outcome = self.loaded
        self.usage = ModelUsage(
            OnDemand(memory_bytes=room * self.models[0].memory_bytes, idle_seconds=idle_seconds),
            load=lambda model: self.outcome(model),  # noqa: PLW0108 - tests replace it
            require_trial=self._require_trial,
            drop=self._drop,
            metrics=self.metrics.server,
        )

    def loaded(self, model: LoadedModel) -> LoadedModel:
        self.loads.append(self.models.index(model))
        model.load()
        return model

    def begin_trial(self, number: int) -> asyncio.Future[None]:
        trial = self.trials[number] = asyncio.get_running_loop().create_future()
        return trial

    async def _require_trial(self, model: LoadedModel) -> None:
        if trial := self.trials.get(self.models.index(model)):
            await trial

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


@pytest.fixture
async def some(parts: Any) -> Any:
    """Models, and room for one of them."""
    return parts(room=1)


async def test_calls_that_come_together_load_their_model_once(some: Any) -> None:
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


async def test_a_model_in_use_stays_until_its_call_has_ended(some: Any) -> None:
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


async def test_models_that_are_always_in_use_take_turns(some: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_module, "_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(usage_module, "_TENURE", 0.0)
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


async def test_a_failed_load_is_the_error_of_those_who_waited_and_is_tried_again(
    some: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage_module, "_FIRST_BACK_OFF_SECONDS", 30.0)

    def fails(model: LoadedModel) -> LoadedModel:
        raise MemoryError

    some.outcome = fails
    with pytest.raises(ModelLoadError):
        await some.call(0)
    some.usage._history.clear()
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
    assert 0 < later.value.retry_after_seconds <= 30
    assert some.loads == []
    assert some.sample("nmt_model_ready", model="small", version="1") == 0
    some.usage._history.clear()
    await some.call(0)
    assert some.loads == [0]
    assert some.usage.residency(some.models[0])[0] is Residency.LOADED
    assert some.sample("nmt_model_failing", model="small", version="1") == 0
    assert some.sample("nmt_model_loads_total", result="error") == 2
    assert some.sample("nmt_model_memory_bytes") == some.models[0].memory_bytes


async def test_a_trial_delays_only_the_calls_of_its_model_and_is_held_once(parts: Any) -> None:
    some = parts(room=3)
    some.usage._max_loads = 1
    some.begin_trial(0)
    waiting = [asyncio.create_task(some.call(0)) for _ in range(3)]
    await asyncio.sleep(0)
    await some.call(1)
    await some.call(2)
    assert some.loads == [1, 2]
    assert some.usage.residency(some.models[0])[0] is Residency.LOADING
    some.trials.pop(0).set_result(None)
    await asyncio.gather(*waiting)
    assert some.loads == [1, 2, 0]


async def test_a_model_that_fails_its_trial_is_not_loaded(some: Any) -> None:
    refusal = BundleError(some.models[0].bundle.directory, ["loading it ends the process that loads it: SIGABRT"])
    some.begin_trial(0).set_exception(refusal)
    outcomes = await asyncio.gather(*(some.call(0) for _ in range(3)), return_exceptions=True)
    assert {str(each) for each in outcomes} == {f"small/1 cannot be loaded: {refusal.reasons[0]}"}
    assert all(isinstance(each, ModelLoadError) for each in outcomes)
    some.usage._history.clear()
    with pytest.raises(ModelLoadError):
        await some.call(0)
    assert some.loads == []
    assert some.models[0].is_resting
    del some.trials[0]
    some.usage._history.clear()
    await some.call(0)
    assert some.loads == [0]


@pytest.mark.parametrize("passes", [True, False])
async def test_a_trial_that_ends_after_its_model_was_forgotten_says_nothing_of_it(some: Any, passes: bool) -> None:
    trial = some.begin_trial(0)
    with pytest.raises(DeadlineExceededError):
        await some.call(0, time.monotonic() + 0.01)
    assert not some.usage.calls(some.models[0])
    await some.usage.ended(some.models[0])
    some.usage.forget(some.models[0])
    if passes:
        trial.set_result(None)
    else:
        trial.set_exception(BundleError(some.models[0].bundle.directory, ["it is gone"]))
    await some.call(1)
    again = some.begin_trial(0)
    call = asyncio.create_task(some.call(0))
    await asyncio.sleep(0)
    assert not call.done()
    again.set_result(None)
    await call
    assert some.loads == [1, 0]


async def test_a_caller_who_goes_away_leaves_the_load_to_the_others(some: Any) -> None:
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


async def test_calls_that_wait_at_the_end_are_told_so(some: Any) -> None:
    async with some.usage.of(some.models[0]):
        waiting = asyncio.create_task(some.call(1))
        await asyncio.sleep(0)
        some.usage.close()
        with pytest.raises(DrainingError):
            await waiting


async def test_memory_is_taken_at_the_begin_the_longest_wait_first(parts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_module, "usable_cores", lambda: 1)
    some = parts(room=2)
    goes_on, resting = threading.Event(), []

    def loaded(model: LoadedModel) -> LoadedModel:
        goes_on.wait(60)
        resting.append([model.is_resting for model in some.models])
        some.loads.append(some.models.index(model))
        model.load()
        return model

    some.outcome = loaded
    # While 0 is loaded, 1 is wanted once, and 2 four times a moment later, which adds up to more.
    began = time.monotonic()
    first = [asyncio.create_task(some.call(0)), asyncio.create_task(some.call(1))]
    await asyncio.sleep(0.001)
    later = [asyncio.create_task(some.call(2)) for _ in range(4)]
    await asyncio.sleep(0)
    # However long the moment was.
    await asyncio.sleep(time.monotonic() - began + 0.01)
    assert some.sample("nmt_model_memory_bytes") == some.models[0].memory_bytes
    goes_on.set()
    await asyncio.gather(*first, *later)
    assert some.loads == [0, 2, 1]
    # 0 left only when it was the turn of 1.
    assert resting == [[True] * 3, [False, True, True], [True, True, False]]


async def test_a_queued_model_that_is_wanted_no_more_is_not_loaded(parts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_module, "usable_cores", lambda: 1)
    some = parts(room=2)
    calls = [asyncio.create_task(some.call(number)) for number in (0, 1)]
    await asyncio.sleep(0)
    calls[1].cancel()
    await asyncio.wait(calls)
    assert some.loads == [0]
    assert some.usage.residency(some.models[1])[0] is Residency.ON_DEMAND
    await some.usage.ended(some.models[1])
    await some.call(1)
    assert some.loads == [0, 1]


async def test_checked_files_are_not_read_again_until_they_change(some: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, read = some.models[0], list[str]()

    def recorded(file: BufferedReader) -> tuple[str, FileState]:
        read.append(Path(file.name).name)
        return digest_of(file)

    monkeypatch.setattr(repository_module, "digest_of", recorded)
    model.load()
    assert "weights.bin" in read
    read.clear()
    # Written a moment ago: another write may leave the same state.
    model.close()
    model.load()
    assert "weights.bin" in read
    monkeypatch.setattr(repository_module, "_SETTLING_NS", -(10**18))
    model.close()
    model.load()
    read.clear()
    model.close()
    model.load()
    assert read == []
    weights = model.bundle.directory / "weights.bin"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    model.close()
    for _ in range(2):
        with pytest.raises(BundleError, match=r"weights\.bin has SHA-256"):
            model.load()
        model.close()


async def test_a_replaced_bundle_is_not_loaded_in_the_place_of_another(some: Any, edit_manifest: Any) -> None:
    edit_manifest(some.models[0].bundle.directory, lambda manifest: manifest.update(precision="PRECISION_INT8"))
    with pytest.raises(BundleError, match="another bundle has taken its place"):
        some.models[0].load()
