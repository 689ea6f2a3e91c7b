"""Files that users name, and names that become one part of a path."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Self, TypeGuard


def read_text(file: Path) -> str:
    """Return the text of a file in UTF-8, without the mark that some programs write at its beginning.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not UTF-8; the message names the file and the byte.
    """
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}: not UTF-8: {error.reason} at byte {error.start}") from error


def require_other_files(outputs: Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Refuse to write over an input, under whatever name: itself, a link, a hard link, or other capitals.

    Args:
        outputs: Files to write; None: not written.
        inputs: Files that are only read; None: not read.

    Raises:
        ValueError: An output is one of the inputs. Files such as /dev/stdout may be both.
    """
    read = list(filter(_holds_content, inputs))
    for output in filter(_holds_content, outputs):
        for path in read:
            is_there = output.exists() and path.exists()
            if output.samefile(path) if is_there else os.path.realpath(output) == os.path.realpath(path):
                raise ValueError(f"{output} is the input {path} itself: choose another output")


def _holds_content(path: Path | None) -> TypeGuard[Path]:
    """Return whether a path names an ordinary file, or one that is not there yet."""
    return path is not None and (path.is_file() or not path.exists())


_PATTERN = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_SHOWN_CHARACTERS = 80


class PathName(str):
    """Name of a model, bundle or glossary that is safe as one part of a path.

    It has neither separators nor "..", is not hidden, and is no flag.

    Args:
        text: Text of a user, a file or another machine.

    Raises:
        ValueError: The text is no such name.
    """

    __slots__ = ()

    RULE = "1 to 63 of a-z, 0-9, '-', '_' and '.', the first a letter or digit"

    def __new__(cls, text: str) -> Self:
        """Check a text."""
        if not cls.fits(text):
            raise ValueError(f"a name must be {cls.RULE}, not {text[:_SHOWN_CHARACTERS]!r}")
        return super().__new__(cls, text)

    @staticmethod
    def fits(text: str) -> bool:
        """Return whether a text is such a name."""
        return _PATTERN.fullmatch(text) is not None
