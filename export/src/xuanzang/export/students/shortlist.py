"""A student's shortlist as the graphs take it: a table of the pieces that each source piece suggests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from xuanzang.export.students.student import EOS_ID, Student


@dataclass(frozen=True, slots=True, kw_only=True)
class StudentShortlist:
    """Target pieces that sentences may be translated with."""

    suggested: npt.NDArray[np.int32]
    """Target pieces of each source piece, filled up with eos, [source piece, suggestion]."""
    always: npt.NDArray[np.int32]
    """Target pieces that every sentence may use, ascending."""


def shortlist_of(student: Student) -> StudentShortlist | None:
    """Return the shortlist of a student whose sides share their vocabulary: others lose quality by it.

    A source piece suggests its entries, and itself. Marian adds frequent pieces until their number is a multiple of 8;
    here it is a multiple of 64, filled up with no piece.
    """
    pieces = student.shortlist
    if pieces is None or student.source_vocabulary != student.target_vocabulary:
        return None
    counts = np.diff(pieces.offsets)
    suggested = np.full((len(counts), int(counts.max(initial=0)) + 1), EOS_ID, np.int32)
    suggested[:, 0] = np.arange(len(counts))
    columns = np.arange(len(pieces.entries)) - np.repeat(pieces.offsets[:-1], counts) + 1
    suggested[np.repeat(np.arange(len(counts)), counts), columns] = pieces.entries
    always = np.arange(max(pieces.first, EOS_ID + 1), dtype=np.int32)
    return StudentShortlist(suggested=suggested, always=always)
