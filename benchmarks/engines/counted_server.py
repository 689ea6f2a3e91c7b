"""Our server with a counter of the CPU time that its threads spend in graphs, and in the kernels that run them.

The counter costs about a microsecond per call. Each line on standard input is answered with the seconds so far.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onnxruntime import InferenceSession

from xuanzang.kernels.graphs import GraphFunctions
from xuanzang.server.__main__ import main


def count_calls() -> dict[int, float]:
    """Start counting the CPU seconds of the runs of all graphs, by thread."""
    seconds: dict[int, float] = defaultdict(float)
    InferenceSession.run = _counted(InferenceSession.run, seconds)
    InferenceSession.run_with_iobinding = _counted(InferenceSession.run_with_iobinding, seconds)
    InferenceSession.run_with_ort_values = _counted(InferenceSession.run_with_ort_values, seconds)
    open_functions = GraphFunctions.__init__

    def opened(functions: GraphFunctions, library: Path) -> None:
        open_functions(functions, library)
        functions.run = _counted(functions.run, seconds)
        functions.decode = _counted(functions.decode, seconds)

    GraphFunctions.__init__ = opened  # type: ignore[assignment, method-assign]
    return seconds


def _counted(call: Callable[..., Any], seconds: dict[int, float]) -> Callable[..., Any]:
    def counted(*arguments: Any, **options: Any) -> Any:
        # CPU time of this thread, without waits for a lock or a core, like the CPU time of the process.
        began = time.thread_time()
        try:
            return call(*arguments, **options)
        finally:
            seconds[threading.get_ident()] += time.thread_time() - began

    return counted


def _answer(seconds: dict[int, float]) -> None:
    for _ in sys.stdin:
        print(json.dumps({"process": time.process_time(), "onnxruntime": sum(list(seconds.values()))}), flush=True)


if __name__ == "__main__":
    threading.Thread(target=_answer, args=(count_calls(),), daemon=True).start()
    raise SystemExit(main())
