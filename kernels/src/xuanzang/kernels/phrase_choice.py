"""The structures of phrase_choice.h, for the choice of hypotheses that hold phrases."""

from __future__ import annotations

import ctypes

from xuanzang.kernels.step_functions import members


class PhraseSentence(ctypes.Structure):
    """A sentence: its automaton and its hypotheses."""

    _fields_ = (
        *members("phrases", "wanted", "symbols", "chain"),
        *members("required", "min_tokens", "symbol_of", "next_states", "gained", "gains", of=ctypes.c_void_p),
        *members("pending", "rest", "begun", "wanted_for", "wanted_ids", "chains", of=ctypes.c_void_p),
        *members("costs", "states", "counts", "overdue", of=ctypes.c_void_p),
    )


class PhraseStep(ctypes.Structure):
    """What one step gives and takes, of all such sentences."""

    _fields_ = (
        *members("sentences", "beam", "best", "asked", "eos_id"),
        ("sentence", ctypes.POINTER(PhraseSentence)),
        *members("scores", "steps_left", "row_scores", "row_ids", "required_scores", of=ctypes.c_void_p),
        *members("required_ids", "chosen_scores", "chosen_tokens", "chosen_parents", of=ctypes.c_void_p),
        *members("ending_parents", "ending_scores", of=ctypes.c_void_p),
    )
