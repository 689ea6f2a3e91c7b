"""The model of py3langid: unpacked once, kept in a file, and mapped from there by every process that tells languages.

Packed it has 5 MB and takes half a second to unpack. Unpacked it has 70 MB, of which a process keeps in memory only
what its texts touch, and processes of one machine share that.
"""

from __future__ import annotations

import copy
import hashlib
import io
import logging
import mmap
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

import numpy as np
from py3langid.langid import MODEL_DIR, MODEL_FILE, LanguageIdentifier

from xuanzang.server.whole_files import is_private, remove_abandoned, write_whole

_LOGGER = logging.getLogger(__name__)

Rank: TypeAlias = Callable[[str, frozenset[str]], Iterable[tuple[str, float]]]
"""Text and languages to labels of these with their probabilities; equal ones if the text says nothing."""

_PREFIX, _SUFFIX = "languages-", ".npy"
_NAME = re.compile(r"languages-[0-9a-f]{64}-([0-9a-f]{64})\.npy")


def mapped_rank(language_of: Callable[[str, frozenset[str]], str], folder: Path | None = None) -> Rank:
    """Open the model, kept in a folder, or unpacked into a file that has no name and goes with the process.

    `language_of` returns the language among some that a label of the library stands for; empty if it is none of them.
    """
    with _kept(folder) if folder else _unnamed(_unpacked()) as file:
        table, values = _mapped(file)
    identifier = LanguageIdentifier(
        *(values["ptc"], values["pc"], values["classes"].tolist()),
        *(memoryview(values["nextmove"]), memoryview(values["out"])),
        tk_row=values["row"].tolist(),
        norm_probs=True,
    )

    @lru_cache(32)
    def among(languages: frozenset[str]) -> LanguageIdentifier | None:
        """Return an identifier that knows only some languages, and takes a third of the time; None if it knows none."""
        labels = {label for label in identifier.labels if language_of(label, languages) in languages}
        restricted = copy.copy(identifier)
        restricted.set_languages(labels)
        # It has copied its part.
        table.madvise(mmap.MADV_DONTNEED)
        return restricted if labels else None

    def rank(text: str, languages: frozenset[str]) -> Iterable[tuple[str, float]]:
        known = among(languages)
        return known.rank(text) if known else ()

    return rank


def _mapped(file: BinaryIO) -> tuple[mmap.mmap, Any]:
    """Map a file that numpy wrote; return the mapping and the values in it, by name."""
    file.seek(0)
    np.lib.format.read_magic(file)
    _, _, dtype = np.lib.format.read_array_header_1_0(file)
    table = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return table, np.frombuffer(table, dtype, count=1, offset=file.tell())[0]


def _unpacked() -> bytes:
    """Return the model as a file of numpy's with one record of all its arrays."""
    read = LanguageIdentifier.from_model_file(MODEL_FILE)
    arrays = {
        "ptc": read.nb_ptc,
        "pc": read.nb_pc,
        "classes": np.array(read.nb_classes),
        "nextmove": np.frombuffer(read.tk_nextmove, read.tk_nextmove.typecode),
        "row": np.frombuffer(read.tk_row, read.tk_row.typecode),
        "out": np.array(read.tk_output, dtype=np.int32),
    }
    record = np.zeros((), np.dtype([(name, each.dtype, each.shape) for name, each in arrays.items()], align=True))
    for name, each in arrays.items():
        record[name] = each
    content = io.BytesIO()
    np.lib.format.write_array(content, record, version=(1, 0), allow_pickle=False)
    return content.getvalue()


def _unnamed(content: bytes) -> BinaryIO:
    file = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - the caller closes it
    file.write(content)
    file.flush()
    return file


def _kept(folder: Path) -> BinaryIO:
    """Open the unpacked model in a folder, written there first if it is not there or damaged.

    Its name has two digests: of the packed model with the version of its library, and of what the file must hold.
    """
    packed = hashlib.sha256(version("py3langid").encode() + (MODEL_DIR / MODEL_FILE).read_bytes()).hexdigest()
    for path in folder.glob(f"{_PREFIX}{packed}-*{_SUFFIX}"):
        if file := _opened(path):
            return file
    content = _unpacked()
    path = folder / f"{_PREFIX}{packed}-{hashlib.sha256(content).hexdigest()}{_SUFFIX}"
    reason: str | None = "what was written cannot be read again, or others may write it"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_abandoned(folder, f"{_PREFIX}*{_SUFFIX}")
        # A file that is replaced would keep its owner, for whom it may have been refused.
        path.unlink(missing_ok=True)
        write_whole(path, content, mode=0o600)
        _remove_others(folder, path)
    except OSError as error:
        reason = error.strerror
    if file := _opened(path):
        return file
    _LOGGER.info("model of languages not kept", extra={"folder": str(folder), "reason": reason})
    return _unnamed(content)


def _opened(path: Path) -> BinaryIO | None:
    """Open a kept model; None if it is gone, others may write it, or it does not hold what its name says."""
    name = _NAME.fullmatch(path.name)
    with suppress(OSError):
        file = path.open("rb")
        if name and is_private(os.fstat(file.fileno())) and hashlib.file_digest(file, "sha256").hexdigest() == name[1]:
            return file
        file.close()
    return None


def _remove_others(folder: Path, path: Path) -> None:
    """Remove models of other versions of the library, and damaged ones; who has mapped them keeps them."""
    for other in list(folder.glob(f"{_PREFIX}*{_SUFFIX}")):
        if other != path and _NAME.fullmatch(other.name):
            other.unlink(missing_ok=True)
