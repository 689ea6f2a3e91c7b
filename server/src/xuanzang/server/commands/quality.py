"""The command `xuanzang-server quality`: fits the quality head of a bundle, and measures how well it does."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.quality_fitting.bundle_files import add_head
from xuanzang.server.quality_fitting.fitting import evaluate, fit_head, labelled
from xuanzang.server.quality_fitting.measurement import Pair, measure, read_pairs
from xuanzang.server.quality_fitting.picture import reliability_picture
from xuanzang.server.quality_fitting.tables import flag_table, report_table

_PROGRAM = "xuanzang-server quality"
# Of the bundled model as many translations reach it as people call acceptable; docs/quality.md.
_MIN_CHRF = 45.0
_OTHER_HALF = "other half of the pairs"
_MAX_TESTS = 4


def run_quality_command(arguments: Sequence[str]) -> int:
    """Fit the quality head of a bundle, or measure the one that it has.

    Args:
        arguments: Command-line arguments after `quality`.

    Returns:
        Exit status: 0; 1 if the bundle or the pairs cannot be used.

    Raises:
        SystemExit: With status 2, after a line on stderr that says what is wrong with the arguments.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if not (options.pairs or options.test):
        parser.error("give --pairs to fit a head, or --test to measure the one that the bundle has")
    if len(options.test) > _MAX_TESTS:
        parser.error(f"--test can be given {_MAX_TESTS} times")
    try:
        _run(options)
    except ImportError:
        return _fail("sacreBLEU is missing: install the extra `quality`, as in pip install -e 'server[quality]'")
    except (BundleError, OSError, ValueError) as error:
        return _fail(str(error))
    return 0


def _run(options: argparse.Namespace) -> None:
    sets: dict[str, list[Pair]] = {}
    if options.pairs:
        pairs = read_pairs(options.pairs)
        # Neighbours may be alike, so both halves have some of each kind.
        sets |= {"": pairs[::2], _OTHER_HALF: pairs[1::2]}
    sets |= {name: read_pairs(Path(path)) for name, path in options.test}
    measured = asyncio.run(measure(options.bundle, list(sets.values())))
    known = {name: labelled(pairs, options.min_chrf) for name, pairs in zip(sets, measured, strict=True)}
    fitted = known.pop("", [])
    head = fit_head(fitted) if fitted else load_bundle(options.bundle).quality_head
    if head is None:
        raise ValueError(f"{options.bundle} has no quality head: give --pairs")
    reports = {name: evaluate(head, pairs) for name, pairs in known.items()}
    if fitted:
        add_head(options.bundle, head, reports, min_chrf=options.min_chrf, fitted=len(fitted))
        load_bundle(options.bundle)  # what was written must be what a server accepts
    if options.picture:
        options.picture.write_text(reliability_picture(reports), encoding="utf-8")
    _write([*report_table(reports), "", *flag_table(head, known)])


def _write(lines: Sequence[str]) -> None:
    sys.stdout.writelines(line + "\n" for line in lines)


def _fail(reason: str) -> int:
    sys.stderr.write(f"{_PROGRAM}: error: {reason}\n")
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        _PROGRAM,
        description="Fit the quality head of a bundle on pairs that its model was not trained on, write it into the "
        "bundle as quality.json, and print how well it does on other pairs. Every second pair of --pairs is fitted.",
    )
    parser.add_argument("bundle", type=Path, metavar="BUNDLE", help="folder of the bundle, MODELS/NAME/VERSION")
    parser.add_argument("--pairs", type=Path, metavar="FILE", help="source<TAB>target lines, plain or gzip, to fit on")
    parser.add_argument(
        "--test",
        type=_named_file,
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="further pairs to measure the head on; repeatable",
    )
    parser.add_argument(
        "--min-chrf",
        type=float,
        default=_MIN_CHRF,
        metavar="X",
        help="chrF2 from which on a translation counts as acceptable, 0 to 100 (default: %(default)g)",
    )
    parser.add_argument("--picture", type=Path, metavar="SVG", help="file to draw the reliability curves into")
    return parser


def _named_file(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"expected NAME=FILE, not {text!r}")
    return name, path
