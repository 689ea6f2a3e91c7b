"""Load the bundles of a repository and open their graphs, side by side."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path

from xuanzang.server.bundles.bundle import Bundle
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.repository import scan
from xuanzang.server.engine.denormals import flush_denormals
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.models.replay import replay
from xuanzang.server.engine.scheduling.model_runner import NewDecoder
from xuanzang.server.metrics import Metrics

OpenGraphs = Callable[[Bundle], NewDecoder]
"""Opens the graphs of a bundle."""


async def load_models(repository: Path, executor: Executor) -> tuple[list[LoadedModel], list[BundleError]]:
    """Load all bundles of a repository.

    Args:
        repository: That holds them.
        executor: Whose threads do the work.

    Returns:
        Models by name and version, and why others are refused.

    Raises:
        BundleError: If the repository cannot be read or has no bundle.
    """
    loop = asyncio.get_running_loop()
    directories = await loop.run_in_executor(executor, scan, repository)
    if not directories:
        raise BundleError(repository, ["there is no bundle MODEL/VERSION/ in it"])
    outcomes = await asyncio.gather(*(loop.run_in_executor(executor, _load, directory) for directory in directories))
    models = [outcome for outcome in outcomes if isinstance(outcome, LoadedModel)]
    return models, [outcome for outcome in outcomes if isinstance(outcome, BundleError)]


def _load(directory: Path) -> LoadedModel | BundleError:
    try:
        return LoadedModel(directory)
    except BundleError as error:
        return error


async def open_models(
    models: Sequence[LoadedModel], open_graphs: OpenGraphs, *, metrics: Metrics, executor: Executor
) -> tuple[dict[LoadedModel, NewDecoder], list[BundleError]]:
    """Open the graphs of models, which all workers share, and replay their samples.

    Args:
        models: Loaded.
        open_graphs: What opens them.
        metrics: That keep how long it takes.
        executor: Whose threads do the work.

    Returns:
        What makes decoders of each model, and why other models are refused.
    """
    loop = asyncio.get_running_loop()
    outcomes = await asyncio.gather(
        *(loop.run_in_executor(executor, _open, model, open_graphs, metrics) for model in models)
    )
    opened = {model: out for model, out in zip(models, outcomes, strict=True) if not isinstance(out, BundleError)}
    return opened, [outcome for outcome in outcomes if isinstance(outcome, BundleError)]


def _open(model: LoadedModel, open_graphs: OpenGraphs, metrics: Metrics) -> NewDecoder | BundleError:
    # Samples are replayed as workers decode.
    flush_denormals()
    own = metrics.of(model.labels)
    started = time.monotonic()
    try:
        new_decoder = open_graphs(model.bundle)
        opened = time.monotonic()
        replay(model, new_decoder)
    except BundleError as error:
        return error
    own.model_load_duration_seconds.set(model.load_seconds + opened - started)
    own.warmup_duration_seconds.set(time.monotonic() - opened)
    return new_decoder
