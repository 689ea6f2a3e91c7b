"""From the name of a published model to a bundle in the folder of the models.

A checkpoint is imported and exported by the commands `xuanzang import` and `export`, each in a separate process,
whose memory is free afterwards. Unfinished work is in a hidden folder and is renamed when it is complete: a pull may be
killed at any point, and the next one continues. The commands hold the lock as well: the next pull waits for a command
that has outlived its parent, and does not repeat its work.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.command.files import PathName
from xuanzang.hub.endpoint import require_endpoint
from xuanzang.hub.known_models import forbids_commerce, is_pair, known_models
from xuanzang.hub.packages import require_client, require_conversion, require_student_import
from xuanzang.hub.registry import LICENCE, Addresses, LanguagePair, Registry
from xuanzang.hub.unfinished import UnfinishedPull
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.manifest import read_manifest
from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.published import HubError, is_student_name, pulled_bundle
from xuanzang.server.whole_files import write_whole

if TYPE_CHECKING:
    from xuanzang.hub.download import Published

_PULLED_FILE = "pulled.json"
_OUTSIDE_NAMES = re.compile(r"[^a-z0-9._-]+")
_SIMPLIFIED = re.compile(r"-Hans\b", re.IGNORECASE)
"""Script that a pair of Firefox Translations may name or leave out."""
_GIGABYTE = 1e9
# At 77 and 615 million parameters, 0.31 and 2.5 GB of weights: 1.1 and 3.2 GB, the larger of import and export.
_MEMORY_PER_WEIGHT_BYTE, _MEMORY_FLOOR = 1.0, 0.9e9
STUDENT_DISK = 4
"""Bytes on disk for each byte of a student while it is pulled: files as sent and decompressed, then the bundle."""
# The checkpoint, then the graphs in both precisions.
_DISK_PER_WEIGHT_BYTE = 2.7


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """Model to pull, and options of the pull."""

    model: str
    """Name on the hub, or folder of a checkpoint in the same layout."""
    repository: Path
    revision: str | None = None
    """Branch, tag or commit; None: the main branch."""
    name: PathName
    """Name of the bundle."""
    addresses: Addresses
    """Address of the registry of Firefox Translations' models."""
    import_flags: Sequence[str] = ()
    export_flags: Sequence[str] = ()


def bundle_name(model: str) -> PathName:
    """Return the name of the bundle of a model: the last part of the model's, in lower case.

    Args:
        model: Name on the hub, or folder of a checkpoint.

    Raises:
        HubError: Nothing of the name can be part of a bundle's.
    """
    last = Path(model).resolve().name if Path(model).is_dir() else model.rpartition("/")[2]
    if is_student_name(model):
        last = _SIMPLIFIED.sub("", last)
    name = _OUTSIDE_NAMES.sub("-", last.lower()).strip("-._")[:63]
    if not PathName.fits(name):
        raise HubError(f"{model} has no letter or digit for the name of a bundle: give --name")
    return PathName(name)


def pull(request: PullRequest, report: Callable[[str], None], registry: Registry | None = None) -> Path:
    """Bring a model into the folder of bundles, unless it is there already, and return its bundle.

    Args:
        request: Model and options.
        report: Called with lines for the user.
        registry: Registry of Firefox Translations' models, if it has been fetched.

    Raises:
        HubError: The model cannot be pulled; the message says why.
        OSError: A folder cannot be written.
    """
    is_folder = Path(request.model).is_dir()
    if is_pair(request.model) and not is_folder:
        names = ", ".join(each.name for each in known_models(request.model) if each.translates(request.model))
        raise HubError(f"{request.model} is a pair of languages; models for it: {names}")
    request.repository.mkdir(parents=True, exist_ok=True)
    unfinished = UnfinishedPull(request.repository, request.name)
    with unfinished.claimed(report):
        if is_student_name(request.model):
            return _pull_student(request, unfinished, report, registry)
        if is_folder and any(Path(request.model).glob("*vocab*.spm")):
            require_student_import()
            return _build_student(request, unfinished, Path(request.model).absolute(), [])
        if is_folder:
            return _convert(request, unfinished, Path(request.model).absolute(), {}, report)
        return _pull_published(request, unfinished, report)


def _pull_published(request: PullRequest, unfinished: UnfinishedPull, report: Callable[[str], None]) -> Path:
    try:
        require_endpoint()
        require_client()
        from xuanzang.hub import download as hub  # noqa: PLC0415 - its library takes long to import

        model = hub.published(request.model, request.revision, report)
    except HubError as error:
        if request.revision is None and (there := pulled_bundle(request.repository, request.model)):
            report(f"{error}; {there} is from an earlier pull")
            return there
        raise
    if there := pulled_bundle(request.repository, model.name, model.revision):
        unfinished.remove()
        return there
    if forbids_commerce(model.licence):
        report(f"licence {model.licence}: commercial use is forbidden")
    if model.is_bundle:
        return _pull_bundle(request, unfinished, model, report)
    require_conversion()
    files = hub.checkpoint_files(model, report)
    size = sum(model.sizes[name] for name in files)
    require_room(request.repository, size, size)
    report(f"1 of 3: download, {size / _GIGABYTE:.2f} GB, commit {model.revision[:12]}")
    downloaded = hub.download(model, files, report)
    digests = dict(downloaded.digests)
    origin = {"name": model.name, "revision": model.revision, "licence": model.licence, "files": digests}
    view = unfinished.emptied(f"{_work(request, origin)}/files")
    for name in files:
        (view / name).symlink_to((downloaded.folder / name).resolve())
    (view / _PULLED_FILE).write_text(json.dumps(origin), encoding="utf-8")
    return _convert(request, unfinished, view, origin, report)


def _pull_bundle(
    request: PullRequest, unfinished: UnfinishedPull, model: Published, report: Callable[[str], None]
) -> Path:
    """Download a bundle, check it as a server would, and move it into its folder."""
    from xuanzang.hub import download as hub  # noqa: PLC0415 - as above

    files = sorted(name for name in model.sizes if not name.startswith(".") and "/" not in name)
    size = sum(model.sizes[name] for name in files)
    require_room(request.repository, size, 0)
    report(f"download of a bundle, {size / _GIGABYTE:.2f} GB, commit {model.revision[:12]}")
    downloaded = hub.download(model, files, report).folder
    manifest = _manifest(model.name, downloaded)
    place = _place(request.repository, PathName(manifest.model)) / str(manifest.version)
    listed = {file.name for file in manifest.files} | {"manifest.json"}
    unfinished.remove()
    # A bundle is checked in folders with its names.
    scratch = unfinished.emptied(f"{manifest.model}/{manifest.version}")
    for name in listed & set(files):
        shutil.copyfile(downloaded / name, scratch / name)
    try:
        load_bundle(scratch)
    except BundleError as error:
        unfinished.remove()
        raise HubError(f"{model.name} is not a sound bundle: {'; '.join(error.reasons)}") from error
    if place.exists():
        raise HubError(f"{place} exists and is another bundle: remove it, or give another --repository")
    place.parent.mkdir(exist_ok=True)
    origin = {"name": model.name, "revision": model.revision}
    write_whole(place.parent / f".{place.name}.pulled", json.dumps(origin).encode())
    scratch.rename(place)
    unfinished.remove()
    return place


def _pull_student(
    request: PullRequest, unfinished: UnfinishedPull, report: Callable[[str], None], registry: Registry | None
) -> Path:
    """Fetch a student of Firefox Translations, and make a bundle of it."""
    require_student_import()
    from xuanzang.hub import transfer  # noqa: PLC0415 - a server has not its libraries

    LanguagePair.of_name(request.model)
    if request.revision is not None:
        raise HubError(f"{request.model} has no --revision: its registry lists the newest releases alone")
    try:
        registry = registry or transfer.fetch_registry(request.addresses, report)
    except HubError as error:
        if there := pulled_bundle(request.repository, request.model):
            report(f"{error}; {there} is from an earlier pull")
            return there
        raise
    model = registry.newest(request.model)
    if there := pulled_bundle(request.repository, model.name, model.revision):
        unfinished.remove()
        return there
    require_room(request.repository, STUDENT_DISK * model.content_size, 0)
    address = transfer.files_address(request.addresses, registry)
    report(f"{model.name}, {model.architecture}, {model.revision}, {model.content_size / 1e6:.0f} MB")
    report(f"licence: {LICENCE}")
    work = _work(request, {"name": model.name, "revision": model.revision})
    folder = unfinished.kept(f"{work}/files")
    folder.mkdir(exist_ok=True)
    for file in model.files:
        transfer.fetch_file(file, address, folder, report)
    flags = [f"--name={model.name}", f"--revision={model.revision}", f"--licence={LICENCE}"]
    flags += [f"--architecture={model.architecture}"]
    flags += [f"--{side}-language={code}" for side, code in zip(("source", "target"), model.languages, strict=True)]
    return _build_student(request, unfinished, folder, flags)


def _build_student(request: PullRequest, unfinished: UnfinishedPull, folder: Path, flags: Sequence[str]) -> Path:
    """Make a bundle of a student's files, in a separate process."""
    _place(request.repository, request.name)
    place = ["--repository", str(request.repository), "--model", request.name]
    given = [str(folder), *place, *flags, *request.import_flags, *request.export_flags]
    shown = _run("xuanzang.hub.building", given, unfinished.emptied("scratch"))
    unfinished.remove()
    return Path(shown.splitlines()[-1])


def _manifest(name: str, folder: Path) -> manifest_pb2.Manifest:
    """Read the manifest of a bundle, whose model and version become names of folders."""
    try:
        manifest, _ = read_manifest(folder)
    except BundleError as error:
        raise HubError(f"{name} is not a sound bundle: {'; '.join(error.reasons)}") from error
    if not PathName.fits(manifest.model) or manifest.version < 1:
        raise HubError(f"{name} is not a sound bundle: it names itself {manifest.model!r}, {manifest.version}")
    return manifest


def _place(repository: Path, name: PathName) -> Path:
    """Return the folder of a model's versions, which is in the repository itself."""
    folder = repository / name
    if folder.is_symlink():
        raise HubError(f"{folder} is a link: give the folder that it leads into as --repository")
    return folder


def _convert(
    request: PullRequest,
    unfinished: UnfinishedPull,
    folder: Path,
    origin: Mapping[str, object],
    report: Callable[[str], None],
) -> Path:
    """Import and export a checkpoint in a folder; `origin` is empty for a folder of the user."""
    require_conversion()
    _place(request.repository, request.name)
    work = _work(request, origin)
    checkpoint = unfinished.folder / work / "checkpoint"
    # A folder on this machine may have changed since.
    if not (origin and (checkpoint / "config.json").is_file()):
        report("2 of 3: import" if origin else "1 of 2: import")
        checkpoint = unfinished.cleared(f"{work}/checkpoint")
        flags = [str(folder), "--output", str(checkpoint), *request.import_flags]
        _run("xuanzang.command", ["import", *flags], unfinished.emptied(f"{work}/scratch"))
    report("3 of 3: export, int8 unless flags say otherwise" if origin else "2 of 2: export")
    flags = ["--checkpoint", str(checkpoint), "--repository", str(request.repository), "--model", request.name]
    shown = _run("xuanzang.command", ["export", *flags, *request.export_flags], unfinished.emptied(f"{work}/scratch"))
    unfinished.remove()
    return Path(shown.splitlines()[-1])


def _work(request: PullRequest, origin: Mapping[str, object]) -> str:
    """Return the name of the folder that pulls with the same result continue in."""
    result = json.dumps([origin.get("name"), origin.get("revision"), *request.import_flags])
    return hashlib.sha256(result.encode()).hexdigest()[:12]


def _run(module: str, arguments: Sequence[str], scratch: Path) -> str:
    """Run a program in a separate process and return its output.

    Args:
        module: Module of the program.
        arguments: Its arguments.
        scratch: Empty folder for its temporary files.
    """
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", module, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        close_fds=False,  # it holds the lock, too
        env=os.environ | {"TMPDIR": str(scratch)},
    )
    if done.returncode:
        name = f"xuanzang {arguments[0]}" if module == "xuanzang.command" else "the conversion"
        raise HubError(f"{name} ended with status {done.returncode}; the lines above say why")
    return done.stdout


def require_room(repository: Path, download: float, weights: float) -> None:
    """Raise HubError unless disk and memory suffice for bytes of a download and of weights to convert."""
    needed = download + _DISK_PER_WEIGHT_BYTE * weights
    free = shutil.disk_usage(repository).free
    if free < needed:
        raise HubError(f"{repository} needs {math.ceil(needed / 1e6)} MB, and {free // 10**6} MB are free")
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
