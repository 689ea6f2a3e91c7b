"""Graphs of a bundle, open in onnxruntime."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime

from xuanzang.bundle.v1 import manifest_pb2
from xuanzang.kernels import EXACT_PRODUCTS
from xuanzang.kernels.graphs import Graph, GraphBinding, GraphError, SharedColumns
from xuanzang.kernels.step_functions import StepFunctions
from xuanzang.server.bundles.bundle import Bundle
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.graph_interface import inspects_rows, page_slots
from xuanzang.server.bundles.graphs import skips_padding
from xuanzang.server.engine.arrays import Ints
from xuanzang.server.engine.errors import EngineError
from xuanzang.server.engine.hardware import choose_kernels
from xuanzang.server.engine.runtime.bindings import Binding
from xuanzang.server.engine.runtime.packed_weights import known_weights, packed_file, shared_weights
from xuanzang.server.engine.runtime.pages import PageShape
from xuanzang.server.engine.runtime.shapes import CacheShape

_MAPS, _PAGES = Path("/proc/self/maps"), Path("/proc/self/pagemap")
_FIELDS_BEFORE_PATH = 5
# Bits of a page: in memory or swapped out; a page of a file, or shared.
_IN_MEMORY, _OF_FILE = np.uint64(0b11 << 62), np.uint64(1 << 61)
ONNXRUNTIME_VERSION: str = onnxruntime.__version__
# On CPUs the fused residual + norm kernel is four times slower than the two it replaces.
_DISABLED_OPTIMIZERS = ("SkipLayerNormFusion",)
# One at a time opens graphs on the same weights: what another maps and takes away again must not be released.
_OPENING: dict[Path, threading.Lock] = {}
_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


def mappings(path: Path) -> frozenset[int]:
    """Return the addresses that a file is mapped at; only Linux tells them."""
    return frozenset(start for start, _ in _mapped(path.resolve()))


def release_pages(path: Path, *, but: Collection[int] = ()) -> int:
    """Take the pages of a mapped file out of this process; used pages come back from the system's cache.

    Does nothing except on Linux, which lists mappings. A mapping that another thread takes
    away at this moment must be left out: a new one in its place would lose its content.
    """
    chosen = [each for each in _mapped(path.resolve()) if each[0] not in but]
    if not chosen:
        return 0
    chosen = _unchanged(chosen)
    advise = ctypes.CDLL(None, use_errno=True).madvise
    for start, length in chosen:
        if advise(ctypes.c_void_p(start), ctypes.c_size_t(length), mmap.MADV_DONTNEED):
            raise OSError(ctypes.get_errno(), f"the pages of {path} cannot be returned")
    return sum(length for _, length in chosen)


def _mapped(path: Path) -> list[tuple[int, int]]:
    """Return address and length of a file's mappings.

    The list is short beside /proc/self/smaps, which takes 0.2 s where ten models have a mapping for each weight. It
    still has thousands of lines, so only those of the file are taken apart.
    """
    if not _MAPS.exists():
        return []
    maps, name = _MAPS.read_bytes(), b" %b\n" % os.fsencode(path)
    found, at = [], maps.find(name)
    while at >= 0:
        fields = maps[maps.rfind(b"\n", 0, at) + 1 : at].split()
        # With more the path is only the end of another one.
        if len(fields) == _FIELDS_BEFORE_PATH:
            start, end = (int(address, 16) for address in fields[0].split(b"-"))
            found.append((start, end - start))
        at = maps.find(name, at + 1)
    return found


def _unchanged(mapped: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the mappings without written pages, which would be lost; none where the system does not tell."""
    try:
        with _PAGES.open("rb", buffering=0) as pages:
            return [each for each in mapped if not _has_written(pages.fileno(), *each)]
    except OSError:
        return []


def _has_written(pages: int, start: int, length: int) -> bool:
    """Return whether a private mapping has pages of its own; see proc_pid_pagemap(5)."""
    count = -(-length // mmap.PAGESIZE)
    states = np.frombuffer(os.pread(pages, 8 * count, 8 * (start // mmap.PAGESIZE)), np.uint64)
    return len(states) < count or bool((((states & _IN_MEMORY) != 0) & ((states & _OF_FILE) == 0)).any())


class ProviderUnavailableError(EngineError):
    """The execution provider is not part of the onnxruntime that is installed."""


def resolve_provider(wanted: str) -> str:
    """Return "cpu" or "cuda" for a setting that may be "auto"; ProviderUnavailableError if it is not there."""
    available = {name for name, provider in _PROVIDERS.items() if provider in onnxruntime.get_available_providers()}
    if wanted == "auto":
        return "cuda" if "cuda" in available else "cpu"
    if wanted not in available:
        raise ProviderUnavailableError(
            f"provider {wanted} is not available in onnxruntime {onnxruntime.__version__}, which has "
            f"{', '.join(sorted(available))}; for cuda install xuanzang-server[gpu] in place of [cpu]"
        )
    return wanted


class _WeightsFile:
    """The file that graphs of a bundle map their weights from."""

    def __init__(self, path: Path, *, is_copied: bool) -> None:
        """Take a file; `is_copied`: True if the graphs have their weights elsewhere, too, once they are open."""
        self._path, self._is_copied = path, is_copied
        self._lock = _OPENING.setdefault(path.resolve(), threading.Lock())

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Let this thread alone open graphs; then take the pages that they have mapped out of this process."""
        with self._lock:
            # Those of earlier sessions, which may be closed at any time.
            others = mappings(self._path)
            yield
            if self._is_copied:
                release_pages(self._path, but=others)


class Sessions:
    """Open graphs of one bundle. All workers share them: copies would push each other out of the processor's cache."""

    def __init__(
        self,
        bundle: Bundle,
        *,
        provider: str,
        intra_op_threads: int,
        shortlist: bool = False,
        kernels: bool = True,
        packed_weights: Path | None = None,
    ) -> None:
        """Open the graphs, on "cpu", "cuda" or "auto".

        Args:
            shortlist: Whether sentences choose only among the pieces that their sources suggest.
            kernels: Whether a CPU runs the decoder's own operators as kernels, where these were built.
            packed_weights: Folder of packed weights shared by processes; None for none.

        Raises:
            ProviderUnavailableError: The provider is cuda, and onnxruntime comes without.
            BundleError: A graph cannot be opened or is not that of the manifest, or the bundle lacks the shortlist.
        """
        self._directory, self._intra_op_threads = bundle.directory, intra_op_threads
        self._device = resolve_provider(provider)
        self._staged_on = None if self._device == "cpu" else self._device
        chosen = choose_kernels(self._device, enabled=kernels)
        self._library = chosen.library
        self.step_functions = StepFunctions(self._library) if self._library else None
        """Functions of the kernels for the time between two steps; None without kernels."""
        manifest = bundle.manifest
        self.dimensions, self.special_ids = manifest.dimensions, manifest.special_ids
        self.has_shortlist = shortlist
        self.inspects_rows = inspects_rows(manifest)
        """True if the decoder scores continuations of single hypotheses."""
        self.cache_shape = _cache_shape(manifest, self._device)
        # Products and kernels on CPUs reorder weights; the file's would stay in memory, too.
        self._weights = _WeightsFile(self._directory / manifest.weights, is_copied=self._device == "cpu")
        self._packed_file = self._packed_in(packed_weights, bundle.manifest_sha256, chosen.isa, str(shortlist))
        with self._weights.opening(), self._sharing() as self._packed:
            self._open(bundle)

    def _open(self, bundle: Bundle) -> None:
        encoder, decoder, *suggestions = _graphs(bundle, shortlist=self.has_shortlist)
        self._encoder, self._decoder = map(self._opened, [encoder, decoder])
        self._shortlist = [*map(self._opened_by_package, suggestions)]
        self.skips_padding = self._library is not None and skips_padding(self._directory, encoder.file)
        """True if the encoder computes nothing for padding, so that sentences of any lengths may go together."""

    def _packed_in(self, folder: Path | None, *facts: str) -> Path | None:
        """Return the file for packed weights, by the facts that decide their order; None without folder or kernels."""
        if not (folder and self._library):
            return None
        built = self._library.stat()
        return packed_file(folder, *facts, f"{built.st_size} {built.st_mtime_ns}")

    def _sharing(self) -> AbstractContextManager[SharedColumns | None]:
        """Return the context for opening the graphs of translations."""
        if not self._library:
            return nullcontext()
        return shared_weights(self._packed_file, self._library) if self._packed_file else SharedColumns(self._library)

    def release_packed(self) -> None:
        """Take weights that processes share out of this one until they are used."""
        if self._packed:
            self._packed.release()

    def _opened(self, graph: manifest_pb2.Graph) -> Graph | onnxruntime.InferenceSession:
        """Open encoder or decoder: where there are kernels, by them.

        They pack, write and compare weights without the interpreter's lock, which onnxruntime's Python package held in
        older versions (issue 27063); and they take steps without the interpreter.
        """
        if not self._library:
            return self._opened_by_package(graph)
        path, threads = self._directory / graph.file, self._intra_op_threads
        if threads > 1:
            _share_threads(threads)
        try:
            opened = Graph(self._library, path, threads=threads, disabled_optimizers=_DISABLED_OPTIMIZERS)
        except GraphError as error:
            raise _not_opened(path, error) from error
        self._compare(graph, opened.names)
        return opened

    def _opened_by_package(self, graph: manifest_pb2.Graph) -> onnxruntime.InferenceSession:
        session = self._session(graph.file)
        self._compare(graph, [value.name for value in (*session.get_inputs(), *session.get_outputs())])
        return session

    def _compare(self, graph: manifest_pb2.Graph, names: Sequence[str]) -> None:
        """Compare the inputs and outputs of a graph with those of the manifest."""
        if names != [tensor.name for tensor in (*graph.inputs, *graph.outputs)]:
            raise BundleError(self._directory, [f"{graph.file} has other inputs or outputs than the manifest says"])

    def open_other(self, name: str, content: bytes) -> onnxruntime.InferenceSession:
        """Open content that stands for a graph file, on the same weights. May raise BundleError."""
        packed, library = self._packed_file, self._library
        with self._weights.opening(), known_weights(packed, library) if packed and library else nullcontext():
            return self._session(name, content)

    def _session(self, name: str, content: bytes | None = None) -> onnxruntime.InferenceSession:
        path, options = self._directory / name, onnxruntime.SessionOptions()
        if content is not None:
            options.add_session_config_entry(
                "session.model_external_initializers_file_folder_path", str(self._directory)
            )
        if self._library:
            options.register_custom_ops_library(str(self._library))
        options.log_severity_level = 3
        options.add_session_config_entry(*EXACT_PRODUCTS)
        # A pattern is one block for all intermediate results of a run, for dimensions that hardly come again.
        options.enable_mem_pattern = False
        options.inter_op_num_threads = 1
        if self._intra_op_threads == 1:
            options.intra_op_num_threads = 1
        else:
            _share_threads(self._intra_op_threads)
            options.use_per_session_threads = False
        try:
            return onnxruntime.InferenceSession(
                str(path) if content is None else content,
                options,
                providers=list(dict.fromkeys((_PROVIDERS[self._device], _PROVIDERS["cpu"]))),
                disabled_optimizers=_DISABLED_OPTIMIZERS if self._device == "cpu" else (),
            )
        except Exception as error:  # onnxruntime's errors have no base class of their own
            raise _not_opened(path, error) from error

    def new_binding(self, session: onnxruntime.InferenceSession) -> Binding:
        """Return a binding of a graph that `open_other` has opened."""
        return Binding(session, staged_on=self._staged_on)

    def common_pieces(self) -> Ints:
        """Return the pieces that every sentence may choose, in the order of the graph. Only with a shortlist."""
        [suggestions] = self._shortlist
        [common] = suggestions.run(["always_ids"], {"source_ids": np.zeros((1, 1), dtype=np.int64)})
        return np.array(common)

    def suggest(self, source_ids: Ints) -> npt.NDArray[np.bool_]:
        """Return which pieces padded ids [batch, source] suggest, [batch, vocab]. Only with a shortlist."""
        [suggestions] = self._shortlist
        [suggested] = suggestions.run(["suggested"], {"source_ids": source_ids})
        return np.array(suggested)

    def new_bindings(self, *, shrinks: bool = False) -> tuple[Binding | GraphBinding, Binding | GraphBinding]:
        """Return bindings of encoder and decoder for one batch; `shrinks`: whether each run frees its memory."""
        options = None
        if shrinks:
            options = onnxruntime.RunOptions()
            device = "cpu:0" if self._device == "cpu" else "cpu:0;gpu:0"
            options.add_run_config_entry("memory.enable_memory_arena_shrinkage", device)

        def binding_of(graph: Graph | onnxruntime.InferenceSession) -> Binding | GraphBinding:
            if isinstance(graph, Graph):
                return graph.new_binding(shrinks=shrinks)
            return Binding(graph, options, staged_on=self._staged_on)

        return binding_of(self._encoder), binding_of(self._decoder)


def _graphs(bundle: Bundle, *, shortlist: bool) -> list[manifest_pb2.Graph]:
    """Return encoder and decoder, and the graph that suggests pieces if a shortlist is used."""
    manifest = bundle.manifest
    if not shortlist:
        return [manifest.encoder, manifest.decoder]
    if not bundle.has_shortlist:
        raise BundleError(bundle.directory, ["--shortlist names it, and the bundle has no shortlist"])
    return [manifest.encoder, manifest.shortlist.decoder, manifest.shortlist.suggestions]


def _cache_shape(manifest: manifest_pb2.Manifest, device: str) -> CacheShape:
    caches = {t.name: t.dtype for t in manifest.decoder.inputs if "key_values." in t.name}
    heads = manifest.dimensions.num_heads
    return CacheShape(
        past_names=tuple(name for name in caches if name.startswith("past_")),
        state_names=tuple(t.name for t in manifest.decoder.inputs if t.name.startswith("past_states.")),
        cross_names=tuple(name for name in caches if name.startswith("cross_")),
        page=PageShape(heads, page_slots(manifest), manifest.dimensions.d_model // heads),
        dtype=np.dtype(next(iter(caches.values()))),
        device=device,
    )


def _not_opened(path: Path, error: Exception) -> BundleError:
    return BundleError(path.parent, [f"{path.name} cannot be opened: {error}"])


def _share_threads(count: int) -> None:
    """Let all graphs of the process use the same threads.

    Threads that wait for work spin for some milliseconds. If encoder and decoder had threads of their own, the waiting
    ones would take the cores from the working ones: a step of the decoder would take twice the time.
    """
    try:
        onnxruntime.set_global_thread_pool_sizes(count, 1)
    except Exception as error:  # onnxruntime's errors have no base class of their own
        if "already been created" not in str(error):
            raise
