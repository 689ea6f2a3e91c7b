from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from served_quality import main

from xuanzang.client import AsyncTranslationClient
from xuanzang.model.evaluation.quality import measure
from xuanzang.model.evaluation.test_sets import read_test_set

LINES = ["我有一只猫。\tI have one cat.\tpets", "你有两条鱼。\tyou have two fish.\tsea", "老师有 3 只狗。\tthree\tpets"]


async def test_quality_is_measured_on_the_answers_of_the_server(
    running: Any, client: AsyncTranslationClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, plain = tmp_path / "animals.tsv", tmp_path / "plain.tsv"
    path.write_text("\n".join(LINES), encoding="utf-8")
    plain.write_text("猫\tcat\n", encoding="utf-8")
    arguments = [running.address, f"animals={path}", f"plain={plain}", "--json", str(tmp_path / "quality.json")]
    assert await asyncio.to_thread(main, arguments) == 0

    pairs = read_test_set(path)
    answers = await client.translate([pair.source for pair in pairs])
    expected = measure(pairs, [answer.text for answer in answers], "en", "nfkc")
    figures = json.loads((tmp_path / "quality.json").read_text())
    assert figures["animals"] == expected.as_json()
    table = capsys.readouterr().out
    assert f"| animals | 3 | {expected.whole.scores.bleu:.1f} | {expected.whole.scores.chrf:.1f} |" in table
    assert "Of animals:\n" in table
    assert "| pets | 2 |" in table
    assert "Of plain:" not in table
    assert "tiny, version 1, float32, beam 4, length penalty 1, through the server" in table


async def test_a_refused_sentence_counts_as_empty(
    running: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "long.tsv"
    path.write_text(f"猫\tcat\n{'猫' * 200_000}\tcats\n", encoding="utf-8")
    assert await asyncio.to_thread(main, [running.address, f"long={path}", "--json", str(tmp_path / "q.json")]) == 0
    assert json.loads((tmp_path / "q.json").read_text())["long"]["empty"] == 1
    assert "long, line 2: " in capsys.readouterr().err


async def test_failures_are_reported_in_one_line(
    running: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "animals.tsv"
    path.write_text(LINES[0], encoding="utf-8")
    for arguments, message, status in (
        ([running.address, f"x={tmp_path / 'none.tsv'}"], "none.tsv: No such file", 2),
        ([running.address, f"x={path}", "--model", "zh-de"], "--model must be one of tiny, not zh-de", 2),
        (["127.0.0.1:1", f"x={path}"], "127.0.0.1:1: ", 1),
    ):
        assert await asyncio.to_thread(main, arguments) == status
        error = capsys.readouterr().err
        assert message in error
        assert len(error.splitlines()) == 1
