"""The choice of hypotheses that hold phrases, which is no operator: functions of the library on arrays in memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class PhraseFunctions(NamedTuple):
    """Functions on a `PhraseStep` of phrase_choice.h, given by its address."""

    choose: Callable[[int], int]
    """Chooses the hypotheses that live on and those that end; returns how many end, -1 without memory."""
    ask: Callable[[int], None]
    """Writes the ids whose log-probabilities the next step needs."""


def phrase_functions(library: Path) -> PhraseFunctions:
    """Return the functions of a library that `find_kernels` has found."""
    # Unlike CDLL this keeps the interpreter's lock: the functions take less time than another thread would.
    functions = ctypes.PyDLL(str(library))
    choose, ask = functions.XuanzangContinuePhrases, functions.XuanzangAskForPhrases
    choose.argtypes, choose.restype = [ctypes.c_void_p], ctypes.c_int64
    ask.argtypes, ask.restype = [ctypes.c_void_p], None
    return PhraseFunctions(choose, ask)
