"""The language detector of the process, whose model is unpacked once and mapped by all processes of a machine."""

from __future__ import annotations

import hashlib
import logging
import os
import re
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import BinaryIO

from xuanzang.server.whole_files import is_remote, open_private, remove_abandoned, write_whole
from xuanzang.text.language_detection import LanguageDetector, installed_libraries

_LOGGER = logging.getLogger(__name__)
_PREFIX, _SUFFIX = "languages-", ".npy"
_NAME = re.compile(r"languages-[0-9a-f]{64}-([0-9a-f]{64})\.npy")


@cache
def shared_detector(folder: Path | None = None) -> LanguageDetector:
    """Return the detector of the process, which knows scripts only without the libraries of the extra `detection`.

    It reads its model when it is first needed: in half a second, or at once if it was kept in the folder before.
    """
    return LanguageDetector(installed_libraries(partial(kept_model, folder) if folder else None))


def kept_model(folder: Path) -> BinaryIO:
    """Open the unpacked model in a folder, written there first if it is not there or damaged.

    Its name has two digests: of the packed model, and of the file's content. Nothing is kept on a file
    system of other machines; see `is_remote`.
    """
    from xuanzang.text import language_model  # noqa: PLC0415 - an extra

    if is_remote(folder):
        return language_model.unpacked_file()
    packed = language_model.packed_digest()
    if file := _found(folder, packed):
        return file
    content = language_model.unpacked()
    # Another process may have written it meanwhile; then both map the same file.
    if file := _found(folder, packed):
        return file
    path = folder / f"{_PREFIX}{packed}-{hashlib.sha256(content).hexdigest()}{_SUFFIX}"
    reason: str | None = "what was written cannot be read again, or others may write it"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_abandoned(folder, f"{_PREFIX}*{_SUFFIX}")
        # The owner of a file that is replaced may be why it was refused.
        write_whole(path, content, mode=0o600, keeps_owner=False)
        _remove_others(folder, path)
    except OSError as error:
        reason = error.strerror
    if file := _opened(path):
        return file
    _LOGGER.info("model of languages not kept", extra={"folder": str(folder), "reason": reason})
    return language_model.unnamed(content)


def _found(folder: Path, packed: str) -> BinaryIO | None:
    """Open a folder's copy of a packed model; None if there is no trustworthy one."""
    return next(filter(None, map(_opened, folder.glob(f"{_PREFIX}{packed}-*{_SUFFIX}"))), None)


def _opened(path: Path) -> BinaryIO | None:
    """Open a kept model; None if it is gone, others may write it, or it does not hold what its name says."""
    name = _NAME.fullmatch(path.name)
    with suppress(OSError):
        if name and (descriptor := open_private(path)) is not None:
            file = os.fdopen(descriptor, "rb")
            if hashlib.file_digest(file, "sha256").hexdigest() == name[1]:
                return file
            file.close()
    return None


def _remove_others(folder: Path, path: Path) -> None:
    """Remove models of other versions of the library, and damaged ones; who has mapped them keeps them."""
    for other in list(folder.glob(f"{_PREFIX}*{_SUFFIX}")):
        if other != path and _NAME.fullmatch(other.name):
            other.unlink(missing_ok=True)
