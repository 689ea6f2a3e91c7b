"""The keys file: JSON, written whole, for its owner's eyes only."""

from __future__ import annotations

import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from xuanzang.server.access.errors import KeysFileError
from xuanzang.server.access.keys import ApiKey
from xuanzang.server.whole_files import locked, remove_abandoned, write_whole

_MODE = 0o600
_MAX_FAULTS = 3


class _Content(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)

    format: Literal[1] = 1
    keys: tuple[ApiKey, ...]


def read_keys(file: Path) -> tuple[ApiKey, ...]:
    """Read a keys file.

    Args:
        file: Path of the file.

    Returns:
        Its entries, in their order.

    Raises:
        KeysFileError: The file cannot be read, or an entry is not valid.
    """
    try:
        content = _Content.model_validate_json(file.read_bytes())
    except OSError as error:
        raise KeysFileError(f"keys file {file}: {error.strerror}") from error
    except ValidationError as error:
        # Without the values, and without the cause, whose text has them.
        raise KeysFileError(f"keys file {file}: {_faults(error)}") from None
    ids = [key.id for key in content.keys]
    doubled = sorted({each for each in ids if ids.count(each) > 1})
    if doubled:
        raise KeysFileError(f"keys file {file}: two entries have the id {doubled[0]}")
    return content.keys


def others_may_read(file: Path) -> bool:
    """Whether every user of the machine may read a file.

    Args:
        file: Path of the file.
    """
    return bool(file.stat().st_mode & stat.S_IROTH)


def change_keys(file: Path, change: Callable[[tuple[ApiKey, ...]], Sequence[ApiKey]]) -> None:
    """Change a keys file, or make it; nobody sees it half written, and no change by another process is lost.

    Args:
        file: Path of the file; if it is a link, its target is replaced.
        change: Function from the old entries to the new ones.

    Raises:
        KeysFileError: The file cannot be read or written.
    """
    target = file.resolve()
    try:
        with locked(target.parent):
            remove_abandoned(target.parent, target.name)
            old = read_keys(target) if target.exists() else ()
            content = _Content(keys=tuple(change(old))).model_dump_json(indent=1) + "\n"
            write_whole(target, content.encode(), mode=_MODE)
    except KeysFileError:
        raise
    except OSError as error:
        raise KeysFileError(f"keys file {file}: {error.strerror}") from error


def _faults(error: ValidationError) -> str:
    faults = error.errors(include_input=False, include_context=False, include_url=False)
    lines = [f"{'.'.join(map(str, fault['loc'])) or 'content'}: {fault['msg']}" for fault in faults]
    more = f"; {len(lines) - _MAX_FAULTS} more" if len(lines) > _MAX_FAULTS else ""
    return "; ".join(lines[:_MAX_FAULTS]) + more
