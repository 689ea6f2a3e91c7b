"""A worker's thread over real graphs: what it holds of a model, and what the scheduler knows of that."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from tests.unit.server.engine.scheduling.virtual_server import GREEDY, Unread

from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.scheduling.request import CallContext, Request
from xuanzang.server.engine.scheduling.scheduler import Scheduler
from xuanzang.server.engine.scheduling.worker import Worker
from xuanzang.server.engine.settings import EngineSettings, Provider
from xuanzang.server.metrics import Metrics


@pytest.fixture(scope="session")
def model(tiny_bundle_repository: Path, provider: Provider) -> LoadedModel:
    model = LoadedModel(tiny_bundle_repository / "tiny" / "1", Metrics(CollectorRegistry()))
    model.open(EngineSettings(provider=provider))
    return model


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler(EngineSettings(), workers=1)


@pytest.fixture
def worker(scheduler: Scheduler) -> Iterator[Worker]:
    worker = Worker(0, scheduler=scheduler, on_fault=lambda: None)
    yield worker
    scheduler.stop()
    assert worker.join(timeout=60)


async def test_a_dropped_model_gives_its_reserved_memory_back(
    scheduler: Scheduler, worker: Worker, model: LoadedModel
) -> None:
    options = dataclasses.replace(GREEDY, max_target_length=8)
    request = Request(CallContext(model=model), [model.sentence((5, 6, 7), options)], Unread())
    scheduler.submit(request)
    await request.done
    scheduler.close(request, None)
    # Until now the worker kept the memory for later sentences.
    await asyncio.wrap_future(worker.drop(model))
    assert scheduler.reserved_bytes(model.labels) == 0
