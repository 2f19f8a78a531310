"""Pictures of feature importances. They need matplotlib (extra ``pictures``)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from autosched.reporting.figure_file import save
from cost_models.trees.explanation import Importance


def draw_importance(panels: Sequence[tuple[str, Sequence[Importance]]], path: str | Path) -> Path:
    """Draw one panel for each (title, features): bars of each feature's effect on the time, and of its gain.

    Args:
        panels: Title and features of each panel.
        path: File to write, .svg or .png.

    Returns:
        ``path``.

    Raises:
        ValueError: The suffix is neither .svg nor .png.
        ImportError: matplotlib is not installed.
        OSError: The file cannot be written.
    """
    target = Path(path)
    if target.suffix not in (".svg", ".png"):
        raise ValueError(f"unsupported suffix of the picture {target}: name it .svg or .png")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    most = max(len(features) for _, features in panels)
    figure = Figure(figsize=(11.0, len(panels) * (1.2 + 0.24 * most)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(panels), 2, squeeze=False)
    for (moving, gaining), (title, features) in zip(axes, panels, strict=True):
        names = [f"{i.name}{f' (larger: {i.larger})' if i.larger else ''}" for i in features][::-1]
        moving.barh(names, [100 * math.expm1(i.moves) for i in features][::-1], color="tab:blue")
        moving.set(title=title, xlabel="effect on the time in % (SHAP)")
        gaining.barh(names, [100 * i.gain for i in features][::-1], color="tab:orange")
        gaining.set(xlabel="% of the gain of all splits", yticklabels=[])
        for axis in (moving, gaining):
            axis.tick_params(labelsize="x-small")
            axis.set_xlim(left=0)
    save(figure, target, dpi=120)
    return target
