"""Files that users name."""

from __future__ import annotations

from collections.abc import Iterable
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


def require_other_files(outputs: Iterable[Path | None], inputs: Iterable[Path | None]) -> None:
    """Refuse to write over an input, under whatever name: itself, a link, a hard link, or other capitals.

    Args:
        outputs: Files to write; None: not written.
        inputs: Files that are only read; None: not read.

    Raises:
        ValueError: An output is one of the inputs. Files such as /dev/stdout may be both.
    """
    read = [path for path in inputs if path is not None and path.is_file()]
    for output in [path for path in outputs if path is not None and path.is_file()]:
        for path in read:
            if output.samefile(path):
                raise ValueError(f"{output} is the input {path} itself: choose another output")
