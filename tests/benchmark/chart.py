"""Chart of a report."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from report import Report, Row
from served import ServedResult

OURS, THEIRS = "#1f6f8b", "#b0b0b0"
NAMES = {"xuanzang": "xuanzang", "ctranslate2": "CTranslate2"}
COLORS = {"xuanzang": OURS, "ctranslate2": THEIRS}


def draw(report: Report, path: Path) -> None:
    """Draw the results of engines and servers.

    Args:
        report: Results; parts that were not measured are left out.
        path: SVG file to write.
    """
    panels = [part for part in (report.engine, report.served) if part]
    if not panels:
        return
    # Text stays text, so that it can be searched and copied and the file stays small.
    with mpl.rc_context({"svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(5.5 * len(panels), 3.6), layout="constrained")
        axes = list(figure.subplots(1, len(panels), squeeze=False)[0])
        if report.engine:
            _draw_engine(axes.pop(0), report.engine)
        if report.served:
            _draw_served(axes.pop(0), report.served)
        figure.savefig(path, metadata={"Date": None})


def _draw_engine(axes: Axes, rows: list[Row]) -> None:
    shown = [row for row in rows if row.workload.beam_size == 4]
    labels = [f"{row.model} {row.precision}, batch {row.batch}" for row in shown]
    ratios = [row.ratio for row in shown]
    bars = axes.barh(labels, ratios, color=[OURS if ratio >= 1 else THEIRS for ratio in ratios])
    axes.bar_label(bars, fmt="%.2f", padding=2)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_title("Engine: CTranslate2's time ÷ ours, beam 4")


def _draw_served(axes: Axes, served: ServedResult) -> None:
    rows = [row for row in served.rows if row.rate is not None]
    for engine, name in NAMES.items():
        for figure, style in (("p50_ms", "-"), ("p95_ms", "--")):
            latencies = [getattr(row.results[engine], figure) for row in rows]
            label = f"{name} {figure.removesuffix('_ms')}"
            axes.plot([row.load for row in rows], latencies, style, marker="o", color=COLORS[engine], label=label)
    axes.set_yscale("log")
    axes.set_ylabel("latency, ms")
    axes.set_xlabel("arrivals, share of CTranslate2's saturation")
    axes.set_title(f"Served: {served.model}, int8, beam 4")
    axes.legend(frameon=False)
