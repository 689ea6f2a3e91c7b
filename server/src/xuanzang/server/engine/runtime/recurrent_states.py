"""States of the hypotheses of a batch, in place of the keys and values of their tokens.

The decoder takes the state of each hypothesis from its parent, and writes the next one to the same memory. So a change
of hypotheses moves nothing here, and a sentence needs as much memory after a hundred tokens as after one.
"""

from __future__ import annotations

import numpy as np

from xuanzang.server.engine.arrays import Floats, Ints, Order, extended
from xuanzang.server.engine.runtime.shapes import CacheShape, GraphTensors


class RecurrentStates:
    """States of the targets of a batch of sentences with the same beam size."""

    advance_slots = None
    """States need no slots."""

    def __init__(self, shape: CacheShape, beam_size: int) -> None:
        self._states: dict[str, Floats] = {
            name: np.zeros((0, beam_size, shape.d_model), np.float32) for name in shape.state_names
        }
        self._parents: Ints = np.zeros((0, beam_size), np.int64)
        present = [_present(name) for name in shape.state_names]
        self.rows = ("parents", *shape.state_names, *present)
        """Names of the decoder's inputs and outputs with a row for each sentence."""
        self.tensors = GraphTensors({}, {})
        """Inputs of the decoder; replaced when sentences join or leave."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory held for states."""
        # After `select` an array is a part of a larger one.
        held = (array if array.base is None else array.base for array in self._states.values())
        return sum(array.nbytes for array in held)

    def join(self, indices: Ints) -> None:
        """Take in sentences at batch indices, of sentences that have left or the next ones, with states of 0."""
        for name, states in self._states.items():
            grown = extended(states, int(indices.max()) + 1 - len(states))
            grown[indices] = 0
            self._states[name] = grown
        self._expose()

    def leave(self, indices: Ints) -> None:
        """Do nothing: new sentences take the places of those that left."""

    def trim(self) -> None:
        """Give back the memory that the sentences do not need; call it after `select` only."""
        self._states = {name: states.copy() for name, states in self._states.items()}
        self._expose()

    def select(self, order: Order) -> None:
        """Keep only some sentences, in the order given."""
        self._states = {name: order.apply(states) for name, states in self._states.items()}
        self._expose()

    def advance(self, parents: Ints) -> None:
        """Continue hypotheses, which had beam positions [batch, beam] before the last step.

        The array is the decoder's input, and may be changed until the next call.
        """
        if parents is not self._parents:
            self._parents = parents
            self._expose()

    def reorder(self, order: Order) -> None:
        """Do nothing: sentences have only changed places in the arrays of `rows`; all stay."""

    def _expose(self) -> None:
        present = {_present(name): states for name, states in self._states.items()}
        self.tensors = GraphTensors({"parents": self._parents, **self._states}, present)


def _present(name: str) -> str:
    return name.replace("past", "present", 1)
