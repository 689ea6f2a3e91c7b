"""Draw how a model was learnt from the measurements that a recipe keeps, after adding those of a run.

README.md of a recipe says how to call it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Point = dict[str, Any]
"""A validation: "run", "step", "target_tokens", "validation_loss", "bleu_greedy", "chrf_greedy"."""

PANELS = {"validation_loss": "validation loss, nats per token", "chrf_greedy": "chrF of 200 greedy translations"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Add the given points and draw.

    Args:
        arguments: Flags, without the program's name; None takes those of the process.

    Returns:
        Exit status: 0, 2 for wrong flags or files.
    """
    flags = _parser().parse_args(arguments)
    try:
        curve = json.loads(flags.curve.read_text(encoding="utf-8"))
        if flags.add:
            run, path, tokens_per_step = flags.add
            rows = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
            curve["points"] = add_run(curve["points"], run, rows, int(tokens_per_step))
            flags.curve.write_text(json.dumps(curve, indent=1) + "\n", encoding="utf-8")
        draw(curve["points"], flags.picture)
    except (OSError, ValueError, KeyError) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("curve", type=Path, help="JSON file of measurements; changed only by --add")
    parser.add_argument("picture", type=Path, help="SVG file to write")
    parser.add_argument(
        "--add",
        nargs=3,
        metavar=("RUN", "FILE", "TOKENS_PER_STEP"),
        help="run to add: its name, its validations.jsonl, and how many target tokens its steps have",
    )
    return parser


def add_run(points: Sequence[Point], run: str, rows: Sequence[Point], tokens_per_step: int) -> list[Point]:
    """Return the points with those of a run last, as if it went on from where the others ended.

    Args:
        points: Points of earlier runs; earlier ones of the same run are replaced.
        rows: Lines of its `validations.jsonl`; if a resumed run wrote one twice, the last counts.
        tokens_per_step: Target tokens, on average.
    """
    kept = [point for point in points if point["run"] != run]
    before = kept[-1]["target_tokens"] if kept else 0
    last = {row["step"]: row for row in rows}
    return kept + [
        {
            "run": run,
            "step": step,
            "target_tokens": before + step * tokens_per_step,
            "validation_loss": row["loss"],
            "bleu_greedy": row["bleu"],
            "chrf_greedy": row["chrf"],
        }
        for step, row in sorted(last.items())
    ]


def draw(points: Sequence[Point], path: Path) -> None:
    """Draw loss and chrF over the target tokens, one line per run.

    Args:
        points: Points in the order of measurement.
        path: SVG file to write; the same points give the same file.
    """
    # Letters as letters: a reader can search and copy them, and the file stays small.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "xuanzang", "font.size": 9}):
        figure = Figure(figsize=(8, 2.8), layout="constrained")
        for axes, (measure, title) in zip(figure.subplots(1, len(PANELS)), PANELS.items(), strict=True):
            _draw_runs(axes, points, measure)
            axes.set_title(title)
        figure.savefig(path, metadata={"Date": None})


def _draw_runs(axes: Axes, points: Sequence[Point], measure: str) -> None:
    for run, group in itertools.groupby(points, key=lambda point: point["run"]):
        measured = list(group)
        tokens = [point["target_tokens"] / 1e6 for point in measured]
        axes.plot(tokens, [point[measure] for point in measured], marker="o", markersize=3, label=f"{run} run")
    axes.set_xlabel("million target tokens")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)


if __name__ == "__main__":
    sys.exit(main())
