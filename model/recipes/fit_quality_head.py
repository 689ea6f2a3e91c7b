"""Fit the quality head of a bundle on pairs that its model was not trained on, and print how well it does on others.

    python model/recipes/fit_quality_head.py models/zh-en/4 --pairs held-out.tsv --test news=news.tsv

It is no command of the exporter: the features are what the server's search leaves behind, so the server's engine
translates the pairs, and a head is measured by the code that serves it. Without --pairs the head that the bundle has is
measured on --test.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client import CollectorRegistry
from quality_head_files import add_head, draw_reliability, flag_table, report_table
from quality_head_fit import MeasuredPair, evaluate, fit_head, labelled

from xuanzang.model.data.corpus import CorpusError, Pair, read_pairs
from xuanzang.server.bundles.errors import BundleError
from xuanzang.server.bundles.quality_head import FlagLimits
from xuanzang.server.bundles.repository import load_bundle
from xuanzang.server.engine.calls.record import Call
from xuanzang.server.engine.engine import Engine
from xuanzang.server.engine.quality import SearchedSentence
from xuanzang.server.engine.settings import EngineSettings
from xuanzang.server.metrics import Metrics

# As many translations of the bundled model reach it as people call acceptable; docs/quality.md.
_MIN_CHRF = 45.0
_OTHER_HALF = "other half of the pairs"
_TEXTS_TOGETHER = 64
_DRAIN_SECONDS = 10.0
_UNLIMITED = FlagLimits(min_token_ratio=0.0, max_token_ratio=1e6, max_low_attention_share=1.0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit the quality head of a bundle, or measure the existing one.

    Args:
        arguments: Flags, without the program's name; None takes those of the process.

    Returns:
        Exit status: 0; 1 if the bundle or the pairs cannot be used.

    Raises:
        SystemExit: With status 2, after a line on stderr that names the fault of the arguments.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if not (options.pairs or options.test):
        parser.error("give --pairs to fit a head, or --test to measure the one that the bundle has")
    try:
        _run(options)
    except (BundleError, CorpusError, OSError, ValueError) as error:
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 1
    return 0


def _run(options: argparse.Namespace) -> None:
    sets: dict[str, list[Pair]] = {}
    if options.pairs:
        pairs = _read(options.pairs)
        # Neighbours may be alike, so both halves have some of each kind.
        sets |= {"": pairs[::2], _OTHER_HALF: pairs[1::2]}
    sets |= {name: _read(Path(path)) for name, path in options.test}
    measured = asyncio.run(measure(options.bundle, list(sets.values())))
    known = {name: labelled(pairs, options.min_chrf) for name, pairs in zip(sets, measured, strict=True)}
    fitted = known.pop("", [])
    head = fit_head(fitted) if fitted else load_bundle(options.bundle).quality_head
    if head is None:
        raise ValueError(f"{options.bundle} has no quality head: give --pairs")
    reports = {name: evaluate(head, pairs) for name, pairs in known.items()}
    if fitted:
        add_head(options.bundle, head, reports, min_chrf=options.min_chrf, fitted=len(fitted))
        load_bundle(options.bundle)  # a server must accept the result
    if options.picture:
        draw_reliability(reports, options.picture)
    print("\n".join([*report_table(reports), "", *flag_table(head, known)]))


def _read(path: Path) -> list[Pair]:
    """Read pairs; lines with an empty side are ignored."""
    found = [pair for pair in read_pairs(path) if pair.source and pair.target]
    if not found:
        raise ValueError(f"{path} has no pairs")
    return found


@dataclass(slots=True, kw_only=True)
class _Recorder:
    """Estimator that records its inputs and estimates nothing."""

    limits: FlagLimits = _UNLIMITED
    searched: dict[str, SearchedSentence] = field(default_factory=dict)

    def probability(self, sentence: SearchedSentence) -> float:
        self.searched[sentence.source] = sentence
        return 0.5


async def measure(bundle: Path, sets: Sequence[Sequence[Pair]]) -> list[list[MeasuredPair]]:
    """Translate the sources of sets of pairs as a server does by default.

    Args:
        bundle: Folder of the bundle, `<models>/<name>/<version>`.

    Returns:
        For each set the pairs whose source is a single sentence.

    Raises:
        BundleError: The bundle cannot be served.
    """
    with tempfile.TemporaryDirectory() as scratch:
        _link(bundle, Path(scratch))
        settings = EngineSettings(detection=False)
        engine = Engine(Path(scratch), settings=settings, metrics=Metrics(CollectorRegistry()))
        await engine.start()
        try:
            return [[pair async for pair in _measured(engine, pairs)] for pairs in sets]
        finally:
            await engine.join(_DRAIN_SECONDS)


def _link(bundle: Path, repository: Path) -> None:
    """Make a repository of one bundle alone."""
    folder = bundle.resolve()
    link = repository / folder.parent.name / folder.name
    link.parent.mkdir()
    link.symlink_to(folder, target_is_directory=True)


async def _measured(engine: Engine, pairs: Sequence[Pair]) -> AsyncIterator[MeasuredPair]:
    [model] = engine.models
    loaded = engine.live.catalog.find(model.name, model.version)
    if loaded is None:
        raise RuntimeError("the engine does not have the model that it serves")
    recorder = _Recorder()
    loaded.quality_estimator = recorder
    options = dataclasses.replace(model.default_options, quality=True)
    for chunk in _chunks(pairs):
        await engine.translate(Call(texts=tuple([pair.source for pair in chunk]), model=model, options=options))
        for pair in chunk:
            searched = recorder.searched.get(pair.source)
            if searched:
                yield MeasuredPair(searched, pair.target, len(loaded.codec.encode_target(pair.target)) + 1)
        recorder.searched.clear()


def _chunks(pairs: Sequence[Pair]) -> Iterator[Sequence[Pair]]:
    for start in range(0, len(pairs), _TEXTS_TOGETHER):
        yield pairs[start : start + _TEXTS_TOGETHER]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
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
    parser.add_argument(
        "--picture", type=Path, metavar="FILE", help="file to draw the reliability curves into, .svg or .png"
    )
    return parser


def _named_file(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"expected NAME=FILE, not {text!r}")
    return name, path


if __name__ == "__main__":
    sys.exit(main())
