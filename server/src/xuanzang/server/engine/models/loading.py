"""Loading of bundles: all of a repository side by side, or one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.files import changed_files
from xuanzang.server.bundles.manifest import manifest_digest
from xuanzang.server.bundles.repository import find_bundles
from xuanzang.server.engine.hardware import flush_denormals
from xuanzang.server.engine.models.loaded import LoadedModel
from xuanzang.server.engine.models.replay import replay
from xuanzang.server.engine.models.trial.loader import TrialLoader

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
    directories = await loop.run_in_executor(executor, find_bundles, repository)
    if not directories:
        raise BundleError(repository, ["there is no bundle MODEL/VERSION/ in it"])
    # Nothing is translated before they are loaded: a busy machine would let a process that gives way wait for minutes.
    refused = await trial_loader.refusals(directories, gives_way=False) if trial_loader else {}
    outcomes = await asyncio.gather(
        *(
            loop.run_in_executor(executor, load_model, directory, open_model, trial_loader)
            for directory in directories
            if directory not in refused
        )
    )
    models = [outcome for outcome in outcomes if isinstance(outcome, LoadedModel)]
    return models, [*refused.values(), *(outcome for outcome in outcomes if isinstance(outcome, BundleError))]


def load_model(
    directory: Path, open_model: Callable[[Path], LoadedModel], trial_loader: TrialLoader | None = None
) -> LoadedModel | BundleError:
    """Load one bundle, open its graphs and replay its samples.

    Of a bundle all samples of which were replayed on this machine before, one is enough to find that it computes
    otherwise now, and to warm the graphs up.

    Args:
        directory: Folder of the bundle.
        open_model: Loader of one bundle, which opens its graphs, too.
        trial_loader: What knows whether they were replayed; None to replay them all.

    Returns:
        The model, or the reasons for which it is refused.
    """
    # The threads of sessions and of the replay, which this one starts, must compute as the workers do.
    flush_denormals()
    stage = "opening of its files and graphs"
    try:
        model = open_model(directory)
        stage = "replay of the samples of certificate.json"
        is_known = trial_loader is not None and trial_loader.has_replayed(model.bundle.manifest_sha256)
        replay(model, only_shortest=is_known)
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
        same = manifest_digest(directory) == model.bundle.manifest_sha256
    except BundleError:
        return False
    return same and not any(changed_files(directory, model.bundle.file_states))
