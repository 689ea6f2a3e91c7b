"""Arguments of `xuanzang batch`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from xuanzang.batch.errors import InputError
from xuanzang.batch.job import Decoding, Job, RowFormat
from xuanzang.batch.planning import digest, guess_format
from xuanzang.batch.translator import check_options
from xuanzang.command.parser import CommandParser
from xuanzang.server import BundleError, find_bundles

_EPILOG = """\
A job that was interrupted, in whatever way, continues when the same command is given again.

exit codes:
  0    all lines were translated
  1    some lines were refused: see OUTPUT.failed.jsonl
  2    wrong arguments, an output of another job, or files that cannot be read or written
  130  interrupted with Ctrl-C
"""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; exit if it is wrong.

    Args:
        arguments: Arguments after the command.
    """
    parser: argparse.ArgumentParser = CommandParser(
        prog="xuanzang batch",
        description="Translate a corpus with the server's engine; the output has the rows of the input, in order.",
        epilog=_EPILOG,
    )
    parser.add_argument("input", type=Path, help="file, or folder of files, of one format; never changed")
    parser.add_argument("output", type=Path, help="file or folder to write; OUTPUT.job beside it holds what is done")
    _add_format(parser)
    _add_decoding(parser)
    _add_workers(parser)
    return parser.parse_args(arguments)


def _add_format(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("format")
    names = ("text", "tsv", "jsonl", "parquet")
    group.add_argument("--format", choices=names, help="format of the files (default: by their names)")
    group.add_argument(
        "--column", type=_positive, default=1, metavar="N", help="column of the text in TSV (default: 1)"
    )
    group.add_argument("--field", default="text", metavar="NAME", help="key or column of the text (default: text)")
    group.add_argument(
        "--output-field", default="translation", metavar="NAME", help="key or column to add (default: translation)"
    )
    group.add_argument(
        "--shard-rows", type=_positive, default=1000, metavar="N", help="rows written as a whole (default: 1000)"
    )


def _add_decoding(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("translation")
    group.add_argument("--models", type=Path, default=Path("models"), help="folder of bundles (default: models)")
    group.add_argument("--model", default="", metavar="NAME[/VERSION]", help="model, if the folder holds several")
    group.add_argument("--source-language", default="", metavar="CODE", help="one of the model's (default: its first)")
    group.add_argument("--target-language", default="", metavar="CODE", help="one of the model's (default: its first)")
    group.add_argument("--beam-size", type=int, metavar="N", help="hypotheses kept per sentence")
    group.add_argument("--length-penalty", type=float, metavar="X", help="exponent on the target length")
    group.add_argument("--max-target-length", type=int, metavar="N", help="maximum target tokens of a sentence")


def _add_workers(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("workers")
    group.add_argument(
        "--engine", choices=("local", "ray"), default="local", help="this process, or workers on Ray (default: local)"
    )
    group.add_argument(
        "--cores",
        type=_positive,
        metavar="N",
        help="threads that translate in each worker (default: local: one per core; ray: 1)",
    )
    group.add_argument(
        "--workers", type=int, default=0, metavar="N", help="workers on Ray (default: as many as there are cores)"
    )
    group.add_argument(
        "--ray-address",
        default="local",
        metavar="ADDRESS",
        help="cluster, or auto (default: one made for the job)",
    )
    group.add_argument("--quiet", action="store_true", help="draw no progress bar")


def job_of(arguments: argparse.Namespace) -> Job:
    """Return the job that the arguments describe.

    Args:
        arguments: Parsed command line.

    Raises:
        InputError: There is no such input or model, or an option is outside of its range.
    """
    decoding = _decoding_of(arguments)
    check_options(decoding)
    return Job(
        input=arguments.input.absolute(),
        output=arguments.output.absolute(),
        format=RowFormat(
            name=arguments.format or guess_format(arguments.input),
            column=arguments.column,
            field=arguments.field,
            output_field=arguments.output_field,
        ),
        decoding=decoding,
        shard_rows=arguments.shard_rows,
    )


def _decoding_of(arguments: argparse.Namespace) -> Decoding:
    model, manifest_sha256 = _choose_model(arguments.models, arguments.model)
    return Decoding(
        model=model,
        manifest_sha256=manifest_sha256,
        source_language=arguments.source_language,
        target_language=arguments.target_language,
        beam_size=arguments.beam_size,
        length_penalty=arguments.length_penalty,
        max_target_length=arguments.max_target_length,
    )


def _choose_model(models: Path, wanted: str) -> tuple[str, str]:
    """Find the highest version of a model.

    Args:
        models: Folder of bundles, laid out as MODEL/VERSION/.
        wanted: Name, name and version as "zh-en/1", or empty for the only model.

    Returns:
        Name and version, such as "zh-en/2", and the SHA-256 of the bundle's manifest.

    Raises:
        InputError: There is no such bundle, or several models and none is named.
    """
    try:
        bundles = {f"{path.parent.name}/{path.name}": path for path in find_bundles(models)}
        fitting = [name for name in bundles if wanted in ("", name, name.partition("/")[0])]
        if len({name.partition("/")[0] for name in fitting}) != 1:
            what = "holds several models" if fitting else f"holds no model {wanted}".rstrip()
            choice = f": give --model, one of {', '.join(bundles)}" if bundles else ""
            raise InputError(f"{models} {what}{choice}")
        return fitting[-1], digest(bundles[fitting[-1]] / "manifest.json")
    except (BundleError, OSError) as error:
        raise InputError(str(error)) from error


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, is {value}")
    return value
