"""Decoder steps that the library takes one after another, without the interpreter in between."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xuanzang.kernels.graphs import BoundTensors, GraphBinding, Tensor, array_of
from xuanzang.kernels.step_functions import address, members, require
from xuanzang.kernels.steps import AdvanceSlots, ContinueBest

NOTHING: Mapping[str, Tensor] = MappingProxyType({})
# Room for hypotheses that end before the steps do; with more the steps end earlier.
_MAX_ENDINGS = 256


class Interrupt:
    """A flag that ends another thread's steps at the end of the current one."""

    def __init__(self) -> None:
        """Start without interruption."""
        self._flag = ctypes.c_int64(0)
        self.address = ctypes.addressof(self._flag)

    def set(self) -> None:
        """End the steps, and let any that follow be one only until it is cleared."""
        self._flag.value = 1

    @property
    def is_set(self) -> bool:
        """True if steps end."""
        return bool(self._flag.value)

    def clear(self) -> None:
        """Let steps follow each other again."""
        self._flag.value = 0


class StepLimit(NamedTuple):
    """When steps end, whatever the sentences do."""

    steps: int
    """Maximum number."""
    seconds: float
    """Seconds; the step that exceeds them is the last."""
    interrupt: Interrupt
    """Flag; the step during which it is set is the last."""
    steps_after_done: int = 0
    """Steps after the first one that finishes a sentence, for others that finish soon."""
    seconds_after_done: float = math.inf
    """Seconds after that step; a step that would exceed them is not taken."""


ONE_STEP = StepLimit(1, math.inf, Interrupt())


class Ending(NamedTuple):
    """The end of a hypothesis."""

    sentence: int
    token_count: int
    """Tokens, the end token counted."""
    parent: int
    """Beam position, before the step, of the hypothesis that ends."""
    score: float
    """Sum of the log-probabilities, nats."""


class Done(NamedTuple):
    """A sentence that is done."""

    sentence: int
    steps_ago: int
    """Steps that others have taken since."""


class Taken(NamedTuple):
    """Steps that were taken. Sentences are named by the indices that they have now."""

    steps: int
    order: list[int]
    """Index, before, of each sentence: some that are done have changed places with the last ones; empty if none."""
    endings: list[Ending]
    """Hypotheses that have ended, except those of `inspected` in the last step."""
    done: list[Done]
    """Sentences that are done."""
    inspected: list[int]
    """Sentences with a hypothesis that ended in the last step or is missing, left untouched."""


class Decode(ctypes.Structure):
    """Inputs and outputs of steps."""

    _fields_ = (
        *members("decoder", "later", of=ctypes.c_void_p),
        *members("later_count"),
        *members("rows", of=ctypes.c_void_p),
        *members("rows_count"),
        *members("slots", "beams", of=ctypes.c_void_p),
        *members("max_steps"),
        *members("max_seconds", of=ctypes.c_double),
        *members("interrupt", of=ctypes.c_void_p),
        *members("max_steps_after_done"),
        *members("max_seconds_after_done", of=ctypes.c_double),
        *members("dead_score", of=ctypes.c_float),
        *members("endings_left", "links", of=ctypes.c_void_p),
        *members("max_links", "next_link", "max_endings"),
        *members("endings", "ending_scores", "done", "order", of=ctypes.c_void_p),
        *members("steps", "endings_count", "done_count"),
    )


class DecodeSteps:
    """Runs a decoder again and again, with the bookkeeping of the slots and of the search between the runs.

    Steps end before the limit when a sentence is or may be done, or needs another page. Belongs to one thread.
    """

    def __init__(
        self,
        decoder: GraphBinding,
        slots: AdvanceSlots | None,
        beams: ContinueBest,
        *,
        dead_score: float,
        rows: Sequence[str] = (),
    ) -> None:
        """Start without steps.

        Args:
            slots: Bookkeeping of the slots; None of a decoder that keeps states, of which the parents are an input.
            beams: Bookkeeping of the hypotheses.
            dead_score: Score of a beam position without hypothesis.
            rows: Names of all inputs and outputs of the decoder with a row for each sentence, if steps may follow one
                that finishes a sentence. It then changes places with the last one, in `links`, too, and the decoder
                works on the others.
        """
        # They hold the memory that the library works on.
        self._decoder, self.slots, self._beams = decoder, slots, beams
        self._endings = np.zeros((_MAX_ENDINGS, 3), np.int64)
        self._scores = np.zeros(_MAX_ENDINGS, np.float32)
        self._rows = array_of(ctypes.c_char_p, len(rows))(*(name.encode() for name in rows))
        self._decode = Decode(
            decoder=decoder.address,
            rows=ctypes.addressof(self._rows),
            rows_count=len(rows),
            dead_score=dead_score,
            max_endings=_MAX_ENDINGS,
            endings=address(self._endings),
            ending_scores=address(self._scores),
        )

    def __call__(
        self,
        links: npt.NDArray[np.int32],
        next_link: int,
        endings_left: npt.NDArray[np.int64],
        limit: StepLimit,
        later: Mapping[str, Tensor] = NOTHING,
    ) -> Taken:
        """Take at least one step, on the arrays that slots and hypotheses were last fitted to.

        Args:
            links: Token and parent of each hypothesis after each step, [batch, step, 2, beam]; those of all steps but
                the last are added.
            next_link: Where in `links` the next step goes.
            endings_left: Number of endings that finish a sentence, or 0 if their number does not decide,
                [batch]; changed.
            later: Inputs of the decoder from the second step on, in place of the bound ones.

        Raises:
            GraphError: The graph fails.
            ValueError: An array is of another shape or type or not contiguous, or `links` has no room for the steps.
        """
        self._check(links, next_link, endings_left, limit)
        batch, second = len(links), BoundTensors([(name, tensor, False) for name, tensor in later.items()])
        done, order = np.zeros((batch, 2), np.int64), np.zeros(batch, np.int64)
        decode = self._decode
        decode.later, decode.later_count = second.address, second.count
        decode.slots, decode.beams = self.slots.address if self.slots else None, self._beams.address
        decode.max_steps, decode.max_seconds, decode.interrupt = limit.steps, limit.seconds, limit.interrupt.address
        decode.max_steps_after_done, decode.max_seconds_after_done = limit.steps_after_done, limit.seconds_after_done
        decode.endings_left, decode.done, decode.order = address(endings_left), address(done), address(order)
        decode.links, decode.max_links, decode.next_link = address(links), links.shape[1], next_link
        count = self._decoder.functions.decode(ctypes.byref(decode))
        if count < 0:
            raise self._decoder.functions.fault()
        self._decoder.keep(second)
        return self._taken(done, order, self._beams.inspected(count))

    def _check(
        self, links: npt.NDArray[np.int32], next_link: int, endings_left: npt.NDArray[np.int64], limit: StepLimit
    ) -> None:
        batch, beam = self._beams.shape
        require(links, np.int32, (batch, links.shape[1], 2, beam))
        require(endings_left, np.int64, (batch,))
        if not 0 < limit.steps <= links.shape[1] - next_link + 1:
            raise ValueError(f"{limit.steps} steps from {next_link} on do not fit into {links.shape[1]}")
        if limit.steps_after_done and not self._rows:
            raise ValueError("without rows no steps can follow one in which a sentence is done")

    def _taken(self, done: npt.NDArray[np.int64], order: npt.NDArray[np.int64], inspected: list[int]) -> Taken:
        """Describe the steps, with the indices of sentences from before replaced by those of now."""
        steps, ended = self._decode.steps, self._decode.endings_count
        before, now = order.tolist(), np.argsort(order).tolist()
        places, scores = self._endings[:ended].tolist(), self._scores[:ended].tolist()
        return Taken(
            steps,
            before if before != sorted(before) else [],
            [
                Ending(now[row], token_count, parent, score)
                for (row, token_count, parent), score in zip(places, scores, strict=True)
            ],
            [Done(now[row], steps - step) for row, step in done[: self._decode.done_count].tolist()],
            inspected,
        )
