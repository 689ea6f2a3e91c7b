"""Loading of bundles: all of a repository side by side, or one."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.files import changed_files, read_limited
from xuanzang.server.bundles.manifest import MANIFEST, MAX_MANIFEST_BYTES
from xuanzang.server.bundles.repository import scan
from xuanzang.server.engine.hardware import flush_denormals
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.models.replay import replay
from xuanzang.server.engine.models.trial_loader import TrialLoader

_LOGGER = logging.getLogger(__name__)


async def load_models(
    repository: Path,
    open_model: Callable[[Path], LoadedModel],
    executor: Executor,
    trial_loader: TrialLoader | None = None,
) -> tuple[list[LoadedModel], list[BundleError]]:
    """Load the bundles of a repository, open their graphs and replay their samples.

    Args:
        repository: Folder of the bundles.
        open_model: Loader of one bundle, which opens its graphs, too.
        executor: Threads to load in.
        trial_loader: Trial loader of bundles in another process; None to trust them.

    Returns:
        Models by name and version, and the reasons for which others are refused.

    Raises:
        BundleError: The repository cannot be read or has no bundle.
    """
    loop = asyncio.get_running_loop()
    directories = await loop.run_in_executor(executor, scan, repository)
    if not directories:
        raise BundleError(repository, ["there is no bundle MODEL/VERSION/ in it"])
    # Nothing is translated before they are loaded: a busy machine would let a process that gives way wait for minutes.
    refused = await trial_loader.refusals(directories, gives_way=False) if trial_loader else {}
    outcomes = await asyncio.gather(
        *(
            loop.run_in_executor(executor, load_model, directory, open_model)
            for directory in directories
            if directory not in refused
        )
    )
    models = [outcome for outcome in outcomes if isinstance(outcome, LoadedModel)]
    return models, [*refused.values(), *(outcome for outcome in outcomes if isinstance(outcome, BundleError))]


def load_model(directory: Path, open_model: Callable[[Path], LoadedModel]) -> LoadedModel | BundleError:
    """Load one bundle, open its graphs and replay its samples.

    Args:
        directory: Folder of the bundle.
        open_model: Loader of one bundle, which opens its graphs, too.

    Returns:
        The model, or the reasons for which it is refused.
    """
    # The replay must compute as the workers do.
    flush_denormals()
    stage = "opening of its files and graphs"
    try:
        model = open_model(directory)
        stage = "replay of the samples of certificate.json"
        replay(model)
        if reasons := list(changed_files(directory, model.bundle.file_states)):
            return BundleError(directory, reasons)
    except BundleError as error:
        return error
    except Exception as error:  # what a library raises of a hostile bundle must refuse this bundle only
        _LOGGER.debug("bundle cannot be loaded", exc_info=True, extra={"bundle": str(directory)})
        return BundleError(directory, [f"cannot be loaded: {type(error).__name__} in the {stage}: {error}"])
    return model


def is_unchanged(model: LoadedModel, directory: Path) -> bool:
    """Return whether the bundle in a folder is the one that was loaded.

    Args:
        model: Loaded model.
        directory: Folder of its version.
    """
    try:
        manifest = read_limited(directory, MANIFEST, MAX_MANIFEST_BYTES)
    except BundleError:
        return False
    same = hashlib.sha256(manifest).hexdigest() == model.bundle.manifest_sha256
    return same and not any(changed_files(directory, model.bundle.file_states))
