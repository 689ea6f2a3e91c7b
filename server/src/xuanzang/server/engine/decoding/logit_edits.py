"""Changes of logits that implement options: forced and forbidden tokens, repetition penalty."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xuanzang.server.engine.decoding.hypotheses import SearchOptions

_FORBIDDEN = -1.0e9
# So great that all other tokens get a probability of exactly 0, and this one of exactly 1.
_FORCED = 1.0e9


class Prohibition(enum.Enum):
    """Reason that a token may not come next."""

    REPEATED_NGRAM = "repeated_ngram"
    """It would make a sequence of `no_repeat_ngram_size` tokens occur again."""
    SUPPRESSED = "suppressed"
    TOO_SHORT = "too_short"
    """It would end the hypothesis before `min_target_length`."""


class LogitEdit(NamedTuple):
    """Change of one logit: divided by the penalty, or multiplied by it if negative, then shifted by the bias."""

    penalty: float = 1.0
    bias: float = 0.0


class LogitEdits(NamedTuple):
    """The changes for a batch, [batch, beam, edit] each, as the decoder graph takes them."""

    edited_ids: npt.NDArray[np.int64]
    edit_penalties: npt.NDArray[np.float32]
    edit_biases: npt.NDArray[np.float32]


def no_edits(batch: int, beam: int) -> LogitEdits:
    """Return edits that change nothing."""
    shape = (batch, beam, 0)
    return LogitEdits(np.zeros(shape, np.int64), np.zeros(shape, np.float32), np.zeros(shape, np.float32))


def hypothesis_edits(options: SearchOptions, tokens: Sequence[int], *, eos_id: int) -> dict[int, LogitEdit]:
    """Find the changes for one hypothesis by its tokens so far, without start token."""
    if len(tokens) < len(options.prefix_ids):
        return {options.prefix_ids[len(tokens)]: LogitEdit(bias=_FORCED)}
    decoding = options.decoding
    edits: dict[int, LogitEdit] = {}
    if decoding.repetition_penalty != 1.0:
        edits = dict.fromkeys(tokens, LogitEdit(penalty=decoding.repetition_penalty))
    edits |= dict.fromkeys(prohibitions(options, tokens, eos_id=eos_id), LogitEdit(bias=_FORBIDDEN))
    return edits


def prohibitions(options: SearchOptions, tokens: Sequence[int], *, eos_id: int) -> dict[int, Prohibition]:
    """Find the tokens that may not come next in a hypothesis, behind its forced beginning, with the first reason."""
    size, sequences = options.decoding.no_repeat_ngram_size, options.suppressed_sequences
    found = {eos_id: Prohibition.TOO_SHORT} if len(tokens) < options.decoding.min_target_length else {}
    if sequences:
        found |= dict.fromkeys(_completing(tokens, sequences), Prohibition.SUPPRESSED)
    if size:
        found |= dict.fromkeys(_repeating(tokens, size), Prohibition.REPEATED_NGRAM)
    return found


def stack(edits: Mapping[tuple[int, int], dict[int, LogitEdit]], *, batch: int, beam: int) -> LogitEdits:
    """Put the changes of some hypotheses, by batch index and beam position, into arrays.

    These are as wide as the hypothesis with the most edits; others repeat theirs, or hold edits of nothing.
    """
    width = max(map(len, edits.values()))
    stacked = LogitEdits(
        np.zeros((batch, beam, width), np.int64),
        np.ones((batch, beam, width), np.float32),
        np.zeros((batch, beam, width), np.float32),
    )
    filled = {
        hypothesis: [(token, *edit) for token, edit in islice(cycle(changes.items()), width)]
        for hypothesis, changes in edits.items()
        if changes
    }
    if filled:
        indices, beam_positions = zip(*filled, strict=True)
        values = np.array(list(filled.values()))  # [hypothesis, edit, 3]
        stacked.edited_ids[indices, beam_positions] = values[:, :, 0]
        stacked.edit_penalties[indices, beam_positions] = values[:, :, 1]
        stacked.edit_biases[indices, beam_positions] = values[:, :, 2]
    return stacked


def _repeating(tokens: Sequence[int], size: int) -> Iterator[int]:
    """Find tokens that would make a sequence of `size` occur again."""
    start = len(tokens) - size + 1
    if start < 0:
        return
    last = tuple(tokens[start:])
    for position in range(start):
        if tuple(tokens[position : position + size - 1]) == last:
            yield tokens[position + size - 1]


def _completing(tokens: Sequence[int], sequences: Sequence[Sequence[int]]) -> Iterator[int]:
    for *beginning, end in sequences:
        if not beginning or list(tokens[-len(beginning) :]) == beginning:
            yield end
