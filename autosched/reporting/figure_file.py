"""A matplotlib figure as a file: whole or not at all, and the same bytes for the same figure."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measurements.files.atomic_write import publish

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save(figure: Figure, target: Path, **options: Any) -> None:
    """Write .svg or .png by the suffix of ``target``; ``options`` are those of ``savefig``. Raises OSError."""
    drawn, kind = io.BytesIO(), target.suffix.removeprefix(".")
    figure.savefig(drawn, format=kind, metadata={"Date": None} if kind == "svg" else None, **options)
    publish(target, drawn.getvalue())
