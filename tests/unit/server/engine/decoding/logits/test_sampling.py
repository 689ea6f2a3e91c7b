from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xuanzang.server.engine.decoding.logits.sampling import Candidate, Sampler
from xuanzang.server.engine.types import SamplingOptions

CANDIDATES: list[Candidate] = [(float(np.log(p)), token, 0) for token, p in enumerate((0.5, 0.25, 0.15, 0.1))]


def draws(count: int, *, top_k: int = 4, top_p: float = 1.0, temperature: float = 1.0, seed: int = 1) -> list[int]:
    sampler = Sampler(SamplingOptions(top_k=top_k, top_p=top_p, temperature=temperature, seed=seed))
    return [sampler.choose(CANDIDATES)[0][1] for _ in range(count)]


def test_tokens_are_drawn_as_often_as_their_probability_says() -> None:
    counts = Counter(draws(4000))
    for token, probability in enumerate((0.5, 0.25, 0.15, 0.1)):
        assert counts[token] / 4000 == pytest.approx(probability, abs=0.03)


@pytest.mark.parametrize(
    ("limits", "possible"),
    [({"top_k": 2}, {0, 1}), ({"top_p": 0.5}, {0}), ({"top_p": 0.6}, {0, 1}), ({"top_k": 1, "temperature": 9.0}, {0})],
)
def test_only_the_likeliest_are_drawn(limits: dict[str, float], possible: set[int]) -> None:
    assert set(draws(300, **limits)) == possible  # type: ignore[arg-type]


def test_a_low_temperature_prefers_the_best_and_a_high_one_evens_out() -> None:
    cold, hot = (Counter(draws(1000, temperature=temperature))[0] for temperature in (0.2, 5.0))
    assert cold > 950
    assert hot < 400


@given(seed=st.integers(0, 2**32))
def test_equal_seeds_draw_alike(seed: int) -> None:
    assert draws(20, seed=seed) == draws(20, seed=seed)


def test_nothing_is_drawn_from_nothing() -> None:
    assert Sampler(SamplingOptions(top_k=4, top_p=1.0, temperature=1.0, seed=0)).choose([]) == []
