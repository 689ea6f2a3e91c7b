"""Text files that users name."""

from __future__ import annotations

from pathlib import Path


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
