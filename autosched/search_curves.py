"""The curves of repeated searches as a picture: quality by evaluations, the median and the quartiles around it. Needs
matplotlib (extra ``pictures``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from autosched.replay import NEAR, Searches

_WORST_SHOWN = 0.5


def draw_curves(panels: Sequence[tuple[str, Sequence[Searches]]], path: str | Path) -> Path:
    """Draw one panel for each (title, samplers' searches), side by side, at most three in a row.

    Writes .svg or .png by the suffix of ``path`` and returns it. Raises ValueError for another suffix, ImportError
    without matplotlib, OSError where it cannot be written.
    """
    target = Path(path)
    if target.suffix not in (".svg", ".png"):
        raise ValueError(f"a picture is .svg or .png, not {target.suffix or 'without a suffix'}: {target}")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(5.2 * columns, 3.8 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    for axis, (title, lines) in zip(axes, panels, strict=False):
        for searches in lines:
            low, middle, high = searches.curves()
            evaluations = np.arange(1, len(middle) + 1)
            (line,) = axis.plot(evaluations, middle, label=searches.sampler, linewidth=1.5)
            axis.fill_between(evaluations, low, high, color=line.get_color(), alpha=0.12, linewidth=0)
        axis.axhline(NEAR, color="0.6", linewidth=0.8, linestyle=":")
        axis.set(title=title, xlabel="evaluations", ylabel="optimum / best so far", ylim=(_WORST_SHOWN, 1.01))
        axis.legend(fontsize="x-small", loc="lower right")
    figure.savefig(target, metadata={"Date": None} if target.suffix == ".svg" else None, dpi=120)
    return target
