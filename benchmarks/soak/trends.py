"""Slopes of samples over time, with their uncertainty, and the conclusions."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

BLOCKS = 20
"""Samples are averaged in this many blocks: neighbours resemble each other and are no independent evidence."""
_T_QUANTILE = 2.101
"""97.5 % quantile of Student's t distribution with 18 degrees of freedom, `BLOCKS` less two parameters."""
DECIDING_HOURS = 1.0
"""From this length on, the slope itself is held to its limit; before, the lower end of its interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """Straight line through samples, by least squares."""

    per_hour: float
    low: float
    """Lower end of the 95% confidence interval of `per_hour`."""
    high: float
    """Upper end of it."""
    hours: float
    """Time from the first to the last sample."""

    def exceeds(self, limit: float) -> bool:
        """Return whether the slope is too steep; a short run must show it beyond its own noise.

        Args:
            limit: Maximum slope per hour.
        """
        return (self.per_hour if self.hours >= DECIDING_HOURS else self.low) > limit

    def is_resolved(self, limit: float) -> bool:
        """Return whether the interval lies on one side of a limit.

        Args:
            limit: Slope per hour.
        """
        return self.low > limit or self.high <= limit

    def grows(self) -> bool:
        """Return whether a count, such as of threads, has grown by one or more, and not by chance."""
        return self.low > 0 and self.per_hour * self.hours >= 1


def trend(seconds: Sequence[float], values: Sequence[float]) -> Trend:
    """Fit a line.

    Args:
        seconds: Times of the samples, ascending.
        values: Values at these times.

    Raises:
        ValueError: There are fewer samples than blocks.
    """
    if len(seconds) < BLOCKS:
        raise ValueError(f"{len(seconds)} samples are too few for a trend: {BLOCKS} are needed")
    hours = [statistics.fmean(block) / 3600 for block in _blocks(seconds)]
    means = [statistics.fmean(block) for block in _blocks(values)]
    slope, intercept = statistics.linear_regression(hours, means)
    residuals = sum((mean - intercept - slope * hour) ** 2 for hour, mean in zip(hours, means, strict=True))
    spread = sum((hour - statistics.fmean(hours)) ** 2 for hour in hours)
    margin = _T_QUANTILE * math.sqrt(residuals / (BLOCKS - 2) / spread)
    return Trend(per_hour=slope, low=slope - margin, high=slope + margin, hours=(seconds[-1] - seconds[0]) / 3600)


def _blocks(values: Sequence[float]) -> list[Sequence[float]]:
    bounds = [round(len(values) * number / BLOCKS) for number in range(BLOCKS + 1)]
    return [values[start:end] for start, end in itertools.pairwise(bounds)]
