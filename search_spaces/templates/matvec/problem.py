"""Problems that the matvec kernels compute: problems of the operator matvec, and equivalent matmuls."""

from __future__ import annotations

from functools import lru_cache

from search_spaces.hardware.devices import Device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import INPUTS, MOST_ROWS, Matvec


def supports(problem: Matvec | Matmul, device: Device) -> str | None:
    """Return the reason why the matvec kernels cannot compute ``problem``; None if they can."""
    if isinstance(problem, Matvec):
        return None
    if problem.m > MOST_ROWS:
        return f"m is {problem.m}, but matvec kernels support at most {MOST_ROWS} rows"
    if problem.a not in INPUTS:
        return f"a and b are {problem.a}, but matvec kernels read {' or '.join(INPUTS)}"
    if problem.acc == "f16":
        return "matvec kernels accumulate in f32, but acc is f16"
    if problem.order_a != "row":
        return "a is column-major, but matvec kernels read it row by row"
    if problem.order_b != "col":
        return "b is row-major, but matvec kernels read its columns as contiguous lines: store it column-major"
    if problem.batch > 1:
        return f"batch is {problem.batch}, but matvec kernels compute one product"
    if problem.epilogue != "none":
        return f"matvec kernels do not support the epilogue {problem.epilogue}"
    if problem.reduction != "none":
        return f"matvec kernels have no second output, which {problem.reduction} needs"
    return None


@lru_cache(maxsize=64)
def as_matvec(problem: Matvec | Matmul) -> Matvec:
    """Return the matvec on the same memory: x is the row-major a, and w is the transpose of the column-major b."""
    if isinstance(problem, Matvec):
        return problem
    return Matvec(problem.m, problem.n, problem.k, x=problem.a, out=problem.out)
