"""Atomic and reproducible saving of matplotlib figures: equal figures give equal bytes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measurements.files.atomic_write import publish

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save(figure: Figure, target: Path, **options: Any) -> None:
    """Write a figure as .svg or .png, depending on the suffix of ``target``.

    Args:
        figure: The figure.
        target: Path of the file.
        options: Options of ``Figure.savefig``.

    Raises:
        OSError: The file cannot be written.
    """
    drawn, kind = io.BytesIO(), target.suffix.removeprefix(".")
    figure.savefig(drawn, format=kind, metadata={"Date": None} if kind == "svg" else None, **options)
    publish(target, drawn.getvalue())
