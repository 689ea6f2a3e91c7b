from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import compare_runs
import pytest

from xuanzang.model.data.prepare import PrepareSettings, prepare


@pytest.fixture
def data(tmp_path: Path, write_corpus: Callable[[str], Path]) -> Path:
    settings = PrepareSettings(
        train=[write_corpus("laws"), write_corpus("talk")],
        output=tmp_path / "data",
        vocab_size=300,
        valid_share=0.3,
        valid_maximum=9,
        min_script_share=0,
    )
    prepare(settings)
    return settings.output


def run(folder: Path, **losses: float) -> Path:
    folder.mkdir()
    row = {"target_tokens": 2_500_000, "cpu_seconds": 60, "loss": 3.0, "losses": losses}
    (folder / "validations.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    return folder


def test_domains_are_averaged_over_their_tokens(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    groups = tmp_path / "domains.toml"
    groups.write_text('law = ["laws"]\nall = ["laws", "talk"]\nnone = ["poems"]\n', encoding="utf-8")
    folder = run(tmp_path / "first", laws=2.0, talk=4.0)
    assert compare_runs.main([str(data), str(folder), "--groups", str(groups)]) == 0
    *_, line = capsys.readouterr().out.splitlines()
    tokens = compare_runs.held_out_tokens(data)
    mean = (2.0 * tokens["laws"] + 4.0 * tokens["talk"]) / sum(tokens.values())
    assert line == f"| first | 2.50 | 60 | 3.000 | 2.000 | {mean:.3f} |  |"


def test_data_without_corpora_of_their_validation_pairs_are_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / "valid.corpus.npy").unlink()
    assert compare_runs.main([str(data), str(run(tmp_path / "first"))]) == 2
    assert "prepare with --valid-share" in capsys.readouterr().err
