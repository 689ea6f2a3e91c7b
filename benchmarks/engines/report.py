"""Report of a run, as Markdown tables, as JSON and as a chart."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.engines.cost import PeakShare, ServerCost
from benchmarks.engines.long_file import WAYS, FileResult
from benchmarks.engines.measurement import EngineResult
from benchmarks.engines.served import ServedResult, ServedRow
from benchmarks.engines.workload import Workload
from benchmarks.harness.loads import LoadResult
from benchmarks.harness.processes import has_avx512
from xuanzang.server.engine.hardware import usable_cores

OURS, THEIRS = "#1f6f8b", "#b0b0b0"
NAMES = {"xuanzang": "xuanzang", "ctranslate2": "CTranslate2"}
COLORS = {"xuanzang": OURS, "ctranslate2": THEIRS}

ENGINE_HEADINGS = (
    *("model", "precision", "beam", "batch", "ours ms", "CTranslate2 ms", "ratio", "ours tokens/s"),
    *("CTranslate2 tokens/s", "workers × threads", "same text"),
)
SERVED_HEADINGS = (
    *("load", "arrivals/s", "ours sentences/s", "p50 ms", "p95 ms", "p99 ms"),
    *("CTranslate2 sentences/s", "p50 ms", "p95 ms", "p99 ms", "p50 ratio", "errors"),
)
COST_HEADINGS = (
    *("model", "ours start s", "CTranslate2 start s", "ours MB", "CTranslate2 MB"),
    *("CPU outside onnxruntime", "share of int8 peak"),
)
FILE_HEADINGS = (
    *("model", "lines", "sentences", "Translator", "batch", "command and server", "CTranslate2"),
    "CTranslate2's workers × threads, batch",
)
ENGINE_NOTES = (
    "Milliseconds are those of one batch, medians; ratio is CTranslate2's time divided by ours. Same text: share of "
    "best hypotheses that are equal; in int8 the engines round differently. Presets have the weights of the bundled "
    "model, widened."
)
SERVED_NOTES = (
    "Closed: 128 callers, each sending its next sentence when it has its answer. Percentages: an open loop with "
    "Poisson arrivals at that share of the rate at which CTranslate2 is saturated, the same arrivals for both servers; "
    "latency counts from when a request was due. Medians of the rounds; load generator and server share the cores; p50 "
    "ratio is ours divided by CTranslate2's."
)
COST_NOTES = (
    "Start: from starting the process to the first translation. MB: VmRSS after the closed load. CPU outside "
    "onnxruntime: share of our server's CPU time under that load that its threads spent elsewhere than in a session's "
    "run. Share of int8 peak: multiply-adds with weights per second (int8, beam 4, batch 32) divided by those of large "
    "products alone."
)

FILE_NOTES = (
    "A file translated as a whole, text to text, int8, beam 4, in lines per second and beside CTranslate2's: ours by "
    "`Translator` in process, by `xuanzang batch`, and by `xuanzang translate --file` with a server, the latter two "
    "with the start of the command; CTranslate2 in process with the same tokeniser and the batches that suit it best. "
    "Medians of rounds in turn."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Results of both engines for a model, a precision and a workload."""

    model: str
    precision: str
    workload: Workload
    ours: EngineResult
    ctranslate2: EngineResult

    @property
    def batch(self) -> int:
        """Sentences per batch."""
        return len(self.workload.batches[0])

    @property
    def ratio(self) -> float:
        """Time of CTranslate2 divided by ours; above 1, ours is faster."""
        return self.ctranslate2.seconds / self.ours.seconds

    def milliseconds(self, result: EngineResult) -> float:
        """Mean time of one batch."""
        return 1000 * result.seconds / len(self.workload.batches)


@dataclass(slots=True, kw_only=True)
class Report:
    """Results of a run so far."""

    engine: list[Row] = field(default_factory=list)
    served: ServedResult | None = None
    file: FileResult | None = None
    servers: list[ServerCost] = field(default_factory=list)
    peak_shares: dict[str, PeakShare] = field(default_factory=dict)
    """Share of the int8 peak, by model."""
    share_of_others: float = 0.0
    """Share of the CPU used by programs that were not measured, which disturb the figures."""


def as_json(report: Report) -> dict[str, Any]:
    """Return the contents of bench.json; parts that were not measured are empty."""
    return {
        "machine": machine() | {"cpu_share_of_other_programs": round(report.share_of_others, 4)},
        "engine": [
            {
                "model": row.model,
                "precision": row.precision,
                "beam": row.workload.beam_size,
                "batch": row.batch,
                "ours_ms": round(row.milliseconds(row.ours), 3),
                "ctranslate2_ms": round(row.milliseconds(row.ctranslate2), 3),
                "ratio": round(row.ratio, 3),
            }
            for row in report.engine
        ],
        "served": [
            {"load": row.load, "ours": _figures(row.results["xuanzang"])}
            | {"ctranslate2": _figures(row.results["ctranslate2"])}
            for row in (report.served.rows if report.served else ())
        ],
        "file": _rates(report.file),
        "cost": _cost(report),
    }


def as_markdown(report: Report) -> str:
    """Return the tables, each with an explanation."""
    facts = ", ".join(f"{name} {value}" for name, value in machine().items())
    parts = [f"Machine: {facts}. Other programs used {report.share_of_others:.0%} of the CPU meanwhile."]
    if report.engine:
        parts += [_table(ENGINE_HEADINGS, map(_engine_cells, report.engine)), ENGINE_NOTES]
    if report.served:
        title = f"Served: {report.served.model}, int8, beam 4; CTranslate2 with {report.served.batching}."
        parts += [title, _table(SERVED_HEADINGS, map(_served_cells, report.served.rows)), SERVED_NOTES]
    if report.file:
        parts += [_table(FILE_HEADINGS, [_file_cells(report.file)]), FILE_NOTES]
    if report.servers:
        cells = [_cost_cells(server, report.peak_shares[server.model]) for server in report.servers]
        parts += [_table(COST_HEADINGS, cells), COST_NOTES]
    return "\n\n".join(parts)


def machine() -> dict[str, Any]:
    """Return the facts of the machine that the figures depend on."""
    return {
        "cpu": _cpu(),
        "cores": usable_cores(),
        "avx512": has_avx512(),
        "platform": platform.platform(),
        "python": platform.python_version(),
    } | {package: version(package) for package in ("onnxruntime", "ctranslate2")}


def _rates(result: FileResult | None) -> dict[str, float]:
    if not result:
        return {}
    rates = {f"{name}_lines_per_second": round(rate, 2) for name, rate in result.lines_per_second.items()}
    return {**rates, **{f"{way}_ratio": round(result.ratio(way), 3) for way in WAYS}}


def _cost(report: Report) -> dict[str, float]:
    """Return the figures of the first model, which was served."""
    if not report.servers:
        return {}
    first = report.servers[0]
    return {
        "start_to_first_translation_s": round(first.start_seconds["xuanzang"], 3),
        "rss_mb": round(first.resident_megabytes["xuanzang"], 1),
        "cpu_share_outside_onnxruntime": round(first.share_outside_onnxruntime, 4),
        "share_of_int8_peak": round(report.peak_shares[first.model].share, 4),
    }


def _figures(result: LoadResult) -> dict[str, float]:
    names = ("sentences_per_second", "p50_ms", "p95_ms", "p99_ms")
    values = dataclasses.asdict(result)
    return {name: round(values[name], 2) for name in names}


def _engine_cells(row: Row) -> list[str]:
    return [
        row.model,
        row.precision,
        str(row.workload.beam_size),
        str(row.batch),
        f"{row.milliseconds(row.ours):.1f}",
        f"{row.milliseconds(row.ctranslate2):.1f}",
        f"{row.ratio:.2f}",
        f"{_tokens_per_second(row.ours):.0f}",
        f"{_tokens_per_second(row.ctranslate2):.0f}",
        f"{_parallelism(row.ours)}, {_parallelism(row.ctranslate2)}",
        f"{_agreement(row.ours, row.ctranslate2):.0%}",
    ]


def _served_cells(row: ServedRow) -> list[str]:
    ours, theirs = row.results["xuanzang"], row.results["ctranslate2"]
    cells = [row.load, "" if row.rate is None else f"{row.rate:.1f}"]
    for result in (ours, theirs):
        cells += [f"{result.sentences_per_second:.1f}"]
        cells += [f"{value:.0f}" for value in (result.p50_ms, result.p95_ms, result.p99_ms)]
    return [*cells, f"{ours.p50_ms / theirs.p50_ms:.2f}", str(ours.errors + theirs.errors)]


def _file_cells(result: FileResult) -> list[str]:
    return [
        result.model,
        *(f"{count}" for count in (result.lines, result.sentences)),
        *(f"{result.lines_per_second[way]:.1f}, {result.ratio(way):.2f}" for way in WAYS),
        f"{result.lines_per_second['ctranslate2']:.1f}",
        f"{result.workers} × {result.threads}, {result.max_batch}",
    ]


def _cost_cells(server: ServerCost, peak: PeakShare) -> list[str]:
    return [
        server.model,
        *(f"{server.start_seconds[engine]:.2f}" for engine in ("xuanzang", "ctranslate2")),
        *(f"{server.resident_megabytes[engine]:.0f}" for engine in ("xuanzang", "ctranslate2")),
        f"{server.share_outside_onnxruntime:.1%}",
        f"{peak.share:.0%} of {peak.peak / 1e9:.0f} G/s",
    ]


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join([_line(headings), _line(["---"] * len(headings)), *(_line(cells) for cells in rows)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _tokens_per_second(result: EngineResult) -> float:
    return sum(map(len, result.target_ids)) / result.seconds


def _parallelism(result: EngineResult) -> str:
    return f"{result.workers} × {result.threads}{' with shortlist' if result.shortlist else ''}"


def _agreement(first: EngineResult, second: EngineResult) -> float:
    pairs = list(zip(first.target_ids, second.target_ids, strict=True))
    return sum(one == other for one, other in pairs) / len(pairs)


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


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
