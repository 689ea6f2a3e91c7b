"""Discovery and loading of the bundles in a folder."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.server.bundles.bundle import Bundle
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.graphs.weights import weights_faults
from xuanzang.server.bundles.manifest import manifest_faults, read_manifest
from xuanzang.server.bundles.quality_head import read_quality_head
from xuanzang.server.bundles.samples import read_samples
from xuanzang.server.bundles.verification import VerifiedFiles
from xuanzang.server.bundles.vocabulary import read_vocabulary

_VERSION = re.compile(r"[1-9][0-9]{0,8}")


def find_bundles(root: Path) -> list[Path]:
    """Find the bundles of a repository, `<root>/<model>/<version>/`.

    Args:
        root: Folder of the repository. Hidden folders, and folders whose name is no version, are ignored.

    Returns:
        Folders of bundles, ordered by model and then by version; their contents are not checked.

    Raises:
        BundleError: The repository cannot be read.
    """
    try:
        models = sorted(path for path in root.iterdir() if not path.name.startswith("."))
    except OSError as error:
        raise BundleError(root, [f"the models cannot be listed: {error.strerror}"]) from error
    return [version for model in models for version in _versions(model)]


def _versions(model: Path) -> list[Path]:
    """Return the folders of a model's versions; a folder that cannot be listed is one itself, to be refused."""
    try:
        if not _is_folder(model):
            return []
        folders = [path for path in model.iterdir() if _VERSION.fullmatch(path.name) and _is_folder(path)]
    except OSError:
        return [model]
    return sorted(folders, key=lambda path: int(path.name))


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except OSError:
        # A link that leads nowhere or in circles: it is refused with that reason, not passed over.
        return True


def load_bundle(directory: Path) -> Bundle:
    """Read a bundle and check everything that can be checked without running its graphs.

    Args:
        directory: Folder of the bundle, `<root>/<model>/<version>`.

    Returns:
        The bundle, with every file's digest compared.

    Raises:
        BundleError: The bundle must not be served; all faults that were found are named.
    """
    with ThreadPoolExecutor(1) as beside:
        bundle, require_weights = read_bundle(directory, beside)
        require_weights()
    return bundle


def read_bundle(directory: Path, executor: Executor) -> tuple[Bundle, Callable[[], None]]:
    """Read a bundle and check it as `load_bundle` does, but for the digest of its weights.

    Graphs and tokenisers may be opened meanwhile: their digests have been compared. Nothing may be served before those
    of the weights were, too.

    Args:
        directory: Folder of the bundle, `<root>/<model>/<version>`.
        executor: Thread that computes the digest of the weights.

    Returns:
        The bundle, and a function that waits for the digest and raises BundleError if it is another.

    Raises:
        BundleError: The bundle must not be served; all faults that were found are named.
    """
    directory = directory.absolute()
    manifest, digest = read_manifest(directory)
    files = VerifiedFiles(directory, manifest, executor)
    faults = [*manifest_faults(manifest, directory), *files.faults]
    # Graphs are parsed only if they are the ones that were exported.
    faults = faults or weights_faults(directory, manifest)
    if faults:
        raise BundleError(directory, [*faults, *files.weights_faults()])
    source_vocabulary, target_vocabulary = _read_vocabularies(directory, manifest)
    bundle = Bundle(
        directory=directory,
        manifest=manifest,
        manifest_sha256=digest,
        samples=read_samples(directory, manifest.dimensions),
        file_states=tuple(files.states),
        source_vocabulary=source_vocabulary,
        target_vocabulary=target_vocabulary,
        quality_head=read_quality_head(directory, manifest),
    )
    return bundle, partial(_require_weights, directory, files)


def _require_weights(directory: Path, files: VerifiedFiles) -> None:
    if faults := files.weights_faults():
        raise BundleError(directory, faults)


def _read_vocabularies(directory: Path, manifest: manifest_pb2.Manifest) -> list[Sequence[str]]:
    """Return the tables of source and target ids, empty where the ids are SentencePiece's own."""
    sizes = manifest.dimensions
    sides = (
        (manifest.source_vocabulary, sizes.source_vocab_size),
        (manifest.target_vocabulary, sizes.target_vocab_size),
    )
    tables: dict[tuple[str, int], Sequence[str]] = {}
    faults: list[str] = []
    # Source and target may share a table.
    for name, size in dict.fromkeys(sides):
        try:
            tables[name, size] = read_vocabulary(directory, name, size) if name else ()
        except BundleError as error:
            faults += error.reasons
    if faults:
        raise BundleError(directory, list(dict.fromkeys(faults)))
    return [tables[side] for side in sides]
