"""The functions of the library that work between two decoder steps, and how arrays are given to them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

NAMES = ("XuanzangAdvanceSlots", "XuanzangContinueBest")
"""Functions that the library must have, each of the address of a structure."""


class StepFunctions:
    """The open functions. Each takes `ctypes.byref` of the structure that its description names."""

    __slots__ = ("advance_slots", "continue_best")

    def __init__(self, library: Path) -> None:
        """Open the functions of a library that `find_kernels` has found."""
        # Unlike CDLL this keeps the interpreter's lock: the functions take less time than getting it back may.
        opened = ctypes.PyDLL(str(library))
        functions: list[Callable[[Any], int]] = [getattr(opened, name) for name in NAMES]
        for function in functions:
            function.restype = ctypes.c_int64  # type: ignore[attr-defined]
        self.advance_slots, self.continue_best = functions


def members(*names: str, of: type[Any] = ctypes.c_int64) -> tuple[tuple[str, type[Any]], ...]:
    """Return members of a structure that have the same type."""
    return tuple((name, of) for name in names)


def address(array: npt.NDArray[Any]) -> int:
    """Return where an array begins; it must live as long as the library may use it.

    Raises:
        ValueError: The array is not contiguous.
    """
    if not array.flags.c_contiguous:
        raise ValueError("the library reads contiguous arrays only")
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # type: ignore[arg-type]  # Buffer: from 3.12
    except (TypeError, ValueError):
        # It is read-only or empty. This takes three times as long, and a step after a sentence has left asks 35 times.
        where: int = array.__array_interface__["data"][0]
        return where


def require(array: npt.NDArray[Any], dtype: npt.DTypeLike, shape: tuple[int, ...]) -> None:
    """Check an array before the library gets it.

    Raises:
        ValueError: The array is of another shape or type, or not contiguous.
    """
    if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
        raise ValueError(f"{array.dtype} {array.shape} is not a contiguous array of {np.dtype(dtype)} {shape}")
