"""Compute memory indices of elements: elements on a grid, and elements in rectangles of a matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


def grid(base: Indices | int, *axes: tuple[Indices, int]) -> Indices:
    """Return ``base`` + sum(index * stride) for all combinations of indices of the ``axes``.

    The last axis is fastest.
    """
    indices = np.asarray(base, dtype=np.int64)
    for index, stride in axes:
        indices = indices[..., None] + index.astype(np.int64) * stride
    return indices


def rectangles(positions: Indices, columns: int) -> Iterator[tuple[Indices, Indices]]:
    """Split ``positions`` into rectangles, and yield the rows and columns of each.

    Rows with the same columns belong to one rectangle.

    Args:
        positions: Ascending flat indices of elements.
        columns: Number of columns of the matrix.
    """
    rows, starts = np.unique(positions // columns, return_index=True)
    groups: dict[bytes, list[int]] = {}
    of_row = np.split(positions % columns, starts[1:])
    for row, chosen in zip(rows.tolist(), of_row, strict=True):
        groups.setdefault(chosen.tobytes(), []).append(row)
    for chosen_bytes, together in groups.items():
        yield np.array(together, dtype=np.int64), np.frombuffer(chosen_bytes, dtype=np.int64)
