"""Published models by their names: where their bundles lie, and who brings them there."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path

_LOGGER = logging.getLogger(__name__)
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# Of functions as `published_bundle`; xuanzang-hub has one, which the server does not need.
_GROUP = "xuanzang.published"


class HubError(Exception):
    """A model that cannot be pulled or pushed; the message says why and, if it can, what to do."""


def default_repository(environment: Mapping[str, str]) -> Path:
    """Return the user's folder of models, which `xuanzang serve` reads, too: in XDG_DATA_HOME, if that is set."""
    data = environment.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "xuanzang" / "models"


def published_bundle(
    name: str, repository: Path, report: Callable[[str], None], *, before_pull: Callable[[], None] = lambda: None
) -> Path:
    """Return the bundle of a published model, which is pulled if it is not there.

    Args:
        name: Name on the hub, such as "Helsinki-NLP/opus-mt-zh-en".
        repository: Folder of bundles.
        report: Callback for lines on what is being done.
        before_pull: Callback before a pull; an exception of it ends the call.

    Raises:
        HubError: The model cannot be had.
    """
    for entry in entry_points(group=_GROUP):
        bundle: Path = entry.load()(name, repository, report, before_pull=before_pull)
        return bundle
    raise HubError(f"{name} can be pulled with the package xuanzang-hub: pip install -e hub in a clone")


def folder_of(models: str | os.PathLike[str]) -> Path:
    """Return a folder of bundles: the one that is given or, for the name of a published model, one with it alone.

    The model is pulled unless it is there; HubError says why it cannot be had.
    """
    folder, name = Path(models), os.fspath(models)
    if folder.exists() or not _NAME.fullmatch(name):
        return folder
    repository = default_repository(os.environ)
    bundle = published_bundle(name, repository, _LOGGER.info)
    alone = repository / f".{bundle.parent.name}.alone"
    alone.mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError):
        (alone / bundle.parent.name).symlink_to(bundle.parent)
    return alone
