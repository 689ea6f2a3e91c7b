"""From the name of a published model to a bundle in the folder of the models.

A checkpoint is imported and exported by the commands `xuanzang import` and `export`, each in a process of its own,
whose memory is free afterwards. Everything unfinished is in a hidden folder, which no server reads, and is renamed when
it is whole: a pull may be killed at any point, and the next one goes on. The commands hold the lock as well: the next
pull waits for one that has outlived its parent, and does not repeat what that has done.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.hub.endpoint import require_endpoint
from xuanzang.hub.known_models import forbids_commerce, is_pair, known_models
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.manifest import read_manifest
from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.published import HubError, pulled_bundle

if TYPE_CHECKING:
    from xuanzang.hub.download import Published

_UNFINISHED = ".pulling"
_PULLED_FILE = "pulled.json"
_NAME = re.compile(r"[^a-z0-9._-]+")
_BUNDLE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_GIGABYTE = 1e9
# Measured at 77 and 615 million parameters: 1.4 and 3.9 GB, the larger of import and export.
_MEMORY_PER_WEIGHT_BYTE, _MEMORY_FLOOR = 1.2, 1.1e9
# The checkpoint, then the graphs in both precisions.
_DISK_PER_WEIGHT_BYTE = 2.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Model to pull, and options of the pull."""

    model: str
    """Name on the hub, or folder of a checkpoint in the same layout."""
    repository: Path
    revision: str | None = None
    """Branch, tag or commit; None: the main branch."""
    name: str = ""
    """Name of the bundle; empty: that of the model, in lower case."""
    import_flags: Sequence[str] = ()
    export_flags: Sequence[str] = ()

    @property
    def bundle_name(self) -> str:
        """Name of the bundle."""
        return self.name or _NAME.sub("-", Path(self.model).name.lower()).strip("-._")[:63]


def published_bundle(name: str, repository: Path, report: Callable[[str], None]) -> Path:
    """Pull a model for `xuanzang.server.published`, and return its bundle."""
    return pull(Wish(model=name, repository=repository.absolute()), report)


def pull(wish: Wish, report: Callable[[str], None]) -> Path:
    """Bring a model into the folder of bundles, unless it is there already; HubError says why it cannot be had."""
    if is_pair(wish.model) and not Path(wish.model).is_dir():
        names = ", ".join(each.name for each in known_models(wish.model) if each.translates(wish.model))
        raise HubError(f"{wish.model} is a pair of languages; models for it: {names}")
    wish.repository.mkdir(parents=True, exist_ok=True)
    with _alone(wish, report):
        if Path(wish.model).is_dir():
            return _converted(wish, Path(wish.model), {}, report)
        return _pulled(wish, report)


def _pulled(wish: Wish, report: Callable[[str], None]) -> Path:
    try:
        require_endpoint()
        from xuanzang.hub import download as hub  # noqa: PLC0415 - its library takes long to import

        model = hub.published(wish.model, wish.revision, report)
    except HubError as error:
        if wish.revision is None and (there := pulled_bundle(wish.repository, wish.model)):
            report(f"{error}; {there} is from an earlier pull")
            return there
        raise
    if there := pulled_bundle(wish.repository, model.name, model.revision):
        shutil.rmtree(_unfinished(wish), ignore_errors=True)
        return there
    if forbids_commerce(model.licence):
        report(f"licence {model.licence}: commercial use is forbidden")
    if model.is_bundle:
        return _ready(wish, model, report)
    files = hub.checkpoint_files(model, report)
    size = sum(model.sizes[name] for name in files)
    _require_room(wish, size, size)
    report(f"1 of 3: download, {size / _GIGABYTE:.2f} GB, commit {model.revision[:12]}")
    here = hub.download(model, files, report)
    origin = {"name": model.name, "revision": model.revision, "licence": model.licence, "files": dict(here.digests)}
    with _view(wish, here.folder, files, origin) as folder:
        return _converted(wish, folder, origin, report)


def _ready(wish: Wish, model: Published, report: Callable[[str], None]) -> Path:
    """Download a bundle, check it as a server would, and put it into its place."""
    from xuanzang.hub import download as hub  # noqa: PLC0415 - as above

    files = sorted(name for name in model.sizes if not name.startswith(".") and "/" not in name)
    size = sum(model.sizes[name] for name in files)
    _require_room(wish, size, 0)
    report(f"download of a bundle, {size / _GIGABYTE:.2f} GB, commit {model.revision[:12]}")
    here = hub.download(model, files, report).folder
    manifest = _manifest(model.name, here)
    listed = {file.name for file in manifest.files} | {"manifest.json"}
    scratch = _unfinished(wish) / manifest.model / str(manifest.version)
    shutil.rmtree(_unfinished(wish), ignore_errors=True)
    scratch.mkdir(parents=True)
    for name in listed & set(files):
        shutil.copyfile(here / name, scratch / name)
    try:
        load_bundle(scratch)
    except BundleError as error:
        shutil.rmtree(_unfinished(wish), ignore_errors=True)
        raise HubError(f"{model.name} is not a sound bundle: {'; '.join(error.reasons)}") from error
    place = wish.repository / manifest.model / str(manifest.version)
    if place.exists():
        raise HubError(f"{place} exists and is another bundle: remove it, or give another --repository")
    place.parent.mkdir(exist_ok=True)
    origin = {"name": model.name, "revision": model.revision}
    (place.parent / f".{place.name}.pulled").write_text(json.dumps(origin), encoding="utf-8")
    scratch.rename(place)
    shutil.rmtree(_unfinished(wish), ignore_errors=True)
    return place


def _manifest(name: str, folder: Path) -> manifest_pb2.Manifest:
    """Read the manifest of a bundle, whose model and version become names of folders."""
    try:
        manifest, _ = read_manifest(folder)
    except BundleError as error:
        raise HubError(f"{name} is not a sound bundle: {'; '.join(error.reasons)}") from error
    if not _BUNDLE_NAME.fullmatch(manifest.model) or manifest.version < 1:
        raise HubError(f"{name} is not a sound bundle: it names itself {manifest.model!r}, {manifest.version}")
    return manifest


def _converted(wish: Wish, folder: Path, origin: Mapping[str, object], report: Callable[[str], None]) -> Path:
    work = _work_folder(wish, origin)
    checkpoint = work / "checkpoint"
    # A folder on this machine may have changed since.
    if not (origin and (checkpoint / "config.json").is_file()):
        report("2 of 3: import" if origin else "1 of 2: import")
        shutil.rmtree(checkpoint, ignore_errors=True)
        _run(["import", str(folder), "--output", str(checkpoint), *wish.import_flags], work / "scratch")
    report("3 of 3: export, int8 unless flags say otherwise" if origin else "2 of 2: export")
    flags = ["--checkpoint", str(checkpoint), "--repository", str(wish.repository), "--model", wish.bundle_name]
    shown = _run(["export", *flags, *wish.export_flags], work / "scratch")
    shutil.rmtree(_unfinished(wish), ignore_errors=True)
    return Path(shown.splitlines()[-1])


def _run(arguments: Sequence[str], scratch: Path) -> str:
    """Run a command of this program in a process of its own and return what it printed.

    Args:
        arguments: Name of the command, and its arguments.
        scratch: Folder for its temporary files; those of a process that was killed are deleted.
    """
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    command = [sys.executable, "-m", "xuanzang.command", *arguments]
    done = subprocess.run(  # noqa: S603 - our own program
        command,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        close_fds=False,  # it holds the lock, too
        env=os.environ | {"TMPDIR": str(scratch)},
    )
    if done.returncode:
        raise HubError(f"xuanzang {arguments[0]} ended with status {done.returncode}; the lines above say why")
    return done.stdout


@contextlib.contextmanager
def _view(wish: Wish, folder: Path, files: Sequence[str], origin: Mapping[str, object]) -> Iterator[Path]:
    """Yield a folder of links to the files that were asked for, and what is known of them."""
    view = _work_folder(wish, origin) / "files"
    shutil.rmtree(view, ignore_errors=True)
    view.mkdir(parents=True)
    for name in files:
        (view / name).symlink_to((folder / name).resolve())
    (view / _PULLED_FILE).write_text(json.dumps(origin), encoding="utf-8")
    yield view


def _unfinished(wish: Wish) -> Path:
    """Return the folder of all that is not finished, for whoever holds the lock."""
    return wish.repository / _UNFINISHED / wish.bundle_name


def _work_folder(wish: Wish, origin: Mapping[str, object]) -> Path:
    """Return the folder of what a pull with the same result can go on with."""
    result = json.dumps([origin.get("name"), origin.get("revision"), *wish.import_flags])
    return _unfinished(wish) / hashlib.sha256(result.encode()).hexdigest()[:12]


@contextlib.contextmanager
def _alone(wish: Wish, report: Callable[[str], None]) -> Iterator[None]:
    """Let no other process pull the same model into the same folder meanwhile."""
    folder = wish.repository / _UNFINISHED
    folder.mkdir(exist_ok=True)
    with (folder / f"{wish.bundle_name}.lock").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(f"another process is pulling {wish.bundle_name} into {wish.repository}: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _require_room(wish: Wish, download: float, weights: float) -> None:
    """Raise HubError unless disk and memory suffice, before gigabytes are moved."""
    needed = download + _DISK_PER_WEIGHT_BYTE * weights
    free = shutil.disk_usage(wish.repository).free
    if free < needed:
        raise HubError(f"{wish.repository} needs {needed / _GIGABYTE:.1f} GB, and {free / _GIGABYTE:.1f} GB are free")
    memory = _MEMORY_PER_WEIGHT_BYTE * weights + _MEMORY_FLOOR
    available = _available_memory()
    if weights and available is not None and available < memory:
        raise HubError(
            f"the conversion takes about {memory / _GIGABYTE:.1f} GB of memory, and {available / _GIGABYTE:.1f} GB are "
            "available: pull it on a larger machine, and `xuanzang push` the bundle"
        )


def _available_memory() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
