from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import step_cost
import torch

from xuanzang.model.data.prepare import PrepareSettings, prepare


@pytest.fixture
def data(tmp_path: Path, write_corpus: Callable[[str], Path]) -> Path:
    settings = PrepareSettings(
        train=[write_corpus("one")], output=tmp_path / "data", vocab_size=300, valid_share=0.05, min_script_share=0
    )
    prepare(settings)
    return settings.output


def test_costs_are_means_over_the_measured_steps(data: Path) -> None:
    torch.set_num_threads(1)
    cost = step_cost.measure(data, {"preset": "tiny", "batch_tokens": "500", "device": "cpu", "bf16": "false"}, 4)
    assert cost.cpu_seconds > 0
    assert cost.seconds > 0
    assert 100 < cost.target_tokens <= 500
    assert 0 <= cost.source_padding < 0.5
    assert 0 <= cost.target_padding < 0.5


def test_padding_fills_each_side_of_a_batch_to_its_longest_sentence() -> None:
    lengths = np.array([[2, 4], [1, 4], [5, 3]])
    source, target = step_cost.padding(lengths, [np.array([0, 1]), np.array([2])])
    assert source == pytest.approx(1 / 9)
    assert target == 0
    assert step_cost.padding(lengths, [np.array([0, 1, 2])]) == pytest.approx((7 / 15, 1 / 12))


def test_a_line_is_printed_or_the_reason_why_not(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["preset=tiny", "batch_tokens=300", "device=cpu"]
    assert step_cost.main([str(data), *settings, "--steps", "1", "--threads", "1"]) == 0
    assert "CPU s a step of" in capsys.readouterr().out
    assert step_cost.main([str(data), "colour=red"]) == 2
    assert "colour" in capsys.readouterr().err
    assert step_cost.main([str(data.parent), "preset=tiny"]) == 2
    assert "holds no prepared data" in capsys.readouterr().err
