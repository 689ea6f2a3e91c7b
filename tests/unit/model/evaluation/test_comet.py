"""COMET is asked through its program, for which a script stands in that takes the same flags."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest

from xuanzang.model.evaluation.comet import Comet, CometError
from xuanzang.model.evaluation.quality import measure
from xuanzang.model.evaluation.test_sets import HeldOutPair

# Writes what comet-score of unbabel-comet 2.2.7 writes; the score of a sentence is the share of words of the reference.
STAND_IN = """\
#!{python}
import argparse, json, sys
parser = argparse.ArgumentParser()
parser.add_argument("-s", "--sources", required=True)
parser.add_argument("-t", "--translations", nargs="+", required=True)
parser.add_argument("-r", "--references", required=True)
for name in ("--model", "--to_json"):
    parser.add_argument(name, required=True)
parser.add_argument("--gpus", type=int, default=1)
for name in ("--quiet", "--only_system"):
    parser.add_argument(name, action="store_true")
flags = parser.parse_args()
assert flags.model.endswith(".ckpt")
paths = (flags.sources, *flags.translations, flags.references)
lines = [open(path, encoding="utf-8").read().splitlines() for path in paths]
if "fail" in lines[1]:
    sys.exit("RuntimeError: out of memory")
rows = [dict(zip(("src", "mt", "ref"), row)) for row in zip(*lines)]
for row in rows:
    words = row["ref"].split()
    row["COMET"] = sum(word in row["mt"].split() for word in words) / len(words)
if "fewer" in lines[1]:
    rows = rows[1:]
if "nothing" not in lines[1]:
    json.dump({{flags.translations[0]: rows}}, open(flags.to_json, "w", encoding="utf-8"))
"""


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin" / "comet-score"
    program.parent.mkdir()
    program.write_text(STAND_IN.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    path = tmp_path / "comet" / "checkpoints" / "model.ckpt"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"weights")
    (tmp_path / "comet" / "hparams.yaml").write_text("class_identifier: regression_metric\n", encoding="utf-8")
    return path


def test_the_score_is_the_mean_and_names_the_checkpoint(checkpoint: Path) -> None:
    score = Comet(checkpoint).score(["猫", "两\n行"], ["a cat", "two\nlines"], ["a cat", "two rows"])
    assert score.score == pytest.approx(0.75)
    digest = hashlib.sha256(b"weights").hexdigest()
    assert str(score) == f"COMET 0.7500  (model.ckpt, SHA-256 {digest[:12]})"
    assert score.as_json() == {"comet": 0.75, "comet_model": f"model.ckpt, SHA-256 {digest[:12]}"}


def test_a_test_set_is_measured_with_comet_as_well(checkpoint: Path) -> None:
    pairs = [HeldOutPair("猫", "a cat", "pets"), HeldOutPair("两行", "two rows", "text")]
    evaluation = measure(pairs, ["a cat", "two lines"], "en", "nfkc", Comet(checkpoint))
    assert evaluation.comet
    assert evaluation.as_json()["comet"] == 0.75
    assert "comet" not in measure(pairs, ["a cat", "two lines"], "en", "nfkc").as_json()


@pytest.mark.parametrize(
    ("translation", "message"),
    [
        ("fail", "comet-score failed: RuntimeError: out of memory"),
        ("fewer", "comet-score scored 0 of 1 sentences"),
        ("nothing", "comet-score wrote no scores: FileNotFoundError"),
    ],
)
def test_a_failure_of_the_program_is_told(checkpoint: Path, translation: str, message: str) -> None:
    with pytest.raises(CometError, match=message):
        Comet(checkpoint).score(["猫"], [translation], ["cat"])


def test_what_is_missing_is_named_before_anything_is_translated(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CometError, match=r"other\.ckpt is not a COMET checkpoint"):
        Comet(tmp_path / "other.ckpt")
    with pytest.raises(CometError, match="is not a COMET checkpoint"):
        Comet(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CometError, match="comet-score is not on PATH: install unbabel-comet in an"):
        Comet(checkpoint)
    (tmp_path / "comet" / "hparams.yaml").unlink()
    with pytest.raises(CometError, match=r"hparams\.yaml is missing"):
        Comet(checkpoint)
