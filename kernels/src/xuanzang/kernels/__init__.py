"""Kernels of the decoder's own operators, for onnxruntime on CPUs.

A bundle defines these operators in terms of standard ones, so that every onnxruntime can run it. Sessions that have
this library run each of them as one kernel instead: attention then reads only the keys and values that hypotheses
see, where they lie.
"""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path


def library() -> Path | None:
    """Return the file for `onnxruntime.SessionOptions.register_custom_ops_library`.

    Returns:
        None where it was not built, because there was no C++ compiler.
    """
    names = (Path(__file__).with_name(f"_operators{suffix}") for suffix in EXTENSION_SUFFIXES)
    return next((name for name in names if name.exists()), None)
