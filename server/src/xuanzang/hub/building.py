"""The program that makes a bundle of a student's files: a separate process, whose memory is free afterwards."""

from __future__ import annotations

import argparse
import logging
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from xuanzang.command.parser import CommandParser, fail
from xuanzang.export.bundle.folder import next_version
from xuanzang.export.certification.certificate import ParityError
from xuanzang.export.students.building import build_bundle
from xuanzang.export.students.student import StudentError
from xuanzang.hub.marian import Origin, StudentFiles, read_student
from xuanzang.server.published import HubError

_PROGRAM = "xuanzang pull"
_PAIR = re.compile(r"\.([a-z]{2})([a-z]{2})\.")


def main(arguments: Sequence[str]) -> int:
    """Build a bundle and print its folder; return 0, 1 if the student cannot become one, or 2 for bad arguments."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    folder: Path = options.folder
    try:
        source, target = options.source_language, options.target_language
        if not (source and target):
            named = _languages(folder)
            source, target = source or named[0], target or named[1]
        origin = Origin(
            name=options.name or folder.name,
            revision=options.revision,
            licence=options.licence,
            architecture=options.architecture,
        )
        models: Path = options.repository / options.model
        place = models / str(next_version(models))
        build_bundle(
            read_student(StudentFiles.of_folder(folder), origin),
            place,
            source_language=source,
            target_language=target,
            precision=options.precision,
        )
    except (HubError, StudentError, ParityError, OSError) as error:
        return fail(_PROGRAM, str(error), status=1)
    sys.stdout.write(f"{place}\n")
    return 0


def _languages(folder: Path) -> tuple[str, str]:
    """Return the languages that the name of a model's file has, such as model.zhen.intgemm.alphas.bin."""
    match = _PAIR.search(StudentFiles.of_folder(folder).model.name)
    if not match:
        raise HubError(
            f"the files of {folder} do not say their languages: give --source-language and --target-language"
        )
    return match[1], match[2]


def _parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = CommandParser(prog=_PROGRAM)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repository", type=Path, required=True)
    parser.add_argument("--model", required=True)
    for option in ("name", "revision", "licence", "architecture", "source-language", "target-language"):
        parser.add_argument(f"--{option}", default="")
    parser.add_argument("--precision", choices=("int8", "float32"))
    return parser


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
