"""The commands of docs/training.md that teach the bundled model the words of a small domain."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from xuanzang.model.__main__ import main
from xuanzang.model.checkpoint import load_checkpoint
from xuanzang.model.data.dataset import PreparedSplit
from xuanzang.model.training.validator import pair_losses

pytestmark = pytest.mark.slow

RECIPE = Path(__file__).parents[4] / "model" / "recipes" / "zh-en"

# Names of a made-up product: nobody has translated them so before.
TERMS = {
    "云鹤": "Cranewell",
    "青鸟引擎": "Bluebird engine",
    "工单池": "ticket basin",
    "回执码": "echo code",
    "影子账户": "shadow ledger",
    "灰度仓": "grey shed",
    "值守员": "watchkeeper",
    "并流": "co-flow",
}
FRAMES = {
    "请先打开{}。": "Please open the {} first.",
    "{}无法启动。": "The {} cannot be started.",
    "如何配置{}？": "How do I configure the {}?",
    "{}已被删除。": "The {} has been deleted.",
    "检查{}的状态。": "Check the status of the {}.",
    "请联系管理员以启用{}。": "Contact your administrator to enable the {}.",
    "{}需要更新。": "The {} needs to be updated.",
    "不要关闭{}。": "Do not close the {}.",
}


def write_domain(folder: Path) -> tuple[Path, Path]:
    """Write 48 pairs to train on and 16 to measure by: every term and every frame is in both, no pair is."""
    lines: dict[bool, list[str]] = {True: [], False: []}
    for (i, term), (j, frame) in itertools.product(enumerate(TERMS.items()), enumerate(FRAMES.items())):
        lines[(i + j) % 4 == 0].append("\t".join(side.format(word) for side, word in zip(frame, term, strict=True)))
    train, test = folder / "domain.tsv", folder / "domain-test.tsv"
    for path, held_out in ((train, False), (test, True)):
        path.write_text("\n".join(lines[held_out]) + "\n", encoding="utf-8")
    return train, test


def run(command: str, *paths: Path) -> None:
    """Run a command whose {} stand for paths."""
    remaining = iter(paths)
    arguments = [str(next(remaining)) if word == "{}" else word for word in command.split()]
    assert main(arguments) == 0


def measured(checkpoint: Path, test: Path, data: Path) -> dict[str, Any]:
    """Return what `evaluate` finds, and the loss."""
    run("evaluate {} {} --json {}", checkpoint, test, figures := data.with_suffix(".json"))
    model, split = load_checkpoint(checkpoint).model, PreparedSplit(data, "valid")
    loss = pair_losses(model, split, 1000, torch.device("cpu")).sum() / split.lengths[:, 1].sum()
    return {"loss": loss, **json.loads(figures.read_text(encoding="utf-8"))}


def test_fine_tuning_teaches_the_bundled_model_a_domain(
    bundled_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, test = write_domain(tmp_path)
    data, tuned = tmp_path / "data", tmp_path / "run"
    run("prepare --train {} --valid {} --output {} --tokenizers-from {}", train, test, data, bundled_checkpoint)
    before = measured(bundled_checkpoint, test, data)
    recipe = RECIPE / "small.toml"
    run(
        "train --recipe {} --data {} --output {} --init-from {} --max-steps 30 --warmup-steps 5 --cooldown-steps 15 "
        "--learning-rate 6e-4 --batch-tokens 400 --validate-every 30 --no-bf16 --device cpu --threads 1",
        *(recipe, data, tuned, bundled_checkpoint),
    )
    after = measured(tuned / "best", test, data)
    assert after["loss"] < 0.5 * before["loss"]
    assert after["bleu"] > before["bleu"] + 20
    assert after["chrf"] > before["chrf"] + 20
    capsys.readouterr()
    run("try {} 云鹤无法启动。", tuned / "best")
    assert "Cranewell" in capsys.readouterr().out
