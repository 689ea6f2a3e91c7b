"""Pictures of attention maps: SVG, which needs nothing else, and whatever matplotlib writes."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

_CELL, _LABEL, _TITLE = 14, 90, 24
"""Sizes in the SVG, pixels: a weight, the labels of a map, the title above it."""
_COLOR = "#08519c"
_FAINTEST = 0.005

# The first are tried before all others, because they match Latin letters.
_CHINESE_FONTS = (
    "Noto Sans CJK SC",
    "Source Han Sans SC",
    "WenQuanYi Zen Hei",
    "PingFang SC",
    "Microsoft YaHei",
    "SimHei",
)


class PictureError(RuntimeError):
    """A picture cannot be drawn on this machine; the message says what to install."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One map with its labels."""

    title: str
    weights: npt.NDArray[np.float32]
    """0 to 1, [query, key]."""
    queries: Sequence[str]
    """Labels of the rows."""
    keys: Sequence[str]
    """Labels of the columns."""


def svg(rows: Sequence[Sequence[Panel]]) -> str:
    """Draw maps in rows; text stays text, for the fonts of whatever shows it."""
    body, y, width = [], 0, 0
    for row in rows:
        x = 0
        for panel in row:
            body.append(f'<g transform="translate({x},{y})">{"".join(_panel(panel))}</g>')
            x += _LABEL + _CELL * (len(panel.keys) + 1)
        width = max(width, x)
        y += _TITLE + _LABEL + _CELL * (max(len(panel.queries) for panel in row) + 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" height="{y}" '
        f'font-family="sans-serif" font-size="11">\n<rect width="{width}" height="{y}" fill="white"/>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def _panel(panel: Panel) -> Iterator[str]:
    """Yield the elements of a map: title, labels, weights, frame."""
    rows, columns = panel.weights.shape
    bottom = _TITLE + rows * _CELL
    yield f'<text x="{_LABEL}" y="{_TITLE - 8}" font-weight="bold">{html.escape(panel.title)}</text>'
    for row, label in enumerate(panel.queries):
        y = _TITLE + (row + 0.8) * _CELL
        yield f'<text x="{_LABEL - 4}" y="{y:g}" text-anchor="end">{html.escape(label)}</text>'
    for column, label in enumerate(panel.keys):
        place = f"translate({_LABEL + (column + 0.8) * _CELL:g},{bottom + 4}) rotate(-90)"
        yield f'<text transform="{place}" text-anchor="end">{html.escape(label)}</text>'
    for row, column in np.argwhere(panel.weights > _FAINTEST).tolist():
        x, y = _LABEL + column * _CELL, _TITLE + row * _CELL
        weight = panel.weights[row, column]
        square = f'x="{x}" y="{y}" width="{_CELL}" height="{_CELL}"'
        yield f'<rect {square} fill="{_COLOR}" fill-opacity="{weight:.3f}"><title>{weight:.3f}</title></rect>'
    frame = f'x="{_LABEL}" y="{_TITLE}" width="{columns * _CELL}" height="{rows * _CELL}"'
    yield f'<rect {frame} fill="none" stroke="#888"/>'


def save_with_matplotlib(rows: Sequence[Sequence[Panel]], path: Path) -> None:
    """Draw maps in rows, in the format of the name's ending.

    Raises:
        PictureError: matplotlib is not installed, or no installed font has the characters of the labels.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - optional
    except ImportError as error:
        raise PictureError(
            f"{path.suffix} needs matplotlib: pip install 'matplotlib>=3.9', or write .svg, which needs nothing"
        ) from error
    labels = {label for row in rows for panel in row for label in (*panel.queries, *panel.keys)}
    fonts = _fonts_for(set("".join(labels)))
    columns = max(map(len, rows))
    side = 1.5 + 0.22 * max(len(panel.keys) for row in rows for panel in row)
    figure = Figure(figsize=(side * columns, side * len(rows)), layout="constrained")
    axes = figure.subplots(len(rows), columns, squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    for row, row_axes in zip(rows, axes, strict=True):
        for panel, ax in zip(row, row_axes, strict=False):
            ax.set_axis_on()
            ax.imshow(panel.weights, vmin=0, vmax=1, cmap="Blues")
            ax.set_title(panel.title)
            ax.set_xticks(range(len(panel.keys)), panel.keys, rotation=90, parse_math=False, fontfamily=fonts)
            ax.set_yticks(range(len(panel.queries)), panel.queries, parse_math=False, fontfamily=fonts)
    figure.savefig(path)


def _fonts_for(characters: set[str]) -> list[str]:
    """Return names of installed fonts that have all characters between them.

    Raises:
        PictureError: No installed font has some of them, which would be drawn as boxes.
    """
    from matplotlib.font_manager import fontManager  # noqa: PLC0415 - optional

    # matplotlib's own first, for Latin letters.
    preferred = {name: place for place, name in enumerate(("DejaVu Sans", *_CHINESE_FONTS))}
    # matplotlib brings Unicode's "Last Resort" font, which has every character, as a box.
    files = {font.name: font.fname for font in fontManager.ttflist if not font.name.startswith("Last Resort")}
    missing, fonts = {ord(character) for character in characters}, []
    for name in sorted(files, key=lambda name: (preferred.get(name, len(preferred)), name)):
        if missing and (found := missing & _code_points(files[name])):
            fonts.append(name)
            missing -= found
    if missing:
        raise PictureError(_missing_font(chr(code) for code in sorted(missing)))
    return fonts


def _code_points(file: str) -> set[int]:
    from matplotlib.font_manager import get_font  # noqa: PLC0415 - optional

    try:
        return set(get_font(file).get_charmap())
    except (OSError, RuntimeError):
        # A font that cannot be read has no characters for us.
        return set()


def _missing_font(characters: Iterable[str]) -> str:
    some = "".join(characters)[:10]
    return (
        f"no installed font has the characters {some}: write .svg, which needs no font here, or install one, such as "
        "the package fonts-noto-cjk of Debian and Ubuntu or google-noto-sans-cjk-fonts of Fedora"
    )
