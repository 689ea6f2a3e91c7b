"""Published models by their names: where their bundles lie, and who brings them there."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.manifest import read_manifest
from xuanzang.server.bundles.repository import find_bundles

STUDENT_PREFIX = "firefox:"
EVERY_PAIR = f"{STUDENT_PREFIX}all"
"""Name that stands for the models of all pairs of Firefox Translations."""

_LOGGER = logging.getLogger(__name__)
# On a hub, or a pair of languages of Firefox Translations.
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*|firefox:[A-Za-z-]+")
# Of functions that pull: name, repository, report, before_pull → bundles; xuanzang.hub has one.
_GROUP = "xuanzang.published"


class HubError(Exception):
    """A model that cannot be pulled or pushed; the message says why and, if it can, what to do."""


def default_repository(environment: Mapping[str, str]) -> Path:
    """Return the user's folder of models, which `xuanzang serve` reads, too: in XDG_DATA_HOME, if that is set."""
    data = environment.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "xuanzang" / "models"


def is_student_name(name: str) -> bool:
    """Return whether a name is that of a model of Firefox Translations, such as "firefox:zh-en", or of all of them."""
    return name.startswith(STUDENT_PREFIX)


def pulled_bundle(repository: Path, model: str, revision: str = "") -> Path | None:
    """Return the newest bundle that was made of a published model, at some commit or any; None if there is none."""
    for origin, folder in pulled_bundles(repository):
        if origin.name == model and revision in ("", origin.revision):
            return folder
    return None


class Origin(NamedTuple):
    """Published model that a bundle was made of; empty if it was not."""

    name: str
    revision: str


def pulled_bundles(repository: Path) -> Iterator[tuple[Origin, Path]]:
    """Yield the bundles of a folder with their origins, newer versions of a model before older ones."""
    try:
        folders = find_bundles(repository)
    except BundleError:
        return
    for folder in reversed(folders):
        with contextlib.suppress(BundleError):
            source = read_manifest(folder)[0].provenance.source
            pushed = json_object(folder.parent / f".{folder.name}.pulled")
            origins = {
                Origin(source.name, source.revision),
                Origin(str(pushed.get("name")), str(pushed.get("revision"))),
            }
            for origin in origins:
                yield origin, folder


def published_bundles(
    name: str, repository: Path, report: Callable[[str], None], *, before_pull: Callable[[], None] = lambda: None
) -> Sequence[Path]:
    """Return the bundles that a name stands for, pulling those that are not there; HubError: none can be had.

    A name stands for one bundle, except `EVERY_PAIR`. `report` gets lines on the progress; an exception of
    `before_pull` ends the call.
    """
    if there := pulled_bundle(repository, name):
        return [there]
    for entry in entry_points(group=_GROUP):
        bundles: Sequence[Path] = entry.load()(name, repository, report, before_pull)
        return bundles
    raise HubError(f"{name} cannot be pulled: no package is installed that pulls models")


def json_object(path: Path) -> Mapping[str, object]:
    """Return the object that a file holds in JSON; an empty one if it holds none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def folder_of(models: str | os.PathLike[str]) -> Path:
    """Return a folder of bundles: the given one or, for the name of published models, one with these alone.

    The model is pulled unless it is there; HubError says why it cannot be had.
    """
    folder, name = Path(models), os.fspath(models)
    if folder.exists() or not _NAME.fullmatch(name):
        return folder
    repository = default_repository(os.environ)
    bundles = published_bundles(name, repository, _LOGGER.info)
    alone = repository / f".{bundles[0].parent.name if len(bundles) == 1 else name.replace(':', '-')}.alone"
    alone.mkdir(exist_ok=True)
    for model in {bundle.parent for bundle in bundles}:
        with contextlib.suppress(FileExistsError):
            (alone / model.name).symlink_to(model)
    return alone
