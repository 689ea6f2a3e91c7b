"""Count the outcomes of texts without a named language: translated, copied and refused.

    python -m benchmarks.language_readings --texts en FILE...
    python -m benchmarks.language_readings --texts zh FILE...
    python -m benchmarks.language_readings --foreign benchmarks/foreign_sentences.tsv

Prints the counts of each kind. `--texts` counts how a server with a model into the other language reads the lines of
files that are in one, and `--foreign` how it reads sentences that no model translates (language<TAB>text).
"""

from __future__ import annotations

import argparse
import gzip
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from xuanzang.server.engine.language_detector import shared_detector
from xuanzang.text.language_detection import LanguageChoice, read
from xuanzang.text.types import TextKind


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--texts", nargs="+", default=[], metavar=("LANGUAGE", "FILE"), help="en or zh, and files in it"
    )
    parser.add_argument("--foreign", type=Path, help="sentences of other languages")
    flags = parser.parse_args()
    for file in flags.texts[1:]:
        counts = readings(flags.texts[0], lines_of(Path(file)))
        print(f"{file}: {', '.join(f'{count:,} {kind}' for kind, count in counts.most_common())}")
    if flags.foreign:
        print(told(flags.foreign))


def readings(language: str, texts: Iterable[str]) -> Counter[str]:
    """Count how texts in English or Chinese are read by a server that translates them into the other language."""
    choice = LanguageChoice(sources=(language,), target="en" if language == "zh" else "zh")
    return Counter(read(text, shared_detector(), choice).kind.value for text in texts)


def lines_of(path: Path) -> Sequence[str]:
    """Return the lines of a file, which may be compressed."""
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode().splitlines()


def told(path: Path) -> str:
    """Say how sentences of other languages are read: refused, and by the right name."""
    rows = [line.split("\t") for line in lines_of(path)]
    choice = LanguageChoice(sources=("en",), target="zh")
    found = [(language, read(text, shared_detector(), choice)) for language, text in rows]
    refused = [(language, each) for language, each in found if each.kind is TextKind.UNSERVED]
    right = sum(each.language == language for language, each in refused)
    named = sum(bool(each.language) for _, each in refused)
    return f"{len(rows)} sentences: {len(refused)} refused, {named} of these by name, {right} by the right one"


if __name__ == "__main__":
    main()
