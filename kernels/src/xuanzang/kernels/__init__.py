"""Kernels of the decoder's own operators, for onnxruntime on CPUs.

A bundle defines these operators in terms of standard ones, so that every onnxruntime can run it. Sessions that have
this library run each of them as one kernel instead: attention then reads only the keys and values that hypotheses
see, where they lie. `xuanzang.kernels.steps` has what works between two runs of the decoder, and
`xuanzang.kernels.decode` takes step after step.

The library holds the kernels for several instruction sets and uses the best that the processor has. The environment
variable XUANZANG_KERNELS_ISA names another one, for tests: "generic", "avx2", "avx512", "avx512_vnni" or "amx".
"""

from __future__ import annotations

import ctypes
import os
import threading
from dataclasses import dataclass
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from itertools import count, takewhile
from pathlib import Path
from typing import Literal

# Set before onnxruntime is imported: its telemetry would give the machine an identifier and write files.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import onnxruntime

from xuanzang.kernels import decode, graphs, step_functions, steps

__all__ = ["EXACT_PRODUCTS", "Kernels", "Reason", "find_kernels", "library", "supported_isas"]

Reason = Literal["", "no_compiler", "compile_error", "not_loadable", "onnxruntime", "isa", "disabled", "provider"]
"""Reasons that there are no kernels; "disabled" and "provider" are for programs that do not ask for them."""

EXACT_PRODUCTS = ("session.x64quantprecision", "1")
"""Entry of `onnxruntime.SessionOptions` for graphs of 8-bit integers. Without it onnxruntime adds pairs of products in
16 bits on x86-64 processors without VNNI, which overflow: translations get worse, and nothing says so."""

# In the order of the library's sizes.
_STRUCTURES: tuple[type[ctypes.Structure], ...] = (
    *(steps.SlotStep, steps.BeamStep),
    *(graphs.SessionSettings, graphs.BoundTensor, decode.Decode),
)
_FOLDER = Path(__file__).parent
_EMPTY_GRAPH = (
    b"\x08\x08:%\x12\x01gZ\x0f\n\x01x\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x01"
    b"b\x0f\n\x01x\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x01B\x04\n\x00\x10\x11"
)
"""An ONNX model of opset 17 that returns its only input, one float."""
_FIRST_SESSION = threading.Lock()
_NOT_BUILT = "not_built.txt"
"""Text in the package of a failed build: the reason, and a line of detail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """The kernels that new sessions can use, or why there are none."""

    library: Path | None = None
    """File for `onnxruntime.SessionOptions.register_custom_ops_library`; None without kernels."""
    isa: str = "none"
    """Instruction set: "generic", "avx2", "avx512", "avx512_vnni" or "amx"; "none" without kernels."""
    reason: Reason = ""
    """Reason that there are none; empty with kernels."""
    detail: str = ""
    """The reason in words."""


def find_kernels() -> Kernels:
    """Find the library and check it against the onnxruntime of this process."""
    built = _built_library()
    if built is None:
        return _why_not_built()
    try:
        functions = _functions(built)
    except (OSError, AttributeError) as error:
        # A function is missing, or a structure differs, if the library was built from other sources than these.
        return Kernels(reason="not_loadable", detail=str(error))
    isa = functions.XuanzangChosenIsa()
    if isa is None:
        usable = ", ".join(supported_isas())
        return Kernels(reason="isa", detail=f"XUANZANG_KERNELS_ISA is not one of {usable}, which can be used here")
    fault = _registration_fault(built) or functions.XuanzangLastFault().decode()
    if fault:
        return Kernels(reason="onnxruntime", detail=fault)
    return Kernels(library=built, isa=isa.decode())


def library() -> Path | None:
    """Return the file for `onnxruntime.SessionOptions.register_custom_ops_library`; None without kernels."""
    return find_kernels().library


def supported_isas() -> tuple[str, ...]:
    """Return the instruction sets that the library holds and the processor has, best first; none if not built."""
    built = _built_library()
    if built is None:
        return ()
    names = map(_functions(built).XuanzangSupportedIsa, count())
    return tuple(name.decode() for name in takewhile(lambda name: name is not None, names))


def _built_library() -> Path | None:
    names = (_FOLDER / f"_operators{suffix}" for suffix in EXTENSION_SUFFIXES)
    return next((name for name in names if name.exists()), None)


def _why_not_built() -> Kernels:
    try:
        reason, _, detail = (_FOLDER / _NOT_BUILT).read_text(encoding="utf-8").partition("\n")
    except OSError:
        reason, detail = "not_loadable", "the library is missing from the installed package"
    known: dict[str, Reason] = {"no_compiler": "no_compiler", "compile_error": "compile_error"}
    return Kernels(reason=known.get(reason, "not_loadable"), detail=" ".join(detail.split()))


def _functions(built: Path) -> ctypes.CDLL:
    functions = ctypes.CDLL(str(built))
    for function in (functions.XuanzangLastFault, functions.XuanzangChosenIsa, functions.XuanzangSupportedIsa):
        function.restype = ctypes.c_char_p
    functions.XuanzangSupportedIsa.argtypes = [ctypes.c_size_t]
    for name in (*step_functions.NAMES, *graphs.NAMES, *graphs.SHARING_NAMES, *graphs.BINDING_NAMES):
        getattr(functions, name)
    functions.XuanzangStructureSizes.restype = ctypes.POINTER(ctypes.c_int64)
    if functions.XuanzangStructureSizes()[: len(_STRUCTURES)] != [ctypes.sizeof(one) for one in _STRUCTURES]:
        raise AttributeError(f"{built.name} has structures of other sizes: it was built from other sources")
    return functions


@cache
def _add_domain(built: Path) -> None:
    """Open a graph with the operators, so that onnxruntime knows their domain.

    It adds a domain to a map of the process that other sessions read without a lock (onnxruntime's issues 22663 and
    27089): two models that open their first graphs at once could crash the server.
    """
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(built))
    onnxruntime.InferenceSession(_EMPTY_GRAPH, options, providers=["CPUExecutionProvider"])


def _registration_fault(built: Path) -> str:
    try:
        with _FIRST_SESSION:
            _add_domain(built)
        onnxruntime.SessionOptions().register_custom_ops_library(str(built))
    except Exception as error:  # noqa: BLE001 - onnxruntime's errors have no base class of their own
        return str(error)
    return ""
