"""The command `xuanzang loadtest`."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from xuanzang.client._commands.connection_arguments import connection, server_options
from xuanzang.client._commands.progress import Progress
from xuanzang.client._commands.translation_arguments import add_options, given_options
from xuanzang.command.files import read_text, require_other_files
from xuanzang.command.parser import CommandParser, fail
from xuanzang.loadtest import report
from xuanzang.loadtest.load import Load, Mix, Record, Workload, run_load
from xuanzang.loadtest.target import Target

_PROGRAM = "xuanzang loadtest"
_DESCRIPTION = """\
Measures throughput and latency of a server. An open loop (--rate) sends requests
at random times, like independent callers; latency counts from the time at which
a request was due. A closed loop (--callers) keeps that many requests in progress,
which finds the highest rate; it goes on until there are three answers a caller.
Calls are not retried, and an answer without a translation is a failure.
"""
_EXIT_CODES = """\
exit codes:
  0    all requests were answered or refused
  1    some requests failed or came too late
  2    wrong arguments, or a file that cannot be read or written
  130  interrupted with Ctrl-C
"""
_ACCEPTED = {"OK", "RESOURCE_EXHAUSTED"}
_LATE_SHARE = 0.01

Measured = list[tuple[Load, list[Record]]]


def main(arguments: Sequence[str]) -> int:
    """Run the command.

    Args:
        arguments: Arguments from the command's name on.

    Returns:
        The exit code.
    """
    options = _parser().parse_args(arguments[1:])
    try:
        return _report(asyncio.run(_measure(options)), options)
    except KeyboardInterrupt:
        return 130
    except (OSError, ValueError) as error:
        return fail(_PROGRAM, str(error))


async def _measure(arguments: argparse.Namespace) -> Measured:
    """Put every load on the server, one after another."""
    workload = Workload(_texts(arguments.texts), Mix.parse(arguments.texts_per_request), arguments.seed)
    options = given_options(arguments)
    loads = _loads(arguments)
    require_other_files([arguments.json, *_histograms(arguments.histogram, len(loads))], [arguments.texts])
    async with Target(connection(arguments), arguments.connections, names=max(arguments.names), **options) as target:
        with _progress(loads) as advance:
            return [(load, await run_load(load, workload, target.translate, advance)) for load in loads]


def _loads(arguments: argparse.Namespace) -> list[Load]:
    if not 0 <= arguments.warm_up < arguments.seconds:
        raise ValueError("--warm-up must be 0 or more and less than --seconds")
    if not (arguments.rate or arguments.callers):
        raise ValueError("give --rate, --callers or both")
    numbers = (*arguments.rate, *arguments.callers, *arguments.names, arguments.connections)
    if not all(0 < each < math.inf for each in numbers):
        raise ValueError("--rate, --callers, --names and --connections must be above 0")
    shared = {"seconds": arguments.seconds, "warm_up_seconds": arguments.warm_up}
    open_loops = [Load(rate=rate, names=names, **shared) for rate in arguments.rate for names in arguments.names]
    return open_loops + [
        Load(callers=callers, names=names, **shared) for callers in arguments.callers for names in arguments.names
    ]


def _texts(file: Path) -> list[str]:
    lines = [line for line in read_text(file).splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"{file} has no text")
    return lines


def _report(measured: Measured, arguments: argparse.Namespace) -> int:
    """Print and write the figures; return the exit code."""
    results = [report.figures(load, records, sorted(arguments.length_classes)) for load, records in measured]
    sys.stdout.write(report.table(results) + "\n")
    for result in results:
        if result.late_share > _LATE_SHARE:
            share = f"{result.late_share:.0%} of the requests were sent late"
            fail(
                _PROGRAM, f"{result.load}: {share}: this machine is too slow for the load, and the figures are its own"
            )
    if arguments.json:
        rows = [dataclasses.asdict(result) for result in results]
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    for file, (_, records) in zip(_histograms(arguments.histogram, len(measured)), measured, strict=False):
        report.write_histogram(file, [record for record in records if record.code == "OK"])
    return 0 if all(result.codes.keys() <= _ACCEPTED for result in results) else 1


def _histograms(file: Path | None, loads: int) -> list[Path]:
    """Return the file of each load; none without --histogram."""
    if file is None or loads == 1:
        return [file] if file else []
    return [file.with_stem(f"{file.stem}-{number}") for number in range(1, loads + 1)]


@contextmanager
def _progress(loads: Sequence[Load]) -> Iterator[Callable[[], None]]:
    """Draw progress on a terminal, by the number of requests that open loops are expected to send."""
    expected = sum(load.rate * load.seconds for load in loads if load.rate is not None)
    if not sys.stderr.isatty() or any(load.rate is None for load in loads):
        yield lambda: None
        return
    with closing(Progress(max(1, round(expected)), sys.stderr)) as progress:
        yield progress.advance


def _parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = CommandParser(
        prog=_PROGRAM,
        description=_DESCRIPTION,
        epilog=_EXIT_CODES,
        parents=[server_options(os.environ.get("XUANZANG_ADDRESS", "localhost:50051"), connections=4)],
    )
    parser.add_argument("texts", type=Path, metavar="FILE", help="texts to draw from, one per line, UTF-8")
    _add_load(parser.add_argument_group("load"))
    flags = "--source", "--target", "--model", "--beam-size"
    add_options(parser.add_argument_group("translation"), flags)
    _add_output(parser.add_argument_group("output"))
    return parser


def _add_load(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--rate", type=float, nargs="+", default=[], metavar="X", help="open loops: requests per second of each"
    )
    group.add_argument("--callers", type=int, nargs="+", default=[], metavar="N", help="closed loops: callers of each")
    group.add_argument(
        "--names",
        type=int,
        nargs="+",
        default=[1],
        metavar="N",
        help="numbers of names that callers have, a load for each; a server divides its time by name (default: 1)",
    )
    group.add_argument("--seconds", type=float, default=30.0, help="duration of each load (default: 30)")
    group.add_argument("--warm-up", type=float, default=5.0, metavar="SECONDS", help="of it not counted (default: 5)")
    group.add_argument(
        "--texts-per-request",
        nargs="+",
        default=["1"],
        metavar="N[:WEIGHT]",
        help="sizes of requests and how often each comes, such as 1:0.9 8:0.1 (default: 1)",
    )
    group.add_argument("--seed", type=int, default=0, metavar="N", help="seed of texts, sizes and times (default: 0)")


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--length-classes",
        type=int,
        nargs="+",
        default=[20, 60],
        metavar="N",
        help="upper limits of the lengths, in characters, for which latencies are given apart (default: 20 60)",
    )
    group.add_argument("--json", type=Path, metavar="FILE", help="file for the figures")
    group.add_argument(
        "--histogram",
        type=Path,
        metavar="FILE",
        help="file for the percentiles of the latency, as HdrHistogram's plotter reads them; one for each load",
    )


if __name__ == "__main__":
    sys.exit(main(["loadtest", *sys.argv[1:]]))
