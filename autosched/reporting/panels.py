"""Pictures that consist of panels, whose coloured cells contain text.

Drawing needs matplotlib (extra ``pictures``), which is imported only when a picture is drawn. No global matplotlib
state is changed.
"""

from __future__ import annotations

import colorsys
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosched.reporting.figure_file import save

Colour = tuple[float, float, float]
Legend = tuple[tuple[Colour, str], ...]

LARGEST = 16384  # maximum number of cells of a panel; more cells would be illegible and slow to display
_LONG_SIDE_INCHES = (7.0, 14.0)  # minimum and maximum length of a panel's long side in inches
_CELL_INCHES = 0.11  # minimum side of a cell in inches, enough for a number
_TITLE_POINTS, _SUBTITLE_POINTS, _LARGEST_POINTS, _SMALLEST_POINTS = 12, 9, 13.0, 3.5
_LEGEND_COLUMNS, _LEGEND_POINTS, _LEGEND_INCHES = (
    4,
    8,
    0.22,
)  # number of entries per line of a legend, and height of a line in inches
_BELOW_INCHES = 0.45  # margin of a panel in inches, for its ticks and the names of its axes
_SWATCH_INCHES = 0.45  # width in inches of a colour swatch in a legend, including the space next to it
_MOST_NAMED = 8  # maximum number of colours in a legend
_GLYPH = 0.62  # upper estimate of a character's width relative to its font size
_INK, _MUTED = (0.1, 0.1, 0.15), (0.35, 0.35, 0.4)


@dataclass(frozen=True)
class Cell:
    """A rectangle of a tile, in elements, with its text."""

    row: int
    column: int
    rows: int
    columns: int
    colour: Colour
    text: str = ""


@dataclass(frozen=True)
class Panel:
    """Cells of a tile of shape ``shape``, with a title.

    ``grid`` is the spacing of grid lines, in rows and columns. ``legend`` names the colours of cells.
    """

    title: str
    subtitle: str
    shape: tuple[int, int]
    cells: list[Cell]
    grid: tuple[int, int] | None = None
    legend: Legend = ()

    @property
    def long_side_inches(self) -> float:
        """Length of the long side in inches. It grows with the number of cells, so that texts are legible."""
        rows, columns = self.shape
        cells = max(rows / min(c.rows for c in self.cells), columns / min(c.columns for c in self.cells))
        return min(_LONG_SIDE_INCHES[1], max(_LONG_SIDE_INCHES[0], cells * _CELL_INCHES))

    def inches(self, long_side: float) -> tuple[float, float]:
        """Width and height in inches, proportional to the tile, with an aspect ratio of at most four."""
        ratio = min(4.0, max(0.25, self.shape[1] / self.shape[0]))
        return (long_side, long_side / ratio) if ratio >= 1 else (long_side * ratio, long_side)

    @property
    def title_inches(self) -> float:
        """Estimated width of title and subtitle in inches."""
        return max(len(self.title) * _TITLE_POINTS, len(self.subtitle) * _SUBTITLE_POINTS) * _GLYPH / 72

    @property
    def legend_inches(self) -> tuple[float, float]:
        """Width and height of the legend in inches; 0 without a legend."""
        if not self.legend:
            return 0.0, 0.0
        longest = max(len(label) for _, label in self.legend) * _LEGEND_POINTS * _GLYPH / 72
        columns = min(_LEGEND_COLUMNS, len(self.legend))
        return columns * (longest + _SWATCH_INCHES), math.ceil(len(self.legend) / columns) * _LEGEND_INCHES


def checked_path(path: str | Path) -> Path:
    """Return the path of a picture. Raises ValueError unless it ends in .svg or .png."""
    target = Path(path)
    if target.suffix not in (".svg", ".png"):
        raise ValueError(f"cannot draw {str(target)!r}: use a file name that ends in .svg or .png")
    return target


def render(rows: Sequence[Sequence[Panel]], target: Path) -> Path:
    """Write rows of panels to a file. The panels of a row are side by side, with the same scale."""
    for panel in (panel for row in rows for panel in row):
        if len(panel.cells) > LARGEST:
            raise ValueError(f"the picture would have {len(panel.cells)} cells: draw a tile with at most {LARGEST}")
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'autosched[pictures]'") from error

    margin, title = 0.75, 0.65
    sizes, slots = [], []
    for row in rows:
        long_side = max(panel.long_side_inches for panel in row)
        sizes.append([panel.inches(long_side) for panel in row])
        slots.append(
            [
                max(size[0], panel.title_inches, panel.legend_inches[0])
                for size, panel in zip(sizes[-1], row, strict=True)
            ]
        )
    width = max(sum(row_slots) + margin * (len(row_slots) + 1) for row_slots in slots)
    legends = [max(panel.legend_inches[1] for panel in row) for row in rows]
    heights = [max(size[1] for size in row_sizes) for row_sizes in sizes]
    height = sum(heights) + sum(legends) + (title + margin) * len(rows)
    figure = Figure(figsize=(width, height))
    top = height
    for row, row_sizes, row_slots, tallest, legend in zip(rows, sizes, slots, heights, legends, strict=True):
        left = margin
        for panel, (w, h), slot in zip(row, row_sizes, row_slots, strict=True):
            bottom = top - title - h
            _draw_panel(figure.add_axes((left / width, bottom / height, w / width, h / height)), panel, w, h)
            left += slot + margin
        top -= title + tallest + legend + margin
    # A fixed salt and the omission of the date make the file reproducible. Text is stored as text, not as curves, so
    # that it can be searched and copied.
    with matplotlib.rc_context({"svg.hashsalt": "autosched", "svg.fonttype": "none"}):
        save(figure, target, dpi=150, facecolor="white")
    return target


def _draw_panel(axes: Any, panel: Panel, width: float, height: float) -> None:
    from matplotlib.collections import PolyCollection
    from matplotlib.patches import Patch

    rows, columns = panel.shape
    corners = [
        [
            (c.column, c.row),
            (c.column + c.columns, c.row),
            (c.column + c.columns, c.row + c.rows),
            (c.column, c.row + c.rows),
        ]
        for c in panel.cells
    ]
    line = 0.8 if len(panel.cells) < 1000 else 0.2
    axes.add_collection(
        PolyCollection(corners, facecolors=[c.colour for c in panel.cells], edgecolors="white", linewidths=line)
    )
    points, rotated = _font(panel.cells, width / columns * 72, height / rows * 72)
    for cell in (c for c in panel.cells if c.text and points):
        # the text needs a background, because grid lines would cross it
        crossed = panel.grid is not None and (cell.rows > panel.grid[0] or cell.columns > panel.grid[1])
        axes.text(
            cell.column + cell.columns / 2,
            cell.row + cell.rows / 2,
            cell.text.replace("\n", "   ") if rotated else cell.text,
            rotation=90 if rotated else 0,
            ha="center",
            va="center",
            fontsize=points,
            color=_INK,
            linespacing=1.05,
            bbox={"facecolor": cell.colour, "edgecolor": "none", "pad": 0.5} if crossed else None,
        )
    if panel.grid is not None:
        for edge in range(panel.grid[0], rows, panel.grid[0]):
            axes.axhline(edge, color=_MUTED, linewidth=0.5, zorder=1.5)
        for edge in range(panel.grid[1], columns, panel.grid[1]):
            axes.axvline(edge, color=_MUTED, linewidth=0.5, zorder=1.5)
    axes.set(xlim=(0, columns), ylim=(rows, 0), xlabel="column", ylabel="row")
    axes.set_xticks(_ticks(columns))
    axes.set_yticks(_ticks(rows))
    axes.tick_params(labelsize=8, length=2)
    if panel.legend:
        axes.legend(
            handles=[Patch(facecolor=colour, label=label) for colour, label in panel.legend],
            loc="upper left",
            bbox_to_anchor=(0, -_BELOW_INCHES / height),
            ncols=_LEGEND_COLUMNS,
            fontsize=_LEGEND_POINTS,
            frameon=False,
            borderpad=0,
            borderaxespad=0,
        )
    above = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "bottom"}
    axes.annotate(panel.title, (0, 1), (0, 18), fontsize=_TITLE_POINTS, fontweight="bold", color=_INK, **above)
    axes.annotate(panel.subtitle, (0, 1), (0, 5), fontsize=_SUBTITLE_POINTS, color=_MUTED, **above)


def _font(cells: Sequence[Cell], column_points: float, row_points: float) -> tuple[float, bool]:
    """Return the largest font size at which every text fits in its cell, and whether texts must be rotated.

    The size is 0 if no text is legible. In narrow cells, text is rotated by 90 degrees and set on one line.
    """

    def fit(cell: Cell, rotated: bool) -> float:
        lines = [cell.text.replace("\n", "   ")] if rotated else cell.text.split("\n")
        available = (cell.columns * column_points, cell.rows * row_points)
        along, across = available[::-1] if rotated else available
        return min(along / (_GLYPH * max(map(len, lines)) + 0.4), across / (1.2 * len(lines) + 0.2), _LARGEST_POINTS)

    # compute the size only once for each combination of cell size and text length
    kinds = {(c.rows, c.columns, tuple(map(len, c.text.split("\n")))): c for c in cells if c.text}
    upright, rotated_points = (min((fit(c, rotate) for c in kinds.values()), default=0.0) for rotate in (False, True))
    rotate = rotated_points > 2 * upright
    points = rotated_points if rotate else upright
    return (points if points >= _SMALLEST_POINTS else 0.0), rotate


def _ticks(size: int) -> list[int]:
    """Return about eight ticks. Like most tile sizes, they are multiples of a power of two."""
    step = max(1, 2 ** math.ceil(math.log2(max(1, size / 8))))
    return list(range(0, size + 1, step))


def subgroup_colour(subgroup: int) -> Colour:
    """Return a colour for the subgroup with this number. Neighbouring numbers have distinct colours."""
    # From one number to the next, the hue advances by the golden ratio. Neighbouring numbers then have distinct hues,
    # however many subgroups there are.
    return colorsys.hsv_to_rgb((0.58 + subgroup * 0.61803398875) % 1, 0.38, 0.95)


def cyclic_colour(fraction: float) -> Colour:
    """Return a colour of the cyclic colour scale, for an angle as a fraction of 360 degrees."""
    # Lightness also varies with the hue, so that colour-blind readers can distinguish opposite hues.
    return colorsys.hsv_to_rgb(fraction % 1, 0.45, 0.86 + 0.12 * math.cos(2 * math.pi * fraction))


def cell_legend(cells: Sequence[Cell]) -> Legend:
    """Return a legend with each colour that occurs in the cells, and the first line of such a cell's text."""
    named = {cell.colour: cell.text.partition("\n")[0] for cell in reversed(cells)}
    return tuple(sorted(named.items(), key=lambda item: (len(item[1]), item[1])))[:_MOST_NAMED]


def cyclic_legend(name: str, count: int) -> Legend:
    """Return a legend with a few evenly spaced colours of a cyclic scale of ``count`` colours."""
    return tuple((cyclic_colour(i / count), f"{name} {i}") for i in range(0, count, max(1, count // 4)))
