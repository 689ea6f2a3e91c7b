"""What a search knows of one sentence besides its live hypotheses."""

from __future__ import annotations

from xuanzang.server.engine.decoding.hypotheses import FinishedHypotheses, SearchOptions
from xuanzang.server.engine.decoding.logits.sampling import Sampler


class SentenceState:
    """The hypotheses of a sentence that have ended, and when its search needs a look at it. Counted in steps."""

    def __init__(self, options: SearchOptions, step: int) -> None:
        self.options = options
        self.finished = FinishedHypotheses(options.decoding, options.rules)
        self.sampler = Sampler(options.decoding.sampling) if options.decoding.sampling else None
        # Counted in steps of the search.
        self.limit = step + options.max_target_length
        # With the rule a search may end in a step in which no hypothesis does.
        self.inspected_from = 0 if self.sampler or options.rules.none_better else self.limit
        self.edited_until = step + options.edited_tokens

    @property
    def endings_left(self) -> int:
        """How many more hypotheses end until the search is over; 0 where their number does not decide."""
        decoding = self.options.decoding
        decides = decoding.length_penalty and not self.options.rules.none_better
        return decoding.beam_size - len(self.finished.endings) if decides else 0
