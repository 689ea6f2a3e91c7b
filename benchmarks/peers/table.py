"""Results of engines on the same weights, as a Markdown table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.peers.models import Peer

_NAMES = {
    "xuanzang": "**xuanzang**",
    "ctranslate2": "CTranslate2",
    "transformers": "transformers",
    "optimum": "Optimum, onnxruntime",
    "openvino": "OpenVINO",
}
NOTES = (
    "Milliseconds for a batch, medians; in brackets CTranslate2's time in the same precision divided by it: above 1 "
    "it is faster than CTranslate2. Same tokens: greedy translations equal to those of transformers in float32."
)


class Cell(NamedTuple):
    """Work of one column."""

    beam_size: int
    batch: int


@dataclass(slots=True, kw_only=True)
class Result:
    """Results of one engine in one precision."""

    peer: Peer
    versions: str = ""
    """Packages with their versions."""
    seconds: dict[Cell, list[float]] = field(default_factory=dict)
    """Times of the rounds that count."""
    target_ids: dict[Cell, list[list[int]]] = field(default_factory=dict)
    failure: str = ""
    """Reason that it could not be measured; empty if it was."""

    def median(self, cell: Cell) -> float:
        """Return the median time of a batch, seconds."""
        return statistics.median(self.seconds[cell])


def as_table(results: Sequence[Result], cells: Sequence[Cell]) -> str:
    """Return rows for all results, with the reason for each failure.

    Args:
        results: One for each engine and precision.
        cells: Work, in the order of the columns.
    """
    columns = (f"{'greedy' if beam == 1 else f'beam {beam}'}, {batch}" for beam, batch in cells)
    headings = ("engine", "precision", *columns, "same tokens")
    lines = [_line(headings), _line(["---"] * len(headings))]
    lines += [_line(_row(result, results, cells)) for result in results]
    versions = dict.fromkeys(f"{_NAMES[one.peer.engine]}: {one.versions}" for one in results if one.versions)
    return "\n".join([*lines, "", NOTES, "", *(f"* {version}" for version in versions)])


def _row(result: Result, results: Sequence[Result], cells: Sequence[Cell]) -> list[str]:
    named = [_NAMES[result.peer.engine], result.peer.precision]
    if result.failure:
        return [*named, f"failed: {result.failure}", *[""] * len(cells)]
    other = _found(results, Peer(engine="ctranslate2", precision=result.peer.precision))
    return [*named, *(_time(result, other, cell) for cell in cells), _same_tokens(result, results)]


def _time(result: Result, other: Result | None, cell: Cell) -> str:
    milliseconds = f"{1000 * result.median(cell):.0f}"
    return f"{milliseconds} ({other.median(cell) / result.median(cell):.2f})" if other else milliseconds


def _same_tokens(result: Result, results: Sequence[Result]) -> str:
    """Return the share of greedy translations that are those of transformers; rounding to int8 changes them."""
    reference = _found(results, Peer(engine="transformers", precision="float32"))
    if not reference or result.peer.precision != "float32":
        return "–"
    greedy = [cell for cell in reference.target_ids if cell.beam_size == 1]
    pairs = [pair for cell in greedy for pair in zip(result.target_ids[cell], reference.target_ids[cell], strict=True)]
    return f"{sum(ours == theirs for ours, theirs in pairs)} of {len(pairs)}"


def _found(results: Sequence[Result], peer: Peer) -> Result | None:
    return next((one for one in results if one.peer == peer and not one.failure), None)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
