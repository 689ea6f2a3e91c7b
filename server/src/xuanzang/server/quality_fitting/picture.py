"""Reliability curves as an SVG picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from xuanzang.server.quality_fitting.calibration import Agreement

_SIZE = 320
_MARGIN = 48
_LEGEND_WIDTH = 250
_COLORS = ("#0b6e99", "#d1495b", "#3b8b4c", "#8661c1", "#b08900")
_TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def reliability_picture(reports: Mapping[str, Agreement]) -> str:
    """Draw the share of acceptable translations over their probability, which is a diagonal if both agree.

    Args:
        reports: How well a head does, by name of the pairs; at most five.

    Returns:
        The picture as SVG; the area of a point grows with the number of its translations.
    """
    width, height = _SIZE + 2 * _MARGIN + _LEGEND_WIDTH, _SIZE + 2 * _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"',
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *_axes(),
    ]
    for number, (name, report) in enumerate(reports.items()):
        lines += _curve(report, _COLORS[number])
        lines += _legend(number, name, report, _COLORS[number])
    return "\n".join([*lines, "</svg>", ""])


def _x(probability: float) -> str:
    return f"{_MARGIN + _SIZE * probability:.1f}"


def _y(share: float) -> str:
    return f"{_MARGIN + _SIZE * (1 - share):.1f}"


def _axes() -> Iterator[str]:
    yield f'<path d="M{_x(0)} {_y(0)}L{_x(1)} {_y(1)}" stroke="#999" stroke-dasharray="4 4"/>'
    yield f'<rect x="{_x(0)}" y="{_y(1)}" width="{_SIZE}" height="{_SIZE}" fill="none" stroke="#333"/>'
    for tick in _TICKS:
        yield f'<text x="{_x(tick)}" y="{_MARGIN + _SIZE + 18}" text-anchor="middle">{tick:.0%}</text>'
        yield f'<text x="{_MARGIN - 6}" y="{_y(tick)}" text-anchor="end" dy="4">{tick:.0%}</text>'
    yield f'<text x="{_x(0.5)}" y="{_MARGIN + _SIZE + 38}" text-anchor="middle">estimated probability</text>'
    yield f'<text x="{_x(0)}" y="{_MARGIN - 14}">acceptable translations</text>'


def _curve(report: Agreement, color: str) -> Iterator[str]:
    points = " ".join(f"{_x(each.mean_probability)},{_y(each.acceptable_share)}" for each in report.curve)
    yield f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>'
    for each in report.curve:
        radius = 2 + 14 * (each.pairs / report.pairs) ** 0.5
        center = f'cx="{_x(each.mean_probability)}" cy="{_y(each.acceptable_share)}"'
        yield f'<circle {center} r="{radius:.1f}" fill="{color}" fill-opacity="0.35"/>'


def _legend(number: int, name: str, report: Agreement, color: str) -> Iterator[str]:
    left, top = _MARGIN + _SIZE + 24, _MARGIN + 16 + 44 * number
    figures = f"{report.pairs:,} sentences, error {report.calibration_error:.3f}, AUROC {report.auroc:.3f}"
    yield f'<rect x="{left}" y="{top - 10}" width="12" height="12" fill="{color}"/>'
    yield f'<text x="{left + 18}" y="{top}">{escape(name)}</text>'
    yield f'<text x="{left + 18}" y="{top + 16}" fill="#555" font-size="10">{figures}</text>'
