"""Process that reads and writes documents for a gateway: within limits of time and memory, until its input ends.

A message is its length in eight bytes and a pickle: to the process a function without arguments, from it an `Answer`.
"""

from __future__ import annotations

import mmap
import os
import pickle
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from xuanzang.client.documents import DocumentError

LENGTH_BYTES = 8
"""Size of the length of a message."""
_LOWER_PRIORITY = 5
_KEPT_BYTES = 128 * 2**20
"""Memory of a process that takes another document; a larger one ends, which gives its memory back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What has become of a function."""

    result: object = None
    """What it returned."""
    refusal: str | None = None
    """What is wrong with the document."""
    is_costly: bool = False
    """Whether that is its need of memory, or its depth."""
    failure: tuple[str, list[str]] | None = None
    """Type and place of an unexpected error, without its message, which may quote the document."""
    is_last: bool = False
    """Whether the process ends now."""


def main() -> None:
    """Answer until the input ends; the arguments are the seconds of CPU time for a message, and bytes of memory."""
    seconds, memory = float(sys.argv[1]), int(sys.argv[2])
    # The gateway ends the process, also when both get a signal.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    os.nice(_LOWER_PRIORITY)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    source, target = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    while request := _received(source):
        # Nothing handles its signal, so that it ends the process, whatever code runs.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        answer = _answer(request)
        answered = pickle.dumps(answer)
        signal.setitimer(signal.ITIMER_PROF, 0)
        target.write(len(answered).to_bytes(LENGTH_BYTES) + answered)
        target.flush()
        if answer.is_last:
            break
        del request, answer, answered


def _received(source: BinaryIO) -> bytes:
    return source.read(int.from_bytes(source.read(LENGTH_BYTES)))


def _answer(request: bytes) -> Answer:
    try:
        work: Callable[[], object] = pickle.loads(request)  # noqa: S301 - of the gateway
        result = work()
    except DocumentError as error:
        return Answer(refusal=str(error), is_last=_is_large())
    except RecursionError:
        return Answer(refusal="it is nested too deep", is_costly=True, is_last=True)
    except MemoryError:
        return Answer(refusal="it needs more memory than a document may have", is_costly=True, is_last=True)
    except Exception as error:  # noqa: BLE001 - the gateway says so
        return Answer(failure=(type(error).__name__, traceback.format_tb(error.__traceback__)), is_last=True)
    return Answer(result=result, is_last=_is_large())


def _is_large() -> bool:
    try:
        # Not the greatest of `getrusage`, which begins on Linux with that of the process that started this one.
        resident = int(Path("/proc/self/statm").read_text("ascii").split()[1]) * mmap.PAGESIZE
    except OSError:
        # On macOS, in bytes.
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return resident > _KEPT_BYTES
