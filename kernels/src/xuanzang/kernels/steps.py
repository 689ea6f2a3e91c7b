"""The bookkeeping between two decoder steps, as functions of the library.

Numpy does the same in ten to twenty calls, which take longer than the work. Arguments are kept from call to call,
because most steps work on the arrays of the step before.
"""

from __future__ import annotations

import ctypes
import operator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from xuanzang.kernels.step_functions import StepFunctions, address, members, require

_Ints = npt.NDArray[np.int64]
_INT64, _FLOAT32, _BOOL = np.dtype(np.int64), np.dtype(np.float32), np.dtype(np.bool_)


class SlotStep(ctypes.Structure):
    """Inputs and outputs of a step of the slots."""

    _fields_ = (
        *members("batch", "beam", "slots", "heads", "page_slots", "logical_pages"),
        *members("parents", "visible", "page_table", "page_owners", "free_pages", "free_count", of=ctypes.c_void_p),
        *members("slot_indices", "chosen", of=ctypes.c_void_p),
    )


class BeamStep(ctypes.Structure):
    """Inputs and outputs of a step of the hypotheses."""

    _fields_ = (
        *members("batch", "beam", "candidates", "eos_id"),
        *members("dead", of=ctypes.c_float),
        *members("candidate_scores", "candidate_ids", "candidate_parents", of=ctypes.c_void_p),
        *members("token_ids", "scores", "positions", "parents", "inspected", of=ctypes.c_void_p),
    )


class SlotArrays(NamedTuple):
    """The slots of a batch, and the pages that they lie on; all but the parents are changed."""

    parents: _Ints
    """Beam position of each hypothesis before the last step, [batch, beam]."""
    visible: npt.NDArray[np.bool_]
    """Slots that each hypothesis sees, [batch, beam, slot]."""
    page_table: _Ints
    """Page of each logical page of each sentence, or -1, [batch, logical page]."""
    page_owners: _Ints
    """Sentence and logical page of each page, [page, 2]."""
    free_pages: _Ints
    """Pages without sentence, the next to be taken last; room for all, [page]."""
    free_count: _Ints
    """Number of free pages, [1]."""
    slot_indices: _Ints
    """Page, head and slot in the page that each hypothesis writes, [batch, beam, heads, 3]."""


class AdvanceSlots:
    """Lets every hypothesis see what its parent saw, and a slot that is free for its next token."""

    def __init__(self, functions: StepFunctions, *, page_slots: int) -> None:
        """Start without arrays."""
        self._function = functions.advance_slots
        self._page_slots = page_slots
        self._arrays: tuple[npt.NDArray[Any], ...] = (np.zeros(0),) * len(SlotArrays._fields)
        self._step = SlotStep()
        self.chosen: _Ints = np.zeros((0, 0), np.int64)
        """Slot of each hypothesis after the last call, [batch, beam]."""

    def __call__(self, arrays: SlotArrays) -> int | None:
        """Advance by one step.

        Returns:
            Number of hypotheses whose slot lies on a missing page, because no page is free; None, with
            nothing changed, if a sentence has too few slots or a parent does not exist.

        Raises:
            ValueError: An array is of another shape or type, or not contiguous.
        """
        self.fit(arrays)
        missing = self._function(ctypes.byref(self._step))
        return missing if missing >= 0 else None

    @property
    def address(self) -> int:
        """Address of the arrays for the library."""
        return ctypes.addressof(self._step)

    def fit(self, arrays: SlotArrays) -> None:
        """Take the arrays of the next step.

        Raises:
            ValueError: As of a call.
        """
        if not all(map(operator.is_, arrays, self._arrays)):
            self._bind(arrays)

    def _bind(self, arrays: SlotArrays) -> None:
        (batch, beam, slots), pages, heads = arrays.visible.shape, len(arrays.page_owners), arrays.slot_indices.shape[2]
        require(arrays.parents, _INT64, (batch, beam))
        require(arrays.visible, _BOOL, (batch, beam, slots))
        require(arrays.page_table, _INT64, (batch, slots // self._page_slots))
        require(arrays.page_owners, _INT64, (pages, 2))
        require(arrays.free_pages, _INT64, (pages,))
        require(arrays.free_count, _INT64, (1,))
        require(arrays.slot_indices, _INT64, (batch, beam, heads, 3))
        self.chosen = np.zeros((batch, beam), np.int64)
        self._arrays = arrays
        pointers = [address(array) for array in (*arrays, self.chosen)]
        sizes = (batch, beam, slots, heads, self._page_slots, arrays.page_table.shape[1])
        self._step = SlotStep(*sizes, *pointers)


class ContinueBest:
    """Lets every sentence go on with its best candidates."""

    def __init__(self, functions: StepFunctions, *, eos_id: int, dead: float) -> None:
        """Start without arrays.

        Args:
            eos_id: Token that ends a hypothesis.
            dead: Score below which a beam position has no hypothesis.
        """
        self._function = functions.continue_best
        self._eos_id, self._dead = eos_id, dead
        self._arrays: tuple[npt.NDArray[Any], ...] = (np.zeros(0),) * 7
        self._inspected = np.zeros(0, np.int64)
        self._step = BeamStep()

    def __call__(self, *arrays: npt.NDArray[Any]) -> list[int]:
        """Go on by one step.

        Args:
            *arrays: Of the candidates, best first, scores, tokens and parents, [batch, candidate] each; of the
                hypotheses the last tokens and scores, [batch, beam], which are replaced, the number of tokens of each
                sentence so far, [batch, 1], which is increased, and the parents, [batch, beam], which are replaced.

        Returns:
            Sentences with a hypothesis that has ended or is missing.

        Raises:
            ValueError: An array is of another shape or type or not contiguous, or there are fewer candidates than
                hypotheses.
        """
        self.fit(*arrays)
        return self.inspected(self._function(ctypes.byref(self._step)))

    @property
    def address(self) -> int:
        """Address of the arrays for the library."""
        return ctypes.addressof(self._step)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of sentences, and of hypotheses of each, of the arrays."""
        return self._step.batch, self._step.beam

    def fit(self, *arrays: npt.NDArray[Any]) -> None:
        """Take the arrays of the next call, as it takes them."""
        if not all(map(operator.is_, arrays, self._arrays)):
            self._bind(arrays)

    def inspected(self, count: int) -> list[int]:
        """Return the first of the sentences that the library has found last."""
        found: list[int] = self._inspected[:count].tolist()
        return found

    def _bind(self, arrays: tuple[npt.NDArray[Any], ...]) -> None:
        (batch, candidates), (_, beam) = arrays[0].shape, arrays[3].shape
        if candidates < beam:
            raise ValueError(f"{candidates} candidates are fewer than {beam} hypotheses")
        shapes = [(batch, candidates)] * 3 + [(batch, beam), (batch, beam), (batch, 1), (batch, beam)]
        dtypes: tuple[np.dtype[Any], ...] = (_FLOAT32, _INT64, _INT64, _INT64, _FLOAT32, _INT64, _INT64)
        for array, dtype, shape in zip(arrays, dtypes, shapes, strict=True):
            require(array, dtype, shape)
        self._arrays = arrays
        self._inspected = np.zeros(batch, np.int64)
        pointers = [address(array) for array in (*arrays, self._inspected)]
        self._step = BeamStep(batch, beam, candidates, self._eos_id, self._dead, *pointers)
