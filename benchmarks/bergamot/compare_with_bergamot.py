"""A student of Firefox Translations in xuanzang and in Bergamot's WASM engine: the share of equal lines.

    npm install --prefix /tmp/bergamot @browsermt/bergamot-translator
    python -m benchmarks.bergamot.compare_with_bergamot FOLDER zh en sentences.txt \
        --package /tmp/bergamot/node_modules/@browsermt/bergamot-translator

FOLDER has the files of the student as Mozilla publishes them, unpacked: model*.bin and vocab*.spm, or srcvocab*.spm and
trgvocab*.spm. Give one sentence a line: Bergamot takes a line for a sentence, xuanzang splits it. Bergamot's
products of integers saturate at 16 bits, so in int8 some lines differ; with a file of floats none should.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xuanzang.export.students import build_bundle
from xuanzang.hub.marian import StudentFiles, read_student
from xuanzang.server import Translator

_DRIVER = Path(__file__).with_name("translate.mjs")
_MODEL = "student"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Translations of one engine."""

    translations: list[str]
    seconds: float


def by_bergamot(files: StudentFiles, package: Path, lines: Sequence[str], *, precision: str, beam_size: int) -> Run:
    """Translate with the WASM engine, one line at a time."""
    vocabularies = dict.fromkeys((str(files.source_vocabulary), str(files.target_vocabulary)))
    kind = "int8shiftAlphaAll" if precision == "int8" else "float32"
    done = subprocess.run(
        ["node", _DRIVER, package, files.model, ",".join(vocabularies), kind, str(beam_size)],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
    )
    return Run(translations=done.stdout.splitlines(), seconds=json.loads(done.stderr.splitlines()[-1])["seconds"])


def by_xuanzang(repository: Path, lines: Sequence[str], *, source: str, target: str, beam_size: int) -> Run:
    """Translate with one worker of the server's engine, one line at a time."""
    with Translator(repository, workers=1) as translator:
        began = time.perf_counter()
        found = [
            translator.translate_one(line, source_language=source, target_language=target, beam_size=beam_size)
            for line in lines
        ]
        return Run(translations=[each.text for each in found], seconds=time.perf_counter() - began)


def main() -> None:
    """Compare, and print the share of equal lines, the first that differ, and the times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("source_language")
    parser.add_argument("target_language")
    parser.add_argument("sentences", type=Path, help="file with one sentence a line")
    parser.add_argument("--package", type=Path, required=True, help="folder of the npm package of the WASM engine")
    parser.add_argument("--beam-size", type=int, default=1)
    parser.add_argument("--limit", type=int, default=100, help="sentences taken from the file")
    options = parser.parse_args()
    lines = [line.strip() for line in options.sentences.read_text(encoding="utf-8").splitlines() if line.strip()]
    lines, files = lines[: options.limit], StudentFiles.of_folder(options.folder)
    source, target, beam_size = options.source_language, options.target_language, options.beam_size
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / _MODEL / "1"
        certificate = build_bundle(read_student(files), place, source_language=source, target_language=target)
        precision = next(iter(certificate.parity))
        ours = by_xuanzang(Path(folder), lines, source=source, target=target, beam_size=beam_size)
    theirs = by_bergamot(files, options.package, lines, precision=precision, beam_size=beam_size)
    pairs = list(zip(lines, ours.translations, theirs.translations, strict=True))
    empty = [pair for pair in pairs if pair[1] and not pair[2]]
    differing = [pair for pair in pairs if pair[1] != pair[2] and pair[2]]
    for line, one, other in differing[:5]:
        print(f"{line}\n  xuanzang: {one}\n  bergamot: {other}")
    answered = len(pairs) - len(empty)
    print(f"{precision}, beam {beam_size}: {answered - len(differing)} of {answered} lines equal")
    print(f"{len(empty)} more lines that bergamot leaves empty are searched again by xuanzang")
    print(f"one line at a time: xuanzang {ours.seconds:.1f} s, bergamot {theirs.seconds:.1f} s")


if __name__ == "__main__":
    main()
