"""Matmuls of few rows with sides exchanged, out^T = b^T @ a^T: wgmma and tcgen05 multiply 64 or 128 rows at a time,
which few rows of a leave empty, but as few columns as 8."""

from __future__ import annotations

from dataclasses import replace

from search_spaces.operators.matmul import Matmul

_OTHER = {"row": "col", "col": "row"}


def exchanged(problem: Matmul) -> Matmul:
    """Return the problem whose out is the transpose of this one's: its own inverse."""
    order_a, order_b = _OTHER[problem.order_b], _OTHER[problem.order_a]
    return replace(problem, m=problem.n, n=problem.m, order_a=order_a, order_b=order_b)
