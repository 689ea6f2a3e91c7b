"""Load the bundles of a repository side by side."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from pathlib import Path

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.repository import scan
from xuanzang.server.engine.model import LoadedModel


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
