"""The model of py3langid: unpacked once, kept in a file, and mapped from there by every process that tells languages.

Packed it has 5 MB and takes half a second to unpack. Unpacked it has 33 MB, of which a process keeps in memory only
the labels that it tells apart and what its texts touch, and processes of one machine share that.
"""

from __future__ import annotations

import hashlib
import io
import logging
import math
import mmap
import os
import re
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from py3langid.langid import MODEL_DIR, MODEL_FILE, LanguageIdentifier

from xuanzang.server.engine.arrays import Array, Ints
from xuanzang.server.whole_files import is_private, remove_abandoned, write_whole

_LOGGER = logging.getLogger(__name__)

Rank: TypeAlias = Callable[[str, frozenset[str]], Iterable[tuple[str, float]]]
"""Text and languages to labels of these with their probabilities; equal ones if the text says nothing."""

_PREFIX, _SUFFIX = "languages-", ".npy"
_LAYOUT = b"links, weights by label"
"""What the arrays of a kept model are; a part of its name, since files of other layouts may lie beside it."""
_NAME = re.compile(r"languages-[0-9a-f]{64}-([0-9a-f]{64})\.npy")


def mapped_rank(language_of: Callable[[str, frozenset[str]], str], folder: Path | None = None) -> Rank:
    """Open the model, kept in a folder, or unpacked into a file that has no name and goes with the process.

    `language_of` returns the language among some that a label of the library stands for; empty if it is none of them.
    """
    with _kept(folder) if folder else _unnamed(_unpacked()) as file:
        values = _mapped(file)
    labels, weights, prior = values["labels"].tolist(), values["weights"], values["prior"]
    found_in = _Features(values)

    @lru_cache(32)
    def among(languages: frozenset[str]) -> Ints:
        """Return the rows of labels that stand for one of some languages."""
        return np.flatnonzero([language_of(label, languages) in languages for label in labels])

    def rank(text: str, languages: frozenset[str]) -> Iterable[tuple[str, float]]:
        rows = among(languages)
        if not rows.size:
            return ()
        encoded = _encoded(text)
        found = Counter(found_in(encoded))
        scores = np.zeros(len(rows), dtype=np.float32)
        if found:
            # Products as the library makes them, [feature, label], so that they are equal to the last bit.
            chosen = np.ascontiguousarray(weights[rows[:, None], np.fromiter(found, np.intp)].T)
            scores = np.log1p(np.fromiter(found.values(), np.float32)) @ chosen + prior[rows]
        # The library's calibration: probabilities of a long text are less extreme.
        scores *= 1.0 / math.sqrt(len(encoded) or 1)
        np.exp(scores - scores.max(), out=scores)
        return _by_label([labels[row] for row in rows], scores / scores.sum())

    return rank


def _encoded(text: str) -> bytes:
    """Return what is read of a text, as the library does."""
    return unicodedata.normalize("NFC", text.lower() if text.isupper() else text).encode(errors="surrogatepass")


def _by_label(labels: Iterable[str], probabilities: npt.NDArray[np.float32]) -> list[tuple[str, float]]:
    """Return labels with their probabilities, likeliest first; a label of two scripts has two."""
    sums: dict[str, float] = {}
    for label, probability in zip(labels, probabilities.tolist(), strict=True):
        sums[label] = float(np.float32(sums[label] + probability)) if label in sums else probability
    return sorted(sums.items(), key=itemgetter(1), reverse=True)


class _Features:
    """Finds the byte sequences in a text that the model knows: at each byte the longest that ends there.

    Their automaton (Aho and Corasick 1975) follows its links where the library has a row of 256 states for each state,
    40 MB in all. The children of a state stand side by side, by their last byte, from `base` on; what else stands there
    has other parents. The root has 256, of which those that it lacks are itself.
    """

    def __init__(self, values: Any) -> None:
        """Read the arrays of a model where they lie."""
        self._arrays = [memoryview(values[name]) for name in ("base", "children", "parent", "shorter", "feature")]

    def __call__(self, text: bytes) -> list[int]:
        """Return the numbers of the sequences, one for each time that it is found."""
        base, children, parent, shorter, feature = self._arrays
        state, found = 0, []
        for byte in text:
            child = children[base[state] + byte]
            while parent[child] != state:
                state = shorter[state]
                child = children[base[state] + byte]
            state = child
            if (number := feature[state]) >= 0:
                found.append(number)
        return found


def _mapped(file: BinaryIO) -> Any:
    """Map a file that numpy wrote; return its record, which has arrays by name."""
    file.seek(0)
    np.lib.format.read_magic(file)
    _, _, dtype = np.lib.format.read_array_header_1_0(file)
    table = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(table, dtype, count=1, offset=file.tell())[0]


def _unpacked() -> bytes:
    """Return the model as a file of numpy's with one record of all its arrays."""
    read = LanguageIdentifier.from_model_file(MODEL_FILE)
    arrays = {
        # A process reads the labels that it tells apart, and only these.
        "weights": read.nb_ptc.T,
        "prior": read.nb_pc,
        "labels": np.array(read.nb_classes),
        "feature": np.array(read.tk_output, dtype=np.int32),
        **_links(np.frombuffer(read.tk_nextmove, read.tk_nextmove.typecode).reshape(-1, 256), np.array(read.tk_row)),
    }
    record = np.zeros((), np.dtype([(name, each.dtype, each.shape) for name, each in arrays.items()], align=True))
    for name, each in arrays.items():
        record[name] = each
    content = io.BytesIO()
    np.lib.format.write_array(content, record, version=(1, 0), allow_pickle=False)
    return content.getvalue()


def _links(table: Array, row: Array) -> dict[str, Array]:
    """Return the links of an automaton whose next states are in a table [row, byte], by the row of each state.

    A state and its longest shorter suffix go to the same next states, but for the children of the state.
    """
    parent, shorter, base = (np.zeros(len(row), dtype=np.uint32) for _ in range(3))
    edges: list[Array] = []
    level = np.zeros(1, dtype=np.uint32)
    while level.size:
        after = table[row[level]]  # [state, byte]
        otherwise = table[row[shorter[level]]] if edges else np.zeros_like(after)
        position, byte = np.nonzero(after != otherwise)
        children = after[position, byte]
        parent[children], shorter[children] = level[position], otherwise[position, byte]
        edges.append(np.stack((parent[children], byte, children)))
        level = children
    parents, bytes_, states = np.concatenate(edges, axis=1)
    parents, bytes_, states = (each[np.lexsort((bytes_, parents))] for each in (parents, bytes_, states))
    inner, first, count = np.unique(parents, return_index=True, return_counts=True)
    lowest, highest = bytes_[first], bytes_[first + count - 1]
    lowest[0], highest[0] = 0, 255
    width = highest - lowest + 1
    # A byte below the lowest looks before the children of a state, one above the highest behind them.
    base[inner] = 256 + np.cumsum(width) - width - lowest
    slots = np.zeros(256 + width.sum() + 256, dtype=np.uint32)
    slots[base[parents] + bytes_] = states
    return {"base": base, "children": slots, "parent": parent, "shorter": shorter}


def _unnamed(content: bytes) -> BinaryIO:
    file = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - the caller closes it
    file.write(content)
    file.flush()
    return file


def _kept(folder: Path) -> BinaryIO:
    """Open the unpacked model in a folder, written there first if it is not there or damaged.

    Its name has two digests: of layout, version of the library and packed model, and of what the file must hold.
    """
    source = (_LAYOUT, version("py3langid").encode(), (MODEL_DIR / MODEL_FILE).read_bytes())
    packed = hashlib.sha256(b"\0".join(source)).hexdigest()
    if file := _found(folder, packed):
        return file
    content = _unpacked()
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
    return _unnamed(content)


def _found(folder: Path, packed: str) -> BinaryIO | None:
    """Open what a folder has of a packed model; None if there is none that is to be trusted."""
    return next(filter(None, map(_opened, folder.glob(f"{_PREFIX}{packed}-*{_SUFFIX}"))), None)


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
