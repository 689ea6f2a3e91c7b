"""What the search of one sentence does at each step, recorded for those who ask why a translation was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class RecordedEnding(NamedTuple):
    """A hypothesis that ended in a step."""

    parent: int
    """Beam position before the step."""
    token: int
    """Its last token."""
    score: float
    """Score by which finished hypotheses are ranked."""


class RecordedStep(NamedTuple):
    """One step of the search of a sentence."""

    candidates: Sequence[tuple[float, int, int]]
    """Summed log-probability, token and parent's beam position of the best continuations, best first."""
    live: Sequence[tuple[int, int]]
    """Token and parent of the hypotheses that live on, by beam position; none after the last step."""
    endings: Sequence[RecordedEnding]
    """Hypotheses that ended in this step."""
    is_last: bool
    """Whether the search of the sentence is over."""


class SearchRecorder:
    """Receives the steps of one sentence from the thread that decodes it; read it when the search is over."""

    def __init__(self, *, max_steps: int) -> None:
        self._max_steps = max_steps
        self.searches = 0
        """Searches begun; `steps` are those of the last one."""
        self.no_repeat_ngram_size = 0
        """Length of token sequences that the last search had only once; 0 for no limit."""
        self.steps: list[RecordedStep] = []
        self.step_count = 0
        """Steps, those that are not kept included."""

    def begin(self, no_repeat_ngram_size: int) -> None:
        """Begin a search, the first one or one that replaces another."""
        self.searches += 1
        self.no_repeat_ngram_size = no_repeat_ngram_size
        self.steps, self.step_count = [], 0

    def add(self, step: RecordedStep) -> None:
        """Record a step, if there is room."""
        self.step_count += 1
        if len(self.steps) < self._max_steps:
            self.steps.append(step)
