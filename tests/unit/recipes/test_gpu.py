"""The script for a GPU runs from end to end, here on a CPU with tiny sizes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from xuanzang.model.checkpoint import load_checkpoint
from xuanzang.model.data.prepare import PrepareSettings, prepare

SCRIPT = Path(__file__).parents[3] / "model/recipes/gpu.sh"
RECIPES = {name: SCRIPT.parent / name / "small.toml" for name in ("zh-en", "en-zh")}


def run(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHON": sys.executable, "TINY": "1", "OMP_NUM_THREADS": "1"} | variables
    return subprocess.run([SCRIPT, *arguments], env=environment, capture_output=True, text=True, check=False)


def test_a_back_translation_trains_the_direction_whose_target_people_wrote() -> None:
    weights = {name: tomllib.loads(file.read_text())["prepare"]["weight"] for name, file in RECIPES.items()}
    made = {name for table in weights.values() for name in table if name.endswith("_bt")}
    assert made
    for direction, english in (("zh-en", True), ("en-zh", False)):
        # A corpus that a recipe does not name has weight 1.
        # Encyclopaedic text was translated into Chinese too badly to learn from.
        assert {name for name in made if weights[direction].get(name, 1)} == {
            name for name in made - {"wikipedia_en_bt"} if name.endswith("_en_bt") == english
        }


@pytest.mark.slow
def test_prepared_data_are_packed_trained_and_come_back_as_a_checkpoint(
    bundled_checkpoint: Path, tmp_path: Path
) -> None:
    pairs, data, out = tmp_path / "pairs.tsv", tmp_path / "data", tmp_path / "out"
    pairs.write_text("".join(f"这是第{i}句话\tThis is sentence {i}\n" for i in range(2000)), encoding="utf-8")
    prepare(PrepareSettings(train=[pairs], output=data, valid_share=0.02, tokenizers_from=bundled_checkpoint))
    archive = tmp_path / "zh-en.tar.xz"
    for step in (("pack", data, archive, RECIPES["zh-en"]), ("train", archive, out, "0.05")):
        assert (done := run(*step)).returncode == 0, done.stderr
    assert all(piece.stat().st_size <= 16_000_000 for piece in out.iterdir())

    done = run("join", out, "zh-en", tmp_path / "joined")
    assert done.returncode == 0, done.stderr
    assert load_checkpoint(tmp_path / "joined/zh-en").metadata.target_language == "en"
    validations = (tmp_path / "joined/zh-en/validations.jsonl").read_text().splitlines()
    assert json.loads(validations[-1])["loss"] > 0

    piece = next(out.glob("zh-en.tar.*"))
    piece.write_bytes(piece.read_bytes()[:-1])
    assert run("join", out, "zh-en", tmp_path / "again").returncode != 0
