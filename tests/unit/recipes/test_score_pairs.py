from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import torch
from score_pairs import losses, main
from torch.nn import functional as F

from xuanzang.model.checkpoint import Checkpoint, load_checkpoint
from xuanzang.model.data.corpus import Pair
from xuanzang.model.tokenizer import BOS_ID

RIGHT = [
    Pair("我有一只猫。", "I have a cat."),
    Pair("请打开文件。", "Please open the file."),
    Pair("我们明天去北京。", "We're going to Beijing tomorrow."),
    Pair("你好！", "Hello!"),
]
WRONG = [Pair(pair.source, RIGHT[place - 1].target) for place, pair in enumerate(RIGHT)]


@torch.inference_mode()
def loss_alone(checkpoint: Checkpoint, pair: Pair) -> float:
    source = torch.tensor([checkpoint.source_ids(pair.source)])
    target = torch.tensor([checkpoint.target_tokenizer.encode(pair.target)])
    given = torch.cat([torch.tensor([[BOS_ID]]), target[:, :-1]], dim=1)
    logits = checkpoint.model(source, torch.ones_like(source, dtype=torch.bool), given)
    return float(F.cross_entropy(logits[0], target[0]))


def test_a_pair_has_the_loss_that_it_has_alone_in_float32(bundled_checkpoint: Path) -> None:
    checkpoint = load_checkpoint(bundled_checkpoint)
    pairs = RIGHT + WRONG
    alone = [loss_alone(checkpoint, pair) for pair in pairs]
    assert losses(checkpoint, pairs) == pytest.approx(alone, rel=0.05, abs=0.02)


@pytest.mark.parametrize("swap", [False, True])
def test_pairs_that_say_something_else_are_left_out(
    bundled_checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    swap: bool,
) -> None:
    pairs = [Pair(pair.target, pair.source) if swap else pair for pair in (*WRONG, *RIGHT)]
    lines = "".join("\t".join(pair) + "\n" for pair in pairs)
    (tmp_path / "pairs.tsv").write_text(lines, encoding="utf-8")
    arguments = [str(bundled_checkpoint), str(tmp_path / "pairs.tsv"), str(tmp_path / "kept.tsv.gz"), "--max-loss=2.5"]
    monkeypatch.setattr("sys.argv", ["score_pairs.py", *arguments, *(["--swap"] if swap else [])])
    main()
    kept = gzip.decompress((tmp_path / "kept.tsv.gz").read_bytes()).decode()
    assert kept == "".join("\t".join(pair) + "\n" for pair in pairs[len(WRONG) :])
    assert "4 of 8 pairs" in capsys.readouterr().out
