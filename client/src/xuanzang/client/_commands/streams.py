"""Input and output of commands: files, standard input, standard output, and messages on standard error."""

from __future__ import annotations

import argparse
import codecs
import io
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TextIO

from xuanzang.client._output import replaced_file

_START_BYTES = 4096


def add_input(command: argparse.ArgumentParser, *, text_help: str, file_help: str) -> None:
    """Add the arguments that say where texts come from: themselves, a file, or standard input."""
    source = command.add_mutually_exclusive_group()
    source.add_argument("texts", nargs="*", default=[], metavar="TEXT", help=text_help)
    source.add_argument("-f", "--file", metavar="FILE", help=f"{file_help}; - is standard input")
    command.add_argument(
        "--encoding",
        type=_encoding,
        default="utf-8-sig",
        metavar="NAME",
        help="encoding of the file or standard input, such as gb18030 (default: utf-8)",
    )


def _encoding(name: str) -> str:
    try:
        io.TextIOWrapper(io.BytesIO(), encoding=name)
        # Some codecs, such as idna, refuse what `opened_input` asks for.
        codecs.getincrementaldecoder(name)("surrogateescape").decode(b"", final=True)
    except (LookupError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"no encoding of text: {name[:80]!r}") from error
    return "utf-8-sig" if codecs.lookup(name).name == "utf-8" else name


def from_file(arguments: argparse.Namespace) -> bool:
    """Return whether texts are read from a file with a name."""
    return arguments.file not in (None, "-")


def opened_input(arguments: argparse.Namespace) -> TextIO:
    r"""Open the file of the arguments, or standard input; only "\n" ends its lines, and a byte order mark is left out.

    A byte that is not of the encoding becomes a lone surrogate, which no request can hold: the client refuses such a
    text and continues with the next one.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is in UTF-16, and the arguments do not say so.
    """
    encoding: str = arguments.encoding
    if from_file(arguments):
        if encoding == "utf-8-sig":
            _require_no_utf_16(Path(arguments.file))
        return Path(arguments.file).open(encoding=encoding, errors="surrogateescape", newline="\n")
    # Not sys.stdin: another thread reads it, and Python aborts at exit if that thread still holds its lock.
    return open(0, encoding=encoding, errors="surrogateescape", newline="\n", closefd=False)


def _require_no_utf_16(path: Path) -> None:
    """Refuse a file of which a quarter of the first bytes are zero; its lines would be translated with these."""
    if path.is_file():
        with path.open("rb") as file:
            start = file.read(_START_BYTES)
        if 4 * start.count(0) > len(start):
            raise ValueError(f"{path} is in UTF-16; --encoding utf-16 or utf-16le says so")


def undecodable(text: str, encoding: str) -> str:
    """Return the fault of the bytes of a text of `opened_input`; empty for none."""
    try:
        text.encode(encoding, errors="surrogateescape").decode(encoding)
    except UnicodeDecodeError as fault:
        name = encoding.removesuffix("-sig")
        reason = f"not {name.upper()}: {fault.reason} at byte {fault.start}"
        return f"{reason}; --encoding NAME, such as gb18030, says how the file is encoded"
    except UnicodeEncodeError:
        pass  # no text of a file
    return ""


def opened_output(path: Path | None = None) -> AbstractContextManager[TextIO]:
    """Open a file that is replaced once the results are whole, or standard output."""
    if path is not None:
        return replaced_file(path, report=report)
    return open(sys.stdout.fileno(), "w", encoding="utf-8", newline="\n", closefd=False)


def report(message: str) -> None:
    """Write a message to standard error."""
    sys.stderr.write(f"xuanzang: {message}\n")


def read_lines(file: TextIO) -> Iterator[str]:
    r"""Yield the lines of a file without their "\n"; a "\r" before it is kept.

    The file is closed here, by the thread that reads it: another thread would block on a read that may never return.
    """
    with file:
        for line in file:
            yield line.removesuffix("\n")


def read_whole(file: TextIO) -> Iterator[str]:
    """Yield the text of a file without a line break at its end."""
    with file:
        yield file.read().removesuffix("\n")
