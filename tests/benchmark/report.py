"""What was measured, as a table for people and as JSON for programs."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from measurement import EngineResult, has_avx512
from workload import Workload

from xuanzang.server.engine.cores import usable_cores

HEADINGS = (
    "model",
    "target length",
    "precision",
    "beam",
    "batch",
    "ours ms",
    "CTranslate2 ms",
    "ratio",
    "ours tokens/s",
    "CTranslate2 tokens/s",
    "workers × threads",
    "same text",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A model in one precision with one workload, by both engines."""

    model: str
    forced_target_length: int | None
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
        """Time of CTranslate2 divided by ours; above 1 we are faster."""
        return self.ctranslate2.seconds / self.ours.seconds

    def milliseconds(self, result: EngineResult) -> float:
        """Mean time of one batch."""
        return 1000 * result.seconds / len(self.workload.batches)


def as_json(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the contents of bench.json."""
    return {
        "machine": machine(),
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
            for row in rows
        ],
    }


def as_markdown(rows: Sequence[Row]) -> str:
    """Return the table with a line on the machine before it and one on its columns after it."""
    facts = ", ".join(f"{name} {value}" for name, value in machine().items())
    lines = [f"Machine: {facts}.", "", _line(HEADINGS), _line(["---"] * len(HEADINGS))]
    lines += [_line(_cells(row)) for row in rows]
    notes = (
        "Milliseconds are those of one batch, medians; ratio is CTranslate2's time divided by ours. "
        "A target length that is forced is the same for every translation in both engines: random weights do not end "
        "sentences. Same text: share of best hypotheses that are equal; in int8 the engines round differently."
    )
    return "\n".join([*lines, "", notes])


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "cpu": _cpu(),
        "cores": usable_cores(),
        "avx512": has_avx512(),
        "platform": platform.platform(),
        "python": platform.python_version(),
    } | {package: version(package) for package in ("onnxruntime", "ctranslate2")}


def _cells(row: Row) -> list[str]:
    forced = row.forced_target_length
    return [
        row.model,
        "the model's own" if forced is None else f"{forced}, forced",
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


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _tokens_per_second(result: EngineResult) -> float:
    return sum(map(len, result.target_ids)) / result.seconds


def _parallelism(result: EngineResult) -> str:
    return f"{result.workers} × {result.threads}"


def _agreement(first: EngineResult, second: EngineResult) -> float:
    pairs = list(zip(first.target_ids, second.target_ids, strict=True))
    return sum(one == other for one, other in pairs) / len(pairs)


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
