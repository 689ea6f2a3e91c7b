"""Graphs that the library opens itself, so that it can run one again and again without the interpreter."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from xuanzang.kernels.step_functions import address, members

NAMES = ("XuanzangOpenGraph", "XuanzangCloseGraph", "XuanzangGraphNames", "XuanzangRun", "XuanzangDecode")
"""Functions that take long, or that open and close graphs; they release the interpreter's lock."""
SHARING_NAMES = ("XuanzangBeginSharing", "XuanzangEndSharing", "XuanzangReleasePages", "XuanzangFreeSharing")
"""Functions for packed weights; graphs are opened between the first two. They release the interpreter's lock."""
BINDING_NAMES = ("XuanzangNewBinding", "XuanzangFreeBinding", "XuanzangBind")
"""Functions that take less time than getting the lock back may."""

# As onnxruntime numbers the types of tensors.
_TYPES = {np.dtype(t): n for t, n in ((np.float32, 1), (np.uint8, 2), (np.int8, 3), (np.int64, 7), (np.bool_, 9))}

_Element = TypeVar("_Element", ctypes.c_int64, ctypes.c_char_p, "BoundTensor")


class Value(Protocol):
    """The part of an `onnxruntime.OrtValue` that is needed, in the memory of the process."""

    def data_ptr(self) -> int:
        """Return its address."""

    def shape(self) -> list[int]:
        """Return its dimensions."""

    def tensor_size_in_bytes(self) -> int:
        """Return its size."""

    def element_type(self) -> int:
        """Return onnxruntime's number of the type of its elements."""


Tensor = npt.NDArray[Any] | Value
"""Input or output of a graph."""


class GraphError(Exception):
    """A graph cannot be opened, bound or run; the message is onnxruntime's."""


class SessionSettings(ctypes.Structure):
    """Options for opening a graph."""

    _fields_ = (("path", ctypes.c_char_p), ("threads", ctypes.c_int64), ("disabled_optimizers", ctypes.c_char_p))


class BoundTensor(ctypes.Structure):
    """A tensor and its name in a graph."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        *members("data", "shape", of=ctypes.c_void_p),
        *members("rank", "bytes", "type", "is_output"),
    )


class GraphFunctions:
    """The open functions. A failing one returns 0 or less, and `fault` says why."""

    def __init__(self, library: Path) -> None:
        """Open the functions of a library that `find_kernels` has found."""
        unlocked, locked = ctypes.CDLL(str(library)), ctypes.PyDLL(str(library))
        self.open, self.close, self.names, self.run, self.decode = (getattr(unlocked, name) for name in NAMES)
        self.new_binding, self.free_binding, self.bind = (getattr(locked, name) for name in BINDING_NAMES)
        self._last_fault = locked.XuanzangLastFault
        self._last_fault.restype = self.names.restype = ctypes.c_char_p
        self.open.restype = self.new_binding.restype = ctypes.c_void_p
        self.run.restype = self.decode.restype = self.bind.restype = ctypes.c_int64
        for function in (self.close, self.names, self.run, self.free_binding):
            function.argtypes = (ctypes.c_void_p,)
        self.new_binding.argtypes = (ctypes.c_void_p, ctypes.c_int64)
        self.bind.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)

    def fault(self) -> GraphError:
        """Return why the last function of this thread has failed."""
        return GraphError(self._last_fault().decode(errors="replace"))


class Graph:
    """A graph on the CPU, open with the operators of the library. Any number of threads may run it."""

    def __init__(self, library: Path, path: Path, *, threads: int, disabled_optimizers: tuple[str, ...] = ()) -> None:
        """Open it.

        Args:
            library: Library that `find_kernels` has found.
            threads: Threads of one operation; more than 1 for the threads that onnxruntime shares between all graphs.
            disabled_optimizers: Names of onnxruntime's optimisers to leave out.

        Raises:
            GraphError: It cannot be opened.
        """
        self.functions = GraphFunctions(library)
        settings = SessionSettings(str(path).encode(), threads, ";".join(disabled_optimizers).encode())
        self._address = self.functions.open(ctypes.byref(settings))
        if not self._address:
            raise self.functions.fault()
        weakref.finalize(self, self.functions.close, self._address).atexit = False
        names: bytes = self.functions.names(self._address)
        self.names = names.decode().splitlines()
        """Names of the inputs, then of the outputs."""

    def new_binding(self, *, shrinks: bool = False) -> GraphBinding:
        """Return a binding for one thread.

        Args:
            shrinks: Whether each run gives back the memory that the graph keeps for intermediate results.

        Raises:
            GraphError: There is no memory for it.
        """
        binding = self.functions.new_binding(self._address, shrinks)
        if not binding:
            raise self.functions.fault()
        return GraphBinding(self, binding)


class BoundTensors:
    """Tensors in the library's form, which it binds itself."""

    def __init__(self, tensors: Sequence[tuple[str, Tensor, bool]]) -> None:
        """Describe tensors.

        Args:
            tensors: Name in the graph, tensor, and whether it is an output.

        Raises:
            ValueError: An array is not contiguous.
        """
        self.values: dict[str, Tensor] = {}
        self.count = len(tensors)
        # They must exist as long as the structures that have their addresses.
        self._shapes = []
        structures = []
        for name, tensor, is_output in tensors:
            self.values[name] = tensor
            if isinstance(tensor, np.ndarray):
                sizes, where, size, kind = tensor.shape, address(tensor), tensor.nbytes, _TYPES[tensor.dtype]
            else:
                sizes, where = tuple(tensor.shape()), tensor.data_ptr()
                size, kind = tensor.tensor_size_in_bytes(), tensor.element_type()
            shape = array_of(ctypes.c_int64, len(sizes))(*sizes)
            self._shapes.append(shape)
            memory = where, ctypes.addressof(shape), len(sizes), size, kind
            structures.append(BoundTensor(name.encode(), *memory, is_output))
        self._structures = array_of(BoundTensor, len(tensors))(*structures)
        self.address = ctypes.addressof(self._structures)
        """Address of the structures for the library."""


class GraphBinding:
    """Inputs and outputs of a graph in tensors that stay where they are from run to run. Belongs to one thread."""

    def __init__(self, graph: Graph, address: int) -> None:
        """Take over a binding; `Graph.new_binding` calls this."""
        self.functions = graph.functions
        self.address = address
        # The graph must outlive it, and the tensors what the library has of them.
        self._graph = graph
        self._bound: dict[str, Tensor] = {}
        weakref.finalize(self, self._free, graph, address).atexit = False

    @staticmethod
    def _free(graph: Graph, address: int) -> None:
        graph.functions.free_binding(address)

    def bind(self, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> None:
        """Bind tensors by their names in the graph: contiguous arrays of the graph's types, or onnxruntime's values.

        Raises:
            GraphError: The graph has no such input or output.
        """
        both = [(name, value, False) for name, value in inputs.items()]
        both += [(name, value, True) for name, value in outputs.items()]
        new = [one for one in both if self._bound.get(one[0]) is not one[1]]
        if not new:
            return
        tensors = BoundTensors(new)
        if self.functions.bind(self.address, tensors.address, tensors.count):
            raise self.functions.fault()
        self.keep(tensors)

    def keep(self, tensors: BoundTensors) -> None:
        """Take note of tensors that the library has bound."""
        self._bound.update(tensors.values)

    def run(self) -> None:
        """Run the graph on the present content of the tensors.

        Raises:
            GraphError: It fails.
        """
        if self.functions.run(self.address):
            raise self.functions.fault()


class SharedColumns:
    """Packed weights of the graphs that the thread opens within the context.

    They may lie in a file that other processes map as well. Graphs write missing weights, if the file is open for
    writing. Existing bytes are compared with the expected ones, so the file may be damaged or belong to other graphs.
    A table of embeddings whose rows are the columns of a packed matrix is read there.
    """

    def __init__(self, library: Path, descriptor: int | None = None) -> None:
        """Take a library that `find_kernels` has found, and an open file, which may be closed after the context.

        Args:
            descriptor: The file's; None for weights in the memory of the process.
        """
        functions = ctypes.CDLL(str(library))
        self._begin, self._end, self._release, self._free = (getattr(functions, name) for name in SHARING_NAMES)
        self._begin.argtypes, self._begin.restype = (ctypes.c_int64,), ctypes.c_void_p
        self._end.argtypes, self._end.restype = (ctypes.c_void_p,), ctypes.c_int64
        self._release.argtypes = self._free.argtypes = (ctypes.c_void_p,)
        self._release.restype = self._free.restype = None
        self._descriptor = -1 if descriptor is None else descriptor
        self._address: int | None = None
        self.has_all = False
        """True if all weights are in a file, once the context is left."""

    def __enter__(self) -> Self:
        """Begin; a context is entered once."""
        self._address = self._begin(self._descriptor)
        weakref.finalize(self, self._free, self._address).atexit = False
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self.has_all = bool(self._end(self._address))

    def release(self) -> None:
        """Take the weights that are in a file out of this process until they are used, after the context."""
        if self._address:
            self._release(self._address)


@cache
def array_of(element: type[_Element], count: int) -> type[ctypes.Array[_Element]]:
    """Return a type of arrays; each is made once, because only the garbage collector frees one."""
    return element * count
