"""The mean of checkpoints has the weights between theirs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from mean_weights import main

from xuanzang.model.checkpoint import load_checkpoint, save_checkpoint


@pytest.fixture
def moved(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    first = load_checkpoint(tiny_checkpoint)
    weights = {name: parameter.detach() + 1 for name, parameter in first.model.named_parameters()}
    save_checkpoint(tmp_path / "moved", weights, first.model.config, tiny_checkpoint, {"step": 8})
    return tmp_path / "moved"


def test_the_mean_of_two_checkpoints_lies_between_them(tiny_checkpoint: Path, moved: Path, tmp_path: Path) -> None:
    assert main([str(tmp_path / "mean"), f"{tiny_checkpoint}=1", f"{moved}=3"]) == 0
    first, mean = (load_checkpoint(folder) for folder in (tiny_checkpoint, tmp_path / "mean"))
    for name, parameter in first.model.named_parameters():
        torch.testing.assert_close(mean.model.get_parameter(name), parameter + 0.75)
    assert mean.training == {"step": 8, "mean_of": {tiny_checkpoint.name: 0.25, "moved": 0.75}}


def test_checkpoints_of_other_tokenisers_are_refused(
    tiny_checkpoint: Path, moved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(moved, tmp_path / "other")
    with (tmp_path / "other" / "source.spm").open("ab") as file:
        file.write(b"\0")
    assert main([str(tmp_path / "mean"), f"{tmp_path / 'other'}=1", f"{moved}=1"]) == 2
    assert "is not the tokeniser of" in capsys.readouterr().err
    assert not (tmp_path / "mean").exists()
