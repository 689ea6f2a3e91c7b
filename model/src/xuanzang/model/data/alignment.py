"""Translation probabilities of pieces, learned from sentence pairs: Model 1 of Brown et al. 1993 (J93-2003)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse
from tqdm import tqdm

# Sizes of the blocks that are multiplied, which bound the memory of the products.
_PIECES = 500
_PAIRS = 20_000
# Target pieces considered for a source piece: most share few sentences with it and would get next to no probability.
_CONSIDERED = 100

Matrix: TypeAlias = sparse.csr_array
"""Counts or probabilities, nearly all 0."""


def incidence(ids: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64], vocab_size: int) -> Matrix:
    """Mark the pieces of each sentence.

    Args:
        ids: Ids of all sentences, one after the other.
        offsets: Start of each sentence, and the end of the last.

    Returns:
        [sentence, piece], 1 or 0.
    """
    matrix = sparse.csr_array((np.ones(len(ids), np.float32), ids, offsets), shape=(len(offsets) - 1, vocab_size))
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    return matrix


def translation_probabilities(source: Matrix, target: Matrix, *, rounds: int) -> Matrix:
    """Estimate by expectation maximisation how likely each source piece gives each target piece.

    Args:
        source: Pieces of each source, [sentence, source piece]; eos, one of them, takes what no other explains.
        target: Pieces of each target, [sentence, target piece].
        rounds: Iterations of expectation maximisation.

    Returns:
        [source piece, target piece]; rows sum to 1, or to 0 for pieces that do not occur.
    """
    probabilities = _first_guess(source, target)
    for _ in tqdm(range(rounds), desc="aligning", unit="round", file=sys.stderr):
        explained = sparse.vstack(
            [_shares(source[rows], target[rows], probabilities) for rows in _slices(source.shape[0], _PAIRS)], "csr"
        )
        counts = [
            (source[:, pieces].T.tocsr() @ explained) * probabilities[pieces]
            for pieces in _slices(source.shape[1], _PIECES)
        ]
        probabilities = _normalized(sparse.vstack(counts, "csr"))
    return probabilities


def best(probabilities: Matrix, row: int, count: int) -> npt.NDArray[np.int64]:
    """Return the likeliest columns of a row, best first, at most `count`."""
    start, end = probabilities.indptr[row : row + 2]
    order = np.argsort(-probabilities.data[start:end], kind="stable")[:count]
    return probabilities.indices[start:end][order].astype(np.int64)


def _first_guess(source: Matrix, target: Matrix) -> Matrix:
    """Count the sentences that pairs of pieces share; keep each source piece's notably frequent targets."""
    weights = 1 / np.sqrt(np.maximum(target.sum(axis=0), 1.0))
    kept = []
    for pieces in tqdm(list(_slices(source.shape[1], _PIECES)), desc="counting", unit="block", file=sys.stderr):
        counts = (source[:, pieces].T.tocsr() @ target).tocsr()
        kept.append(_most_notable(counts, weights))
    return _normalized(sparse.vstack(kept, "csr"))


def _most_notable(counts: Matrix, weights: npt.NDArray[np.float32]) -> Matrix:
    notability = counts.data * weights[counts.indices]
    for start, end in zip(counts.indptr, counts.indptr[1:], strict=False):
        if end - start > _CONSIDERED:
            row = notability[start:end]
            counts.data[start:end][row < np.partition(row, -_CONSIDERED)[-_CONSIDERED]] = 0.0
    counts.eliminate_zeros()
    return counts


def _shares(source: Matrix, target: Matrix, probabilities: Matrix) -> Matrix:
    """Return the reciprocal of what a sentence's source pieces give together to each of its target pieces."""
    explained = ((source @ probabilities) * target).tocsr()
    explained.data = 1 / explained.data
    return explained


def _normalized(counts: Matrix) -> Matrix:
    sums = np.repeat(counts.sum(axis=1), np.diff(counts.indptr))
    counts.data = counts.data / np.maximum(sums, np.float32(1e-30))
    return counts


def _slices(count: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, count)) for start in range(0, count, size))
