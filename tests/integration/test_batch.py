"""`xuanzang batch` with the bundled model: what a server answers, and nothing lost when the process is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from xuanzang.batch.__main__ import main

MODELS = Path(__file__).parents[2] / "server" / "models"
SENTENCES = Path(__file__).parents[2] / "benchmarks" / "sentences.tsv"


def command(source: Path, output: Path, *options: str) -> list[str]:
    return [str(source), str(output), "--models", str(MODELS), "--model=zh-en", "--cores=1", "--quiet", *options]


def test_a_corpus_gets_translations_and_its_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, output = tmp_path / "corpus.txt", tmp_path / "output.txt"
    source.write_text("我有一只猫。\n\n" + "猫" * 20_001 + "\n今天天气很好。\n", encoding="utf-8")
    assert main(["batch", *command(source, output)]) == 1
    lines = output.read_text(encoding="utf-8").split("\n")
    assert lines[0] == "I have a cat."
    assert lines[1:3] == ["", ""]
    assert "today" in lines[3]
    printed = capsys.readouterr().out
    assert printed.startswith("4 lines, 20014 characters, ")
    assert "core-seconds" in printed
    [failure] = map(json.loads, (tmp_path / "output.txt.failed.jsonl").read_text(encoding="utf-8").splitlines())
    assert failure["line"] == 3
    assert failure["reason"] == "content: must have at most 20000 characters, has 20001"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--beam-size", "17"), "options.beam_size: must be 1 to 16, is 17"),
        (("--model", "xx"), "holds no model xx"),
        (("--target-language", "fr"), "fr"),
    ],
)
def test_what_no_model_takes_is_refused_and_may_be_corrected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, str], message: str
) -> None:
    source, output = tmp_path / "corpus.txt", tmp_path / "output.txt"
    source.write_text("我有一只猫。\n", encoding="utf-8")
    assert main(["batch", *command(source, output, *options)]) == 2
    assert message in capsys.readouterr().err
    assert main(["batch", *command(source, output)]) == 0


@pytest.mark.parametrize(
    ("numbers", "status"),
    [
        ([signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM], 128 + signal.SIGTERM),
        ([signal.SIGHUP], 128 + signal.SIGHUP),
        ([signal.SIGKILL], -signal.SIGKILL),
    ],
    ids=["term", "hangup", "kill"],
)
def test_an_ended_job_goes_on_and_loses_and_doubles_no_line(
    tmp_path: Path, numbers: list[signal.Signals], status: int
) -> None:
    source, output = tmp_path / "corpus.jsonl", tmp_path / "output.jsonl"
    texts = [line.split("\t")[0] for line in SENTENCES.read_text(encoding="utf-8").splitlines()][:40]
    source.write_text("".join(f"{json.dumps({'id': number, 'text': text})}\n" for number, text in enumerate(texts)))
    options = ("--shard-rows", "5", "--beam-size", "1")
    parts = tmp_path / "output.jsonl.job" / "parts"
    # Tests that nohup runs ignore SIGHUP, and so would the job.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    process = subprocess.Popen(
        [sys.executable, "-m", "xuanzang.batch", *command(source, output, *options)], start_new_session=True
    )
    signal.signal(signal.SIGHUP, before)
    while not list(parts.glob("*.json")):
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
    for number in numbers:
        (os.killpg if number == signal.SIGKILL else os.kill)(process.pid, number)
    assert (process.wait(), output.exists()) == (status, False)
    assert list(parts.glob("*.json"))
    assert main(["batch", *command(source, output, *options)]) == 0
    rows = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [row["id"] for row in rows] == list(range(len(texts)))
    if status < 0:
        undisturbed = tmp_path / "undisturbed.jsonl"
        assert main(["batch", *command(source, undisturbed, *options)]) == 0
        assert output.read_bytes() == undisturbed.read_bytes()
