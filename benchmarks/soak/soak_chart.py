"""Chart of a soak: memory, files and threads, latency and calls over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

_BLUE, _GREY, _RED = "#1f6f8b", "#b0b0b0", "#b8452f"


def draw(figures: dict[str, Any], path: Path) -> None:
    """Draw the intervals of a soak.

    Args:
        path: SVG file to write.
    """
    intervals = figures["intervals"]
    minutes = [each["seconds"] / 60 for each in intervals]
    # Text stays text, so that it can be searched and copied and the file stays small.
    with mpl.rc_context({"svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(10, 6), layout="constrained")
        memory, counts, latency, calls = figure.subplots(2, 2, sharex=True).flat
        _draw_memory(memory, minutes, figures)
        for name, label, color in (("fds", "open files", _BLUE), ("threads", "threads", _GREY)):
            counts.plot(minutes, [each["process"][name] for each in intervals], color=color, label=label)
        _finish(counts, "Files and threads", "")
        for name, label, color in (("p50_ms", "p50", _BLUE), ("p99_ms", "p99", _GREY)):
            latency.plot(minutes, [each[name] for each in intervals], color=color, label=label)
        latency.set_yscale("log")
        _finish(latency, "Latency of answered calls", "ms")
        calls.plot(minutes, [each["calls_per_second"] for each in intervals], color=_BLUE, label="calls per second")
        calls.plot(minutes, [each["failures"] for each in intervals], color=_RED, label="failures so far")
        _finish(calls, "Calls", "")
        figure.savefig(path, metadata={"Date": None})


def _draw_memory(axes: Axes, minutes: Sequence[float], figures: dict[str, Any]) -> None:
    series = (("rss_mb", "RSS", _BLUE), ("pss_mb", "PSS", _GREY), ("cache_mb", "keys and values", _RED))
    for name, label, color in series:
        axes.plot(minutes, [each["process"][name] for each in figures["intervals"]], color=color, label=label)
    axes.axhline(figures["warm"]["rss_mb"], color=_BLUE, linestyle=":", linewidth=0.8, label="warm, before the load")
    axes.axhline(figures["idle"]["rss_mb"], color=_BLUE, linestyle="--", linewidth=0.8, label="after a minute idle")
    axes.set_ylim(bottom=0)
    slope = figures["trends"]["rss_mb"]
    margin = slope["high"] - slope["per_hour"]
    _finish(axes, f"Memory: {slope['per_hour']:+.1f} ± {margin:.1f} MB/h", "MB")


def _finish(axes: Axes, title: str, unit: str) -> None:
    axes.set_title(title)
    axes.set_ylabel(unit)
    axes.set_xlabel("minutes")
    axes.legend(frameon=False)
