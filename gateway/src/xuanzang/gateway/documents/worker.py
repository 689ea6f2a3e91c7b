"""Process that reads and writes documents for a gateway: within limits of time and memory, until its input ends.

A message, either way, is the lengths of two parts in eight bytes each, a JSON object, and the bytes of a file. The one
that comes has `work`, a name in `WORKS`, and its arguments; the other has the fields of `Outcome`.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from xuanzang.documents import DocumentError, DocumentFile, Limits

LENGTH_BYTES = 8
"""Size of the length of a part of a message."""
BEGUN = b"+"
"""Answer to the first bytes of a message: a process that ends after it was ended by the message."""
_LOWER_PRIORITY = 5
_KEPT_BYTES = 56 * 2**20
"""Memory of a process that takes another document; a larger one ends, which gives its memory back."""

Facts = Mapping[str, Any]
"""A value of JSON."""
Work = Callable[[Facts, bytes], tuple[Facts, bytes]]
"""Arguments and a file to results and a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of a message."""

    result: Facts = field(default_factory=dict)
    """Results of the work, without the file."""
    refusal: str | None = None
    """The fault of the document."""
    is_costly: bool = False
    """True if that is its need of memory, or its depth."""
    failure: tuple[str, list[str]] | None = None
    """Type and place of an unexpected error, without its message, which may quote the document."""
    is_last: bool = False
    """True if the process ends now."""


def message(facts: Facts, content: bytes) -> bytes:
    """Return the bytes of a message.

    Args:
        facts: What JSON can say.
    """
    head = json.dumps(facts).encode()
    return b"".join((len(head).to_bytes(LENGTH_BYTES), len(content).to_bytes(LENGTH_BYTES), head, content))


def file_facts(file: DocumentFile) -> Facts:
    """Return the name and the settings of a file as JSON."""
    return {"name": file.name, **asdict(file.settings)}


def _file(facts: Facts, content: bytes) -> DocumentFile:
    settings = dict(facts["file"])
    name, limits = settings.pop("name"), Limits(**settings.pop("limits"))
    file = DocumentFile.of(content, limits=limits, **settings)
    return replace(file, name=name)


def _texts(facts: Facts, content: bytes) -> tuple[Facts, bytes]:
    return asdict(_file(facts, content).texts()), b""


def _written(facts: Facts, content: bytes) -> tuple[Facts, bytes]:
    written = _file(facts, content).rewritten(facts["translations"])
    return {"refusals": list(map(asdict, written.refusals))}, written.content


WORKS: dict[str, Work] = {"texts": _texts, "written": _written}
"""Functions of the process by name."""


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
    while lengths := source.read(2 * LENGTH_BYTES):
        target.write(BEGUN)
        target.flush()
        # Nothing handles its signal, so that it ends the process, whatever code runs.
        signal.setitimer(signal.ITIMER_PROF, seconds)
        head, content = (source.read(int.from_bytes(lengths[at : at + LENGTH_BYTES])) for at in (0, LENGTH_BYTES))
        outcome, file = _outcome(head, content)
        answer = message(asdict(outcome), file)
        signal.setitimer(signal.ITIMER_PROF, 0)
        target.write(answer)
        target.flush()
        if outcome.is_last:
            break
        del head, content, outcome, file, answer


def _outcome(head: bytes, content: bytes) -> tuple[Outcome, bytes]:
    try:
        facts = json.loads(head)
        result, file = WORKS[facts["work"]](facts, content)
    except DocumentError as error:
        return Outcome(refusal=str(error), is_last=_is_large()), b""
    except RecursionError:
        return Outcome(refusal="it is nested too deep", is_costly=True, is_last=True), b""
    except MemoryError:
        refusal = "it needs more memory than a document may have"
        return Outcome(refusal=refusal, is_costly=True, is_last=True), b""
    except Exception as error:  # noqa: BLE001 - the gateway says so
        failure = type(error).__name__, traceback.format_tb(error.__traceback__)
        return Outcome(failure=failure, is_last=True), b""
    return Outcome(result=result, is_last=_is_large()), file


def give_back_memory() -> None:
    """Give memory that was freed back to the system, where glibc would keep it."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


def _is_large() -> bool:
    give_back_memory()
    try:
        # Not the greatest of `getrusage`, which begins on Linux with that of the process that started this one.
        resident = int(Path("/proc/self/statm").read_text("ascii").split()[1]) * mmap.PAGESIZE
    except OSError:
        # On macOS, in bytes.
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return resident > _KEPT_BYTES


if __name__ == "__main__":
    main()
