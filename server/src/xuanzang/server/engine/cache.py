"""What the decoder graph is given besides the last tokens: encoder memory and history."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from xuanzang.server.engine.runtime import Values, value


class Cache:
    """Memory and history of a batch of sentences.

    The hypotheses of a sentence share one history of columns, one column per hypothesis and step. `visible` says which
    columns each may see, so a change of hypotheses rearranges a few booleans and copies no key or value.
    """

    def __init__(self, memory: Values, past: Values, *, batch: int, beam: int) -> None:
        self._memory, self._past = memory, past
        self._visible = np.zeros((batch, beam, 0), dtype=bool)

    def inputs(self, parents: npt.NDArray[np.int64]) -> Values:
        """Return the graph inputs for the next step.

        Args:
            parents: Where each hypothesis stood before the last selection, [batch, beam].
        """
        batch, beam = parents.shape
        inherited = np.take_along_axis(self._visible, parents[:, :, None], axis=1)
        own = np.broadcast_to(np.eye(beam, dtype=bool), (batch, beam, beam))
        self._visible = np.concatenate([inherited, own], axis=2)  # [batch, beam, history]
        return {"visible": value(self._visible)} | self._memory | self._past

    def grow(self, past: Values) -> None:
        """Take the history that a step returned."""
        self._past = past

    def select(self, rows: npt.NDArray[np.int64]) -> None:
        """Keep only some sentences, in the order given; copies what stays.

        Args:
            rows: [batch], int64.
        """
        self._memory, self._past = _select(self._memory, rows), _select(self._past, rows)
        self._visible = self._visible[rows]


def _select(values: Values, rows: npt.NDArray[np.int64]) -> Values:
    return {name: value(tensor.numpy()[rows]) for name, tensor in values.items()}
