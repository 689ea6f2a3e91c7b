"""Quality estimates: frozen values, as the server reports them on request."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class QualityFlag(enum.Enum):
    """Something suspicious about a hypothesis: a finding, not a proof."""

    UNSPECIFIED = 0
    """The server has found something that this version does not know."""
    REPETITION = 1
    """A part of it follows itself three times over, and none of the source does."""
    LENGTH_RATIO = 2
    """It is much shorter or longer than translations of such sources are."""
    UNTRANSLATED = 3
    """Nearly all of its words are the source's, or it has a part of the source in the source's script."""
    TRUNCATED = 4
    """A sentence was not finished, because of `max_target_length` or the deadline."""
    LOW_COVERAGE = 5
    """An unusual share of the source got little attention, so a part may be left out."""
    NUMBER_LOST = 6
    """A number of the source, written in digits, is missing, or one of the translation is new."""
    NAME_LOST = 7
    """A name or identifier of the source, written in Latin letters, is missing."""
    WRONG_LANGUAGE = 8
    """It is in another language than the one asked for; only servers that detect languages find out."""
    CUT = 9
    """A sentence over the model's limit was cut where no reader would pause, so its parts were translated apart."""
    SOURCE_LANGUAGE = 10
    """The text is in another language than `source_language`; only servers that detect languages find out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """Quality estimate of a hypothesis."""

    acceptable_probability: float | None
    """Estimated probability that it is acceptable, 0 to 1; of several sentences that of the least probable one. None
    for texts that are answered unchanged."""
    flags: frozenset[QualityFlag] = frozenset()
    """Flags for suspicious signs in any of its sentences."""
