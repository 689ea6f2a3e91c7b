"""Loading of all bundles of a repository, side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.repository import scan
from xuanzang.server.engine.hardware import flush_denormals
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.models.replay import replay


async def load_models(
    repository: Path, open_model: Callable[[Path], LoadedModel], executor: Executor
) -> tuple[list[LoadedModel], list[BundleError]]:
    """Load the bundles of a repository, open their graphs and replay their samples.

    Args:
        repository: Folder of the bundles.
        open_model: Loader of one bundle, which opens its graphs, too.
        executor: Threads to load in.

    Returns:
        Models by name and version, and the reasons for which others are refused.

    Raises:
        BundleError: The repository cannot be read or has no bundle.
    """
    loop = asyncio.get_running_loop()
    directories = await loop.run_in_executor(executor, scan, repository)
    if not directories:
        raise BundleError(repository, ["there is no bundle MODEL/VERSION/ in it"])
    outcomes = await asyncio.gather(
        *(loop.run_in_executor(executor, _load, directory, open_model) for directory in directories)
    )
    models = [outcome for outcome in outcomes if isinstance(outcome, LoadedModel)]
    return models, [outcome for outcome in outcomes if isinstance(outcome, BundleError)]


def _load(directory: Path, open_model: Callable[[Path], LoadedModel]) -> LoadedModel | BundleError:
    # The replay must compute as the workers do.
    flush_denormals()
    try:
        model = open_model(directory)
        replay(model)
    except BundleError as error:
        return error
    return model
