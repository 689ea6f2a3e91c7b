from __future__ import annotations

import subprocess
import sys

import pytest

from xuanzang.serving.memory import EXIT_STATUS, is_want_of_memory

STARVED = """
import resource, sys, threading
import numpy
from xuanzang.serving.memory import is_want_of_memory
from xuanzang.translation.v1 import translation_pb2 as pb

data = pb.TranslateTextRequest(contents=["x" * 2**24]).SerializeToString()
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
# Room for the exceptions, and for nothing else.
resource.setrlimit(resource.RLIMIT_AS, (size + 2**22, -1))
works = {
    "message": lambda: pb.TranslateTextRequest.FromString(data),
    "array": lambda: numpy.ones(2**24),
    "thread": lambda: threading.Thread(target=print).start(),
    "bytes": lambda: bytearray(2**28),
}
for name, work in works.items():
    try:
        work()
    except Exception as error:
        print(name, is_want_of_memory(error), type(error).__name__)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are Linux's")
def test_errors_of_libraries_without_memory_are_recognised() -> None:
    done = subprocess.run([sys.executable, "-c", STARVED], capture_output=True, text=True, timeout=120, check=True)
    found = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert found.keys() == {"message", "array", "thread", "bytes"}
    assert {name for name, word in found.items() if not word.startswith("True")} == set()
    # Else the rule would have nothing to do.
    assert "DecodeError" in found["message"]


def test_an_error_that_came_of_want_of_memory_is_one() -> None:
    error = ValueError("wrong")
    error.__cause__ = LookupError()
    error.__cause__.__context__ = MemoryError()
    assert is_want_of_memory(error)


@pytest.mark.parametrize("error", [KeyError("text"), SystemError("bad argument to internal function"), OSError("disk")])
def test_other_errors_are_not(error: Exception) -> None:
    assert not is_want_of_memory(error)


ENDING = """
import asyncio, resource, sys, threading
from xuanzang.serving import event_loop

class Lost:
    def __del__(self):
        raise KeyError

def fail(*_):
    raise KeyError

async def main():
    loop = asyncio.get_running_loop()
    if sys.argv[2] == "starved":
        size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + 2**24, -1))
    match sys.argv[1]:
        case "thread":
            thread = threading.Thread(target=fail)
            thread.start()
            await asyncio.to_thread(thread.join)
        case "callback":
            loop.call_soon(fail)
        case "finalizer":
            Lost()
        case "main":
            fail()
    await asyncio.sleep(0)
    await asyncio.sleep(0)

event_loop.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are Linux's")
@pytest.mark.parametrize("place", ["thread", "callback", "finalizer", "main"])
@pytest.mark.parametrize("state", ["starved", "well"])
def test_an_error_that_nobody_handles_ends_a_process_that_has_no_memory(place: str, state: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDING, place, state], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode == EXIT_STATUS) is (state == "starved")
    assert ("no memory is left, so the process ends" in done.stderr) is (state == "starved")
    assert ("KeyError" in done.stderr) is (state == "well")
