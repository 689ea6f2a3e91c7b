"""The model of py3langid, unpacked into a file and mapped from there by every process that tells languages.

Packed it has 5 MB and takes half a second to unpack. Unpacked it has 33 MB, and a process keeps in memory only
the labels that it tells apart and what its texts touch, and processes of one machine share that.
"""

from __future__ import annotations

import hashlib
import io
import math
import mmap
import tempfile
import unicodedata
from collections.abc import Callable, Container, Iterable
from functools import lru_cache
from importlib.metadata import version
from operator import itemgetter
from typing import Any, BinaryIO, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from py3langid.langid import MODEL_DIR, MODEL_FILE, LanguageIdentifier

Rank: TypeAlias = Callable[[str, frozenset[str]], Iterable[tuple[str, float]]]
"""Text and languages to labels of these with their probabilities; equal ones if the text says nothing."""

_Array: TypeAlias = npt.NDArray[np.generic]
_LAYOUT = b"links, weights by label"
"""Layout of the arrays of a kept model; a part of `packed_digest`, since files of other layouts may be kept."""


def packed_digest() -> str:
    """Return what tells unpacked models apart: a digest of layout, version of the library and packed model."""
    digest = hashlib.sha256(b"\0".join((_LAYOUT, version("py3langid").encode(), b"")))
    with (MODEL_DIR / MODEL_FILE).open("rb") as file:
        return hashlib.file_digest(file, lambda: digest).hexdigest()


def mapped_rank(labels_of: Callable[[frozenset[str]], Container[str]], open_model: Callable[[], BinaryIO]) -> Rank:
    """Open the model by mapping the file that a function opens, which holds what `unpacked` returns.

    `labels_of` returns the labels that stand for some languages; the library may lack some of them.
    """
    with open_model() as file:
        values = _mapped(file)
    labels, weights, prior = values["labels"].tolist(), values["weights"], values["prior"]
    found_in = _Features(values)

    @lru_cache(32)
    def among(languages: frozenset[str]) -> tuple[list[str], npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Return the labels that stand for one of some languages, their rows [label, 1], and their priors."""
        wanted = labels_of(languages)
        rows = np.flatnonzero([label in wanted for label in labels])
        return [labels[row] for row in rows], rows[:, None], prior[rows]

    def rank(text: str, languages: frozenset[str]) -> Iterable[tuple[str, float]]:
        names, rows, priors = among(languages)
        if not names:
            return ()
        encoded = _encoded(text)
        found = found_in(encoded)
        if found:
            # Products as the library makes them, [feature, label], so that they are equal to the last bit.
            chosen = np.ascontiguousarray(weights[rows, np.fromiter(found, np.intp)].T)
            scores = np.log1p(np.fromiter(found.values(), np.float32)) @ chosen + priors
        else:
            scores = np.zeros(len(names), dtype=np.float32)
        # The library's calibration: probabilities of a long text are less extreme.
        scores *= 1.0 / math.sqrt(len(encoded) or 1)
        np.exp(scores - np.maximum.reduce(scores), out=scores)
        return _by_label(names, scores / np.add.reduce(scores))

    return rank


def _encoded(text: str) -> bytes:
    """Return the bytes of a text that the library reads."""
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
    has other parents. The root has 256; missing ones are the root itself.
    """

    def __init__(self, values: Any) -> None:
        """Read the arrays of a model where they lie."""
        self._arrays = [memoryview(values[name]) for name in ("base", "children", "parent", "shorter", "feature")]

    def __call__(self, text: bytes) -> dict[int, int]:
        """Return the numbers of the sequences, each with how often it is found."""
        base, children, parent, shorter, feature = self._arrays
        state, found = 0, dict[int, int]()
        for byte in text:
            child = children[base[state] + byte]
            while parent[child] != state:
                state = shorter[state]
                child = children[base[state] + byte]
            state = child
            if (number := feature[state]) >= 0:
                found[number] = found.get(number, 0) + 1
        return found


def _mapped(file: BinaryIO) -> Any:
    """Map a file that numpy wrote; return its record, which has arrays by name."""
    file.seek(0)
    np.lib.format.read_magic(file)
    _, _, dtype = np.lib.format.read_array_header_1_0(file)
    table = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(table, dtype, count=1, offset=file.tell())[0]


def unpacked() -> bytes:
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


def _links(table: _Array, row: _Array) -> dict[str, _Array]:
    """Return the links of an automaton whose next states are in a table [row, byte], by the row of each state.

    A state and its longest shorter suffix go to the same next states, but for the children of the state.
    """
    parent, shorter, base = (np.zeros(len(row), dtype=np.uint32) for _ in range(3))
    edges: list[_Array] = []
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


def unpacked_file() -> BinaryIO:
    """Unpack the model into a file that has no name and goes with the process."""
    return unnamed(unpacked())


def unnamed(content: bytes) -> BinaryIO:
    """Return an open file of some bytes that has no name and goes with the process."""
    file = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - the caller closes it
    file.write(content)
    file.flush()
    return file
