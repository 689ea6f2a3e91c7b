"""Discovery and loading of the bundles in a folder."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.server.bundles.bundle import Bundle, read_samples
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.files import FileError, FileState, digest_of, open_regular, state_of
from xuanzang.server.bundles.graphs import weights_faults
from xuanzang.server.bundles.lexicon import read_lexicon
from xuanzang.server.bundles.manifest import (
    MANIFEST,
    MAX_FILES,
    is_plain_name,
    manifest_digest,
    manifest_faults,
    max_bytes,
    read_manifest,
)
from xuanzang.server.bundles.quality_head import read_quality_head
from xuanzang.server.bundles.vocabulary import read_vocabulary

# Bundles have ten files at the most; a folder with a million must not fill the memory.
_MAX_ENTRIES = 1000
# Kubernetes keeps the files of a volume in folders of such names ("..data") and links to them.
_VOLUME_PREFIX = ".."
_VERSION = re.compile(r"[1-9][0-9]{0,8}")
# A file that is written twice within one tick of the file system's clock may have the same state both times.
_SETTLING_NS = 2 * 10**9


class VerifiedFiles:
    """Comparison of a bundle's files with its manifest.

    The digest of the weights, which takes a second for a gigabyte, is computed in another thread.
    """

    def __init__(
        self,
        directory: Path,
        manifest: manifest_pb2.Manifest,
        executor: Executor,
        known: Collection[tuple[str, FileState]] = (),
    ) -> None:
        """Compare the names and sizes of all files, and the digests of all but the weights.

        `known`: settled states of files whose digests were compared before; while a file has this state, its content
        is the same, so it is not read.
        """
        self._directory = directory
        settled_before = time.time_ns() - _SETTLING_NS
        self.states: list[tuple[str, FileState]] = []
        """Names of the files and their states from before any of their bytes was read."""
        # Others are faults of the manifest: opening them could lead out of the folder, or take hours.
        listed = [file for file in manifest.files if is_plain_name(file.name)]
        read = [file for file in listed[:MAX_FILES] if file.size_bytes <= max_bytes(manifest, file.name)]
        self.faults = [
            *_unlisted(directory, {MANIFEST, *(file.name for file in listed)}),
            *(fault for file in read if (fault := self._size_fault(file))),
        ]
        """One sentence per fault, without those of the weights' digest."""
        # A file of another size is reported without reading gigabytes.
        states = dict(self.states)
        self.settled = [each for each in self.states if each in known or each[1].changed_ns < settled_before]
        """Those of the states that differ after any later change."""
        sized = [file for file in read if file.name in states and (file.name, states[file.name]) not in known]
        self.are_known = not sized
        """True if no file had to be read."""
        self._weights = [
            executor.submit(self._digest_fault, file, states[file.name])
            for file in sized
            if file.name == manifest.weights
        ]
        others = [self._digest_fault(file, states[file.name]) for file in sized if file.name != manifest.weights]
        self.faults += filter(None, others)

    def weights_faults(self) -> list[str]:
        """Wait for the digest of the weights."""
        return [fault for digest in self._weights if (fault := digest.result())]

    def require_weights(self) -> None:
        """Wait for the digest of the weights; raise BundleError if it is another."""
        if faults := self.weights_faults():
            raise BundleError(self._directory, faults)

    def _size_fault(self, listed: manifest_pb2.File) -> str:
        try:
            with open_regular(self._directory, listed.name) as file:
                state = state_of(file)
        except FileError as error:
            return f"{listed.name} {error}"
        if state.size != listed.size_bytes:
            return f"{listed.name} has {state.size} bytes; {MANIFEST} says {listed.size_bytes}"
        self.states.append((listed.name, state))
        return ""

    def _digest_fault(self, listed: manifest_pb2.File, state: FileState) -> str:
        try:
            with open_regular(self._directory, listed.name) as file:
                sha256, read = digest_of(file)
        except FileError as error:
            return f"{listed.name} {error}"
        if read != state:
            return f"{listed.name} was changed while the bundle was being loaded"
        if sha256 != listed.sha256:
            return f"{listed.name} has SHA-256 {sha256}; {MANIFEST} says {listed.sha256}"
        return ""


def _unlisted(directory: Path, known: set[str]) -> Iterator[str]:
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in islice(entries, _MAX_ENTRIES + 1)]
    except OSError as error:
        raise BundleError(directory, [f"the folder cannot be listed: {error.strerror}"]) from error
    if len(names) > _MAX_ENTRIES:
        yield f"the folder has more than {_MAX_ENTRIES} entries"
        return
    for name in sorted(set(names) - known):
        if not name.startswith(_VOLUME_PREFIX):
            yield f"{name} is not listed in {MANIFEST}"


def find_bundles(root: Path) -> list[Path]:
    """Find the bundles of a repository, `<root>/<model>/<version>/`, by model and version, unchecked.

    Hidden folders, and folders whose name is no version, are ignored. BundleError says that it cannot be read.
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
    """Read the bundle in `<root>/<model>/<version>` and check it as far as possible without running its graphs.

    BundleError names all faults that were found.
    """
    with ThreadPoolExecutor(1) as beside:
        bundle, require_weights = read_bundle(directory, beside)
        require_weights()
    return bundle


class _ReadManifest(NamedTuple):
    """The manifest of a bundle, and its faults."""

    directory: Path
    manifest: manifest_pb2.Manifest
    sha256: str
    faults: list[str]

    @classmethod
    def of(cls, directory: Path) -> _ReadManifest:
        manifest, sha256 = read_manifest(directory)
        return cls(directory, manifest, sha256, manifest_faults(manifest, directory))


def read_outline(directory: Path) -> Bundle:
    """Read and check the manifest alone of a bundle, whose other files are read later; or raise BundleError."""
    read = _ReadManifest.of(directory.absolute())
    if read.faults:
        raise BundleError(read.directory, read.faults)
    return Bundle(directory=read.directory, manifest=read.manifest, manifest_sha256=read.sha256, samples=())


def read_bundle(
    directory: Path,
    executor: Executor,
    *,
    outline: Bundle | None = None,
    known: Collection[tuple[str, FileState]] = (),
) -> tuple[Bundle, Callable[[], None]]:
    """Read a bundle and check it as `load_bundle` does, but for the digest of its weights, computed by the executor.

    Graphs and tokenisers may be opened meanwhile: their digests have been compared. Nothing may be served before the
    returned function was called: it waits for the digest of the weights, and raises BundleError if it is another.

    Args:
        outline: The bundle's manifest as `read_outline` has checked it; None if it was not read before.
        known: Settled states of the files after a load that succeeded; unchanged files are not checked again.
    """
    directory = directory.absolute()
    if outline and manifest_digest(directory) == outline.manifest_sha256:
        read = _ReadManifest(directory, outline.manifest, outline.manifest_sha256, [])
    else:
        read, known = _ReadManifest.of(directory), ()
    files = VerifiedFiles(directory, read.manifest, executor, known)
    faults = read.faults + files.faults
    # Graphs are parsed only if they are the ones that were exported.
    if not faults and not files.are_known:
        faults = weights_faults(directory, read.manifest)
    if faults:
        raise BundleError(directory, [*faults, *files.weights_faults()])
    return _with_content(read, files), files.require_weights


def _with_content(read: _ReadManifest, files: VerifiedFiles) -> Bundle:
    """Return the bundle of a manifest with the content of its files; or raise BundleError."""
    directory, manifest, sha256, _ = read
    source_vocabulary, target_vocabulary = _read_vocabularies(directory, manifest)
    return Bundle(
        directory=directory,
        manifest=manifest,
        manifest_sha256=sha256,
        samples=read_samples(directory, manifest.dimensions),
        file_states=tuple(files.states),
        settled_states=tuple(files.settled),
        is_known=files.are_known,
        source_vocabulary=source_vocabulary,
        target_vocabulary=target_vocabulary,
        quality_head=read_quality_head(directory, manifest),
        lexicon=read_lexicon(directory, manifest),
    )


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
