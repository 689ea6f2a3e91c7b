from __future__ import annotations

import platform
import sys
import threading

import numpy as np
import pytest

from xuanzang.server.engine.denormals import flush_denormals


def _smallest() -> float:
    """What the calling thread makes of a denormal number; of many, so that the vector units are asked."""
    return float((np.full(64, 1e-39, dtype=np.float32) * np.float32(1)).max())


@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="denormals are flushed on Linux on x86-64 only"
)
def test_denormals_are_zero_in_the_thread_that_asks_and_in_those_it_starts_and_in_no_other() -> None:
    found: dict[str, float] = {}

    def ask() -> None:
        found["before"] = _smallest()
        assert flush_denormals()
        found["after"] = _smallest()
        child = threading.Thread(target=lambda: found.update(child=_smallest()))
        child.start()
        child.join()

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert found["before"] > 0
    assert (found["after"], found["child"]) == (0, 0)
    assert _smallest() > 0
