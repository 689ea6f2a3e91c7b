"""The script for a GPU runs from end to end, here on a CPU with tiny sizes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pack
import pytest

from xuanzang.model.checkpoint import load_checkpoint

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "model/recipes/gpu.sh"
COUNTS = {
    "tatoeba": 300,
    "tw_laws": 1000,
    "ms_cpp_docs": 50,
    "sgd_dialogues_en_bt": 1000,
    "tatoeba_en_bt": 40,
    "tatoeba_zh_bt": 60,
}


@pytest.fixture
def archive(bundled_checkpoint: Path, tmp_path: Path) -> Path:
    pairs = tmp_path / "pairs"
    pairs.mkdir()
    for name, count in COUNTS.items():
        lines = (f"这是{name}的第{i}句话\tThis is sentence {i} of {name}\n" for i in range(count))
        (pairs / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    test = tmp_path / "test.tsv"
    test.write_text("你好吗？\tHow are you?\tchat\n再见。\tGoodbye.\tchat\n", encoding="utf-8")
    path = tmp_path / "corpora.tar.xz"
    assert pack.main([str(pairs), str(path), "--tokenizers", str(bundled_checkpoint), "--test", f"valid={test}"]) == 0
    return path


def run(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHON": sys.executable, "TINY": "1", "OMP_NUM_THREADS": "1"} | variables
    return subprocess.run([SCRIPT, *arguments], env=environment, capture_output=True, text=True, check=False)


def test_of_corpora_that_count_little_a_share_is_packed_and_counts_as_much_more(archive: Path, tmp_path: Path) -> None:
    subprocess.run(["tar", "-xJf", archive, "-C", tmp_path], check=True)
    kept = {file.stem: file.read_text().count("\n") for file in (tmp_path / "pairs").glob("*.tsv")}
    assert [kept[name] for name in ("tatoeba", "tatoeba_en_bt", "tatoeba_zh_bt")] == [300, 40, 60]
    assert 400 < kept["sgd_dialogues_en_bt"] < 600  # weight 0.5 in one direction, 0 in the other
    assert 100 < kept["tw_laws"] < 200  # weight 0.15 in both directions
    weights = {
        name: tomllib.loads((tmp_path / f"{name}.toml").read_text())["prepare"]["weight"] for name in pack.DIRECTIONS
    }
    back = {"sgd_dialogues_en_bt": 1, "tatoeba_en_bt": 1, "tatoeba_zh_bt": 0}
    assert weights["zh-en"] == {"tatoeba": 5, "tw_laws": 1, "ms_cpp_docs": 1} | back
    back = {"sgd_dialogues_en_bt": 0, "tatoeba_en_bt": 0, "tatoeba_zh_bt": 3}
    assert weights["en-zh"] == {"tatoeba": 4, "tw_laws": 1, "ms_cpp_docs": 0} | back


def test_a_back_translation_trains_the_direction_whose_target_people_wrote() -> None:
    files = {name: SCRIPT.parent / name / "small.toml" for name in pack.DIRECTIONS}
    weights = {name: tomllib.loads(file.read_text())["prepare"]["weight"] for name, file in files.items()}
    made = {name for table in weights.values() for name in table if name.endswith("_bt")}
    assert made
    for direction, english in (("zh-en", True), ("en-zh", False)):
        # A corpus that a recipe does not name has weight 1.
        # Encyclopaedic text was translated into Chinese too badly to learn from.
        assert {name for name in made if weights[direction].get(name, 1)} == {
            name for name in made - {"wikipedia_en_bt"} if name.endswith("_en_bt") == english
        }


def test_packing_again_gives_the_same_bytes(archive: Path, bundled_checkpoint: Path, tmp_path: Path) -> None:
    before = archive.read_bytes()
    arguments = [str(tmp_path / "pairs"), str(archive), "--tokenizers", str(bundled_checkpoint)]
    assert pack.main([*arguments, "--test", f"valid={tmp_path / 'test.tsv'}"]) == 0
    assert archive.read_bytes() == before


@pytest.mark.slow
def test_both_directions_are_trained_measured_packed_and_joined(archive: Path, tmp_path: Path) -> None:
    out, joined = tmp_path / "out", tmp_path / "joined"
    done = run("train", archive, out, "0.05", SENTENCES="2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("== ") == 2
    assert all(piece.stat().st_size <= 16_000_000 for piece in out.iterdir())
    done = run("join", out, joined)
    assert done.returncode == 0, done.stderr
    metadata = {name: load_checkpoint(joined / name).metadata for name in pack.DIRECTIONS}
    assert [metadata[name].target_language for name in pack.DIRECTIONS] == ["en", "zh"]
    validations = (joined / "en-zh.validations.jsonl").read_text().splitlines()
    assert json.loads(validations[-1])["loss"] > 0

    piece = next(out.glob("checkpoints.tar.*"))
    piece.write_bytes(piece.read_bytes()[:-1])
    assert run("join", out, tmp_path / "again").returncode != 0


def test_without_a_command_the_script_says_how_it_is_used() -> None:
    done = run()
    assert done.returncode == 2
    assert "gpu.sh train corpora.tar.xz OUT MINUTES" in done.stderr
    assert "SENTENCES" in done.stderr
