"""What is asked, and when: texts drawn from a file, requests of mixed sizes, arrivals of a Poisson process."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Mix:
    """Sizes of requests and how often each comes."""

    sizes: tuple[int, ...]
    """Texts of a request."""
    weights: tuple[float, ...]
    """Weight of each size."""

    @classmethod
    def parse(cls, words: Sequence[str]) -> Self:
        """Read sizes such as "1:0.9" and "8:0.1"; without a weight each counts 1.

        Raises:
            ValueError: A word has another form, or no size has a weight.
        """
        sizes, weights = [], []
        for word in words:
            size, _, weight = word.partition(":")
            try:
                sizes.append(int(size))
                weights.append(float(weight or 1))
            except ValueError:
                raise ValueError(f"{word!r} is no number of texts, such as 8 or 8:0.1") from None
        if min(sizes) < 1 or min(weights) < 0 or not 0 < sum(weights) < float("inf"):
            raise ValueError("texts per request must be 1 or more, and their weights 0 or more and not all 0")
        return cls(tuple(sizes), tuple(weights))


class Workload:
    """Requests, the same ones for the same seed."""

    def __init__(self, texts: Sequence[str], mix: Mix, seed: int) -> None:
        """Take what requests are made of.

        Args:
            texts: Texts, at least one, each as likely as the others.
            mix: Texts per request.
            seed: Seed of all draws.
        """
        # Two, or the times would depend on when requests are drawn.
        self._random, self._times = random.Random(seed), random.Random(seed)  # noqa: S311 - nothing secret
        self._texts, self._mix = texts, mix

    def request(self) -> list[str]:
        """Draw the texts of a request."""
        [size] = self._random.choices(self._mix.sizes, self._mix.weights)
        return self._random.choices(self._texts, k=size)

    def arrivals(self, rate: float, seconds: float) -> Iterator[float]:
        """Return the times, in seconds after the start, at which the requests of an open loop are due.

        Args:
            rate: Mean arrivals per second.
            seconds: Length of the loop.
        """
        return poisson_arrivals(rate, seconds, self._times)


def poisson_arrivals(rate: float, seconds: float, generator: random.Random) -> Iterator[float]:
    """Draw the arrivals of a Poisson process.

    Args:
        rate: Mean arrivals per second.
        seconds: Length of the process.
        generator: Source of the draws.

    Yields:
        Seconds after the start, ascending.
    """
    due = generator.expovariate(rate)
    while due < seconds:
        yield due
        due += generator.expovariate(rate)
