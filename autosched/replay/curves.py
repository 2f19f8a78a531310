"""Plot quality against the number of evaluations for repeated searches: median and quartiles.

Needs matplotlib (extra ``pictures``).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from autosched.replay.search import NEAR, Searches
from autosched.reporting.figure_file import save
from search_spaces.arrays import FloatArray

_WORST_SHOWN = 0.5


def draw_curves(panels: Sequence[tuple[str, Sequence[Searches]]], path: str | Path) -> Path:
    """Draw one panel per title, at most three in a row. Each panel shows the searches of several samplers.

    Writes .svg or .png by the suffix of ``path``, and returns the path. Raises ValueError for another suffix,
    ImportError without matplotlib, and OSError if the file cannot be written.
    """
    target = Path(path)
    if target.suffix not in (".svg", ".png"):
        raise ValueError(f"a picture is .svg or .png, not {target.suffix or 'without a suffix'}: {target}")
    from matplotlib import color_sequences
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(5.2 * columns, 3.8 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    names = dict.fromkeys(searches.sampler for _, lines in panels for searches in lines)
    colours, dashes = color_sequences["tab10"], ("-", "--", ":")  # a sampler has the same colour in all panels
    styles = dict(zip(names, itertools.cycle(itertools.product(dashes, colours)), strict=False))
    for axis, (title, lines) in zip(axes, panels, strict=False):
        for searches in lines:
            curves = searches.curves()
            corners = _corners(curves)
            low, middle, high = curves[:, corners]
            dash, colour = styles[searches.sampler]
            axis.step(corners + 1, middle, dash, where="post", color=colour, label=searches.sampler, linewidth=1.5)
            axis.fill_between(corners + 1, low, high, step="post", color=colour, alpha=0.1, linewidth=0)
        axis.set_title(title, parse_math=False)  # escape $ in names, which would start a formula
        axis.axhline(NEAR, color="0.6", linewidth=0.8, linestyle=":")
        axis.set(xlabel="evaluations", ylabel="optimum / best so far", ylim=(_WORST_SHOWN, 1.01))
    shown = {label: line for axis in axes for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(shown.values(), shown.keys(), fontsize="small", loc="outside lower center", ncols=2 * columns)
    save(figure, target, dpi=120)
    return target


def _corners(curves: FloatArray) -> NDArray[np.intp]:
    """Return the first and the last position, and all positions at which a stepwise curve changes.

    Other points lie on the lines between these.
    """
    moves = np.any(np.diff(curves, axis=1) != 0, axis=0)
    last = curves.shape[1] - 1
    return np.unique(np.concatenate([[0], np.flatnonzero(moves) + 1, [last]]))
