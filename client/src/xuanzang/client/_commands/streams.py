"""Input and output of commands: files, standard input, standard output, and messages on standard error."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, TextIO

from xuanzang.client._output import replaced_file


def from_file(arguments: argparse.Namespace) -> bool:
    """Return whether texts are read from a file with a name."""
    return arguments.file not in (None, "-")


def opened_input(arguments: argparse.Namespace) -> IO[bytes]:
    """Open the file of the arguments, or standard input."""
    if from_file(arguments):
        return Path(arguments.file).open("rb")
    # Not sys.stdin: a gRPC thread reads it, and Python aborts at exit if that thread still holds the lock of sys.stdin.
    return open(0, "rb", closefd=False)


def opened_output(path: Path | None = None) -> AbstractContextManager[TextIO]:
    """Open a file that is replaced once the results are whole, or standard output."""
    if path is not None:
        return replaced_file(path, report=report)
    return open(sys.stdout.fileno(), "w", encoding="utf-8", newline="\n", closefd=False)


def report(message: str) -> None:
    """Write a message to standard error."""
    sys.stderr.write(f"xuanzang: {message}\n")


def read_lines(file: IO[bytes]) -> Iterator[str]:
    r"""Yield the lines of a file without their "\n"; a "\r" before it is kept, a byte order mark is not.

    A byte that is not UTF-8 becomes a lone surrogate, which no request can hold: the client refuses such a line and
    goes on with the next one.

    The file is closed here, by the thread that reads it: another thread would block on a read that may never return.
    """
    with file:
        for number, line in enumerate(file, start=1):
            encoding = "utf-8-sig" if number == 1 else "utf-8"
            yield line.decode(encoding, errors="surrogateescape").removesuffix("\n")


def read_whole(file: IO[bytes]) -> Iterator[str]:
    """Yield the text of a file without a line break at its end, and without a byte order mark."""
    with file:
        yield file.read().decode("utf-8-sig", errors="surrogateescape").removesuffix("\n")
