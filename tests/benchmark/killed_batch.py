"""A batch job, killed with its whole process group and resumed, until it is complete: is every line there once?

python tests/benchmark/killed_batch.py --lines 100000 --kills 3 --engine local
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

ROOT = Path(__file__).parents[2]
LONGEST = 20
"""Characters of the longest sentence that is repeated."""


def main() -> int:
    """Run the job and compare its output with the input."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--engine", choices=("local", "ray"), default="local")
    parser.add_argument("--python", default=sys.executable, help="interpreter of the job; Ray needs its own")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        corpus, output = Path(folder, "corpus.jsonl"), Path(folder, "output.jsonl")
        write_corpus(corpus, arguments.lines)
        command = [arguments.python, "-m", "xuanzang.batch", str(corpus), str(output), "--engine", arguments.engine]
        command += ["--models", str(ROOT / "server" / "models"), "--model", "zh-en", "--quiet"]
        # What is tested does not depend on the width of the search.
        command += ["--beam-size", "1"]
        began = time.monotonic()
        for kill in range(1, arguments.kills + 1):
            killed_after(command, output, shards=kill * arguments.lines // 1000 // (arguments.kills + 1))
        subprocess.run(command, check=True)
        print(f"{time.monotonic() - began:.0f} seconds with all runs and kills")
        return check(corpus, output)


def sentences() -> list[str]:
    """Return the short sentences of the benchmark."""
    lines = (ROOT / "tests" / "benchmark" / "sentences.tsv").read_text(encoding="utf-8").splitlines()
    return [text for line in lines if len(text := line.split("\t")[0]) <= LONGEST]


def write_corpus(path: Path, lines: int) -> None:
    """Write objects with an id and one of the sentences."""
    with path.open("w", encoding="utf-8") as file:
        for number, text in enumerate(islice(cycle(sentences()), lines)):
            file.write(json.dumps({"id": number, "text": text}, ensure_ascii=False) + "\n")


def killed_after(command: list[str], output: Path, *, shards: int) -> None:
    """Start the job in a process group of its own, and kill the group when so many shards are finished."""
    process = subprocess.Popen(command, start_new_session=True)
    parts = output.with_name(f"{output.name}.job") / "parts"
    while (finished := len(list(parts.glob("*.json")))) < shards:
        if process.poll() is not None:
            raise SystemExit(f"the job ended by itself with {process.returncode}")
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    unfinished = len(list(parts.glob(".*.partial")))
    print(f"killed with {finished} shards finished, {unfinished} half written", flush=True)


def check(corpus: Path, output: Path) -> int:
    """Compare ids, texts and translations."""
    rows = [json.loads(line) for line in output.open(encoding="utf-8")]
    source = [json.loads(line) for line in corpus.open(encoding="utf-8")]
    same = [{"id": row["id"], "text": row["text"]} for row in rows] == source
    translations: dict[str, set[str]] = {}
    for row in rows:
        translations.setdefault(row["text"], set()).add(row["translation"])
    different = sum(len(each) > 1 for each in translations.values())
    print(f"{len(source)} lines in, {len(rows)} out; each once and in order: {same}")
    print(f"{len(translations)} different texts, of which {different} have more than one translation")
    return 0 if same and not different else 1


if __name__ == "__main__":
    raise SystemExit(main())
