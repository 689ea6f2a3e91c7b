from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from xuanzang.model.network.config import TransformerConfig
from xuanzang.model.network.positions import sinusoidal_positions
from xuanzang.model.network.transformer import PositionalEncoding, Transformer


def test_sines_on_even_and_cosines_on_odd_dimensions() -> None:
    table = sinusoidal_positions(300, 32)
    for position in (0, 1, 7, 299):
        for i in range(16):
            angle = position / 10000 ** (2 * i / 32)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_halves_hold_the_same_sines_then_the_same_cosines(make_model: Callable[..., Transformer]) -> None:
    turns, halves = (make_model(positions=kind).source_positions.table for kind in ("sinusoidal", "sinusoidal_halves"))
    assert torch.equal(halves, torch.cat([turns[:, 0::2], turns[:, 1::2]], dim=1))


@pytest.mark.parametrize("positions", ["sinusoidal", "sinusoidal_halves", "learned"])
def test_positions_beyond_the_table_are_refused(positions: str) -> None:
    config = TransformerConfig(source_vocab_size=9, target_vocab_size=9, max_positions=8, positions=positions)  # type: ignore[arg-type]
    encoding = PositionalEncoding(config)
    assert encoding(5, 3).shape == (3, config.d_model)
    with pytest.raises(ValueError, match="position 8 is beyond max_positions = 8"):
        encoding(5, 4)


def test_only_the_learned_table_is_trained(make_model: Callable[..., Transformer]) -> None:
    fixed, learned = make_model(positions="sinusoidal"), make_model(positions="learned")
    assert dict(learned.named_parameters()).keys() - dict(fixed.named_parameters()).keys() == {
        "source_positions.table",
        "target_positions.table",
    }
