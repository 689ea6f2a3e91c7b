"""Figures of a load: rates, codes, and latencies from HDR histograms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from hdrh.histogram import HdrHistogram

from xuanzang.loadtest.load import Load, Record

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)
_LONGEST_MICROSECONDS = 3_600_000_000
_DIGITS = 3
_LATE_SECONDS = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures of the requests of one load that were due after the warm-up."""

    load: str
    requests: int
    codes: dict[str, int]
    """Requests by status code; EMPTY are answers that lack a translation."""
    texts_per_second: float
    """Texts answered per second between the end of the warm-up and the end of sending."""
    latency_ms: dict[str, float]
    """Latency of the answered requests by percentile, such as "p99", and "max"; from the time that each was due."""
    by_length: dict[str, dict[str, float]]
    """The same by the characters of a request, such as "1-20", and "requests"; classes without answers are left out."""
    late_share: float
    """Share of the requests that the load generator itself sent more than 10 ms late: if it is not near 0, the figures
    are the generator's."""


def figures(load: Load, records: Sequence[Record], classes: Sequence[int]) -> Figures:
    """Reduce the records of a load.

    Args:
        classes: Upper limits of the classes of length, in characters, ascending; longer requests are a class, too.

    Raises:
        ValueError: No request was due after the warm-up.
    """
    counted = [record for record in records if record.due >= load.warm_up_seconds]
    if not counted:
        raise ValueError("no request was due after the warm-up: give more seconds or a higher rate")
    answered = [record for record in counted if record.code == "OK"]
    # A closed loop may go on for longer than it was asked to.
    end = max(load.seconds, *(record.due for record in counted))
    in_time = (each for each in records if each.code == "OK" and load.warm_up_seconds <= each.ended < end)
    return Figures(
        load=str(load),
        requests=len(counted),
        codes=dict(Counter(record.code for record in counted).most_common()),
        texts_per_second=sum(record.texts for record in in_time) / (end - load.warm_up_seconds),
        latency_ms=_latencies(histogram(answered)),
        by_length=_by_length(answered, classes),
        late_share=sum(record.sent - record.due > _LATE_SECONDS for record in counted) / len(counted),
    )


def histogram(records: Iterable[Record]) -> HdrHistogram:
    """Return the latencies of records, in microseconds, with three digits up to an hour."""
    result = HdrHistogram(1, _LONGEST_MICROSECONDS, _DIGITS)
    for record in records:
        result.record_value(min(_LONGEST_MICROSECONDS, max(1, round(1e6 * (record.ended - record.due)))))
    return result


def write_histogram(path: Path, records: Iterable[Record]) -> None:
    """Write the percentiles of the latency in milliseconds, as HdrHistogram's plotter reads them."""
    with path.open("wb") as file:
        histogram(records).output_percentile_distribution(file, 1000.0)


def table(results: Sequence[Figures]) -> str:
    """Return the figures for people."""
    names = [f"p{percentile:g}" for percentile in PERCENTILES] + ["max"]
    lines = [_row("load", "requests", "ok", "refused", "late", "failed", "texts/s", *(f"{name} ms" for name in names))]
    for each in results:
        ok, refused, late = (each.codes.get(code, 0) for code in ("OK", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"))
        counts = (each.requests, ok, refused, late, each.requests - ok - refused - late)
        lines.append(_row(each.load, *counts, f"{each.texts_per_second:.1f}", *_cells(each.latency_ms, names)))
        for length, latencies in each.by_length.items():
            blank = ("", f"{latencies['requests']:.0f}", "", "", "", "")
            lines.append(_row(f"  {length} chars", *blank[1:], "", *_cells(latencies, names)))
    return "\n".join(lines)


def _by_length(answered: Sequence[Record], classes: Sequence[int]) -> dict[str, dict[str, float]]:
    limits = (0, *classes)
    names = [f"{low + 1}-{high}" for low, high in pairwise(limits)] + [f"over {limits[-1]}"]
    members: dict[str, list[Record]] = {name: [] for name in names}
    for record in answered:
        members[names[sum(record.characters > limit for limit in classes)]].append(record)
    return {
        name: {"requests": len(records), **_latencies(histogram(records))}
        for name, records in members.items()
        if records
    }


def _latencies(latencies: HdrHistogram) -> dict[str, float]:
    if not latencies.get_total_count():
        return {}
    found = {f"p{each:g}": latencies.get_value_at_percentile(each) / 1000 for each in PERCENTILES}
    return found | {"max": latencies.get_max_value() / 1000}


def _cells(latencies: dict[str, float], names: Sequence[str]) -> list[str]:
    return [f"{latencies[name]:.1f}" if name in latencies else "-" for name in names]


def _row(first: str, *cells: Any) -> str:
    return f"{first:<24}" + "".join(f"{cell!s:>10}" for cell in cells)
