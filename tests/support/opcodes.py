"""Work of Python code as a number of opcodes, which no other process can change."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def opcodes_of(work: Callable[[], object]) -> int:
    """Run some work and return the number of opcodes that it takes in this thread; compiled code has none."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    # The end of garbage, such as closed event loops, runs Python code of its own.
    gc.disable()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
        gc.enable()
    return count
