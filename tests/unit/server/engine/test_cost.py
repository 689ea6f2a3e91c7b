from __future__ import annotations

from typing import Any

import pytest

from xuanzang.server.engine.decoding.hypotheses import SearchOptions, Sentence
from xuanzang.server.engine.scheduling.cost import predicted_cost


@pytest.mark.parametrize(
    ("changes", "cost"),
    [
        ({}, 10 + 4 * 10),
        ({"beam_size": 1}, 10 + 10),
        ({"max_target_length": 6}, 10 + 4 * 6),
        ({"min_target_length": 20}, 10 + 4 * 21),
        ({"prefix_ids": (7,) * 12}, 10 + 4 * 13),
    ],
)
def test_the_cost_is_what_passes_encoder_and_decoder_within_the_limits(changes: dict[str, Any], cost: int) -> None:
    options: dict[str, Any] = {
        "beam_size": 4,
        "num_hypotheses": 1,
        "length_penalty": 1.0,
        "min_target_length": 0,
        "max_target_length": 50,
    }
    assert predicted_cost(Sentence(source_ids=[5] * 10, options=SearchOptions(**options | changes))) == cost
