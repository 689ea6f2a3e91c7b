"""Which logits must be changed before the next token of a hypothesis is chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xuanzang.server.engine.decoding.hypotheses import SearchOptions

_FORBIDDEN = -1.0e9
# So much that all others get a probability of exactly 0, and this one of exactly 1.
_FORCED = 1.0e9


class Edit(NamedTuple):
    """How the logit of a token is changed: divided by the penalty, or multiplied if negative, then shifted."""

    penalty: float = 1.0
    bias: float = 0.0


class Edits(NamedTuple):
    """The changes for a batch, [batch, beam, edit] each, as the decoder graph takes them."""

    edited_ids: npt.NDArray[np.int64]
    edit_penalties: npt.NDArray[np.float32]
    edit_biases: npt.NDArray[np.float32]


def no_edits(batch: int, beam: int) -> Edits:
    """Return changes of nothing."""
    shape = (batch, beam, 0)
    return Edits(np.zeros(shape, np.int64), np.zeros(shape, np.float32), np.zeros(shape, np.float32))


def hypothesis_edits(options: SearchOptions, tokens: Sequence[int], *, eos_id: int) -> dict[int, Edit]:
    """Find the changes for one hypothesis.

    Args:
        options: Of its sentence.
        tokens: That it has so far, without start token.
        eos_id: Of the token that ends it.

    Returns:
        By the id whose logit changes.
    """
    if len(tokens) < len(options.prefix_ids):
        return {options.prefix_ids[len(tokens)]: Edit(bias=_FORCED)}
    edits: dict[int, Edit] = {}
    if options.repetition_penalty != 1.0:
        edits = dict.fromkeys(tokens, Edit(penalty=options.repetition_penalty))
    forbidden = [
        *_repeating(tokens, options.no_repeat_ngram_size),
        *_completing(tokens, options.suppressed_sequences),
        *([eos_id] if len(tokens) < options.min_target_length else []),
    ]
    edits |= dict.fromkeys(forbidden, Edit(bias=_FORBIDDEN))
    return edits


def stack(edits: Mapping[tuple[int, int], dict[int, Edit]], *, batch: int, beam: int) -> Edits:
    """Put the changes of some hypotheses into arrays.

    Args:
        edits: By sentence and hypothesis.
        batch: Sentences.
        beam: Hypotheses of each.

    Returns:
        Filled up with changes that are there already, or change nothing.
    """
    width = max(map(len, edits.values()))
    stacked = Edits(
        np.zeros((batch, beam, width), np.int64),
        np.ones((batch, beam, width), np.float32),
        np.zeros((batch, beam, width), np.float32),
    )
    filled = {
        place: [(token, *edit) for token, edit in islice(cycle(changes.items()), width)]
        for place, changes in edits.items()
        if changes
    }
    if filled:
        rows, places = zip(*filled, strict=True)
        values = np.array(list(filled.values()))  # [hypothesis, edit, 3]
        stacked.edited_ids[rows, places] = values[:, :, 0]
        stacked.edit_penalties[rows, places] = values[:, :, 1]
        stacked.edit_biases[rows, places] = values[:, :, 2]
    return stacked


def _repeating(tokens: Sequence[int], size: int) -> Iterator[int]:
    """Find tokens that would make a sequence of `size` occur again."""
    if not size:
        return
    start = len(tokens) - size + 1
    if start < 0:
        return
    last = tuple(tokens[start:])
    for place in range(start):
        if tuple(tokens[place : place + size - 1]) == last:
            yield tokens[place + size - 1]


def _completing(tokens: Sequence[int], sequences: Sequence[Sequence[int]]) -> Iterator[int]:
    """Find tokens that would complete a forbidden sequence."""
    for *beginning, end in sequences:
        if not beginning or list(tokens[-len(beginning) :]) == beginning:
            yield end
