"""What the GPU benchmark tunes: matmul shapes by purpose, and shapes of the other operators; the most telling first."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TypeVar

from search_spaces.catalogue import operators
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.operator import Operator
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Reduce, RmsNorm, Softmax
from search_spaces.operators.transpose import Transpose

T = TypeVar("T")

# A layer of a language model multiplies by weights stored as (outputs, inputs): b is column-major.
_SQUARE = [("square", Matmul(m=s, n=s, k=s)) for s in (4096, 8192, 2048, 1024)]
_PROJECTION = [
    ("projection", Matmul(m=4096, n=n, k=k, a=t, b=t, out=t, order_b="col"))
    for t, n, k in (
        ("f16", 6144, 4096),  # query, key and value of an 8B model
        ("f16", 28672, 4096),  # gate and up
        ("f16", 4096, 14336),  # down
        ("bf16", 10240, 8192),  # query, key and value of a 70B model
        ("bf16", 8192, 28672),  # its down
    )
]
_DECODE = [
    ("decode", Matmul(m=m, n=n, k=k, order_b="col"))
    for m, n, k in ((16, 6144, 4096), (1, 4096, 4096), (64, 28672, 4096), (8, 4096, 14336), (32, 8192, 8192))
]
_BATCHED = [
    ("batched", Matmul(m=m, n=n, k=k, batch=batch, order_b=order))
    for batch, m, n, k, order in (
        (64, 1024, 1024, 128, "col"),
        (64, 1024, 128, 1024, "row"),
        (256, 256, 256, 256, "row"),
    )
]
_ODD = [("odd", Matmul(m=m, n=n, k=k)) for m, n, k in ((1023, 1025, 1027), (4095, 4097, 4099), (333, 7777, 2047))]
_ORDERS = [("orders", Matmul(m=2048, n=2048, k=2048, order_a=a, order_b=b)) for a, b in
           (("row", "col"), ("col", "row"), ("col", "col"))]  # fmt: skip
_TYPES = [
    ("types", Matmul(m=4096, n=4096, k=4096, a="bf16", b="bf16", out="bf16")),
    ("types", Matmul(m=2048, n=2048, k=2048, a="f32", b="f32", out="f32")),
]

_ROW_LENGTHS = (8192, 1024, 65536)
_OTHERS: dict[str, tuple[Problem, ...]] = {
    "matvec": (Matvec(m=4, n=6656, k=16384), Matvec(m=1, n=4096, k=4096, x="bf16", out="bf16")),
    "softmax": tuple(Softmax(4096, columns) for columns in _ROW_LENGTHS),
    "rmsnorm": tuple(RmsNorm(4096, columns) for columns in _ROW_LENGTHS),
    "reduce": tuple(Reduce(4096, columns) for columns in _ROW_LENGTHS),
    "transpose": (Transpose(8192, 8192, dtype="u16"), Transpose(8192, 8192)),
}
_SIZES = {"m": 4, "n": 6656, "k": 16384, "rows": 8192, "cols": 8192, "columns": 8192}  # of operators not named here


def matmuls() -> tuple[tuple[str, Problem], ...]:
    """(purpose, problem), the purposes taken in turns, so that a short run sees all of them."""
    return in_turns((_SQUARE, _PROJECTION, _DECODE, _BATCHED, _ODD, _ORDERS, _TYPES))


def others() -> tuple[tuple[str, Problem | str], ...]:
    """(operator, problem) for the operators but matmul, taken in turns, or why an operator has none."""
    groups: list[list[tuple[str, Problem | str]]] = [[(name, p) for p in shapes] for name, shapes in _OTHERS.items()]
    groups += [[(row.name, _typical(row))] for row in operators() if row.name not in (*_OTHERS, "matmul")]
    return in_turns(groups)


def in_turns(groups: Iterable[Iterable[T]]) -> tuple[T, ...]:
    """The first of each group, then the second of each, and so on."""
    rounds = itertools.zip_longest(*groups)
    return tuple(entry for together in rounds for entry in together if entry is not None)


def _typical(row: Operator) -> Problem | str:
    sizes = {}
    for option in row.options:
        if option.default is None:
            if option.name not in _SIZES:
                return f"no size is known for its option {option.name}"
            sizes[option.field] = _SIZES[option.name]
    try:
        return row.make(**sizes)
    except ValueError as error:
        return str(error)
