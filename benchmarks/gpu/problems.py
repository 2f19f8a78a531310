"""Problems of the GPU benchmark.

Matmul shapes are grouped by purpose. The most informative shapes of each group come first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TypeVar

from autosched.programs.loading import register_at
from search_spaces.catalogue import operator, operators
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.operator import Operator
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Reduce, RmsNorm, Softmax
from search_spaces.operators.transpose import Transpose
from search_spaces.programs.program_template import ProgramTemplate

T = TypeVar("T")

# A language model stores the weights of a layer as (outputs, inputs), so b is column-major. Sizes are from the models'
# published configurations.
_SQUARE = [("square", Matmul(m=s, n=s, k=s, a="bf16")) for s in (4096, 8192, 2048, 1024, 16384, 512, 6144, 3072)]
_WEIGHTS = (
    (6144, 4096),  # (n, k) of Llama 3.1 8B: query, key and value projections
    (28672, 4096),  # gate and up projections
    (4096, 14336),  # down projection
    (4096, 4096),  # output projection of attention
    (10240, 8192),  # Llama 3.1 70B: query, key and value projections
    (8192, 28672),  # down projection
    (57344, 8192),  # gate and up projections
    (10240, 5120),  # Qwen3 32B: query, key and value projections
    (5120, 8192),  # output projection of attention
    (51200, 5120),  # gate and up projections
    (5120, 25600),  # down projection
    (2112, 7168),  # DeepSeek V3: compressed queries, keys and values
    (24576, 1536),  # query projection
    (7168, 16384),  # output projection of attention
    (4096, 7168),  # gate and up projections of an expert
    (7168, 2048),  # down projection of an expert
)
_PROJECTION = [("projection", Matmul(m=4096, n=n, k=k, a="bf16", order_b="col")) for n, k in _WEIGHTS]
_DECODE = [
    ("decode", Matmul(m=m, n=n, k=k, a="bf16", order_b="col"))
    for m, n, k in (
        *((16, 6144, 4096), (1, 4096, 4096), (64, 28672, 4096), (8, 4096, 14336), (32, 8192, 8192), (4, 57344, 8192)),
        *((16, 2112, 7168), (128, 7168, 16384), (64, 5120, 25600), (16, 10240, 5120), (2, 8192, 28672)),
        (16, 128256, 4096),  # the vocabulary of Llama 3.1
    )
]
_BATCHED = [
    ("batched", Matmul(m=m, n=n, k=k, batch=batch, order_b=order))
    for batch, m, n, k, order in (
        (64, 1024, 1024, 128, "col"),
        (64, 1024, 128, 1024, "row"),
        (256, 256, 256, 256, "row"),
        (128, 64, 512, 128, "col"),
    )
]
_SKINNY = [
    ("skinny", Matmul(m=m, n=n, k=k, a="bf16", order_b=order))
    for m, n, k, order in (
        (4096, 256, 7168, "col"),  # the router of 256 experts
        (16384, 128, 8192, "row"),
        (512, 512, 32768, "row"),
        (256, 65536, 512, "col"),
    )
]
_ODD = [
    ("odd", Matmul(m=m, n=n, k=k))
    for m, n, k in ((1023, 1025, 1027), (4095, 4097, 4099), (333, 7777, 2047), (1000, 1000, 1000))
]
_ORDERS = [("orders", Matmul(m=2048, n=2048, k=2048, order_a=a, order_b=b)) for a, b in
           (("row", "col"), ("col", "row"), ("col", "col"))]  # fmt: skip
_TYPES = [
    ("types", Matmul(m=4096, n=4096, k=4096)),
    ("types", Matmul(m=4096, n=4096, k=7168, a="e4m3", order_b="col")),
    ("types", Matmul(m=2048, n=2048, k=2048, a="f32")),
    ("types", Matmul(m=4096, n=7168, k=2048, a="e4m3", order_b="col")),
    ("types", Matmul(m=4096, n=24576, k=1536, a="e4m3", order_b="col")),
    ("types", Matmul(m=64, n=7168, k=16384, a="e4m3", order_b="col")),
    ("types", Matmul(m=8192, n=8192, k=8192, a="e4m3", order_b="col")),
    ("types", Matmul(m=4096, n=4096, k=4096, a="i8", order_b="col")),
    ("types", Matmul(m=4096, n=4096, k=4096, epilogue="bias+gelu")),
]

# Problems measured with random schedules. They are large enough to expose a race among the blocks and warps of a full
# GPU.
SAMPLED: tuple[Problem, ...] = (
    Matmul(m=4096, n=4096, k=4096, a="bf16"),
    Matmul(m=2048, n=2048, k=2048, order_a="col", order_b="col"),
    Matmul(m=333, n=7777, k=2047),
    Matmul(m=2048, n=7168, k=2048, a="e4m3", order_b="col"),
    Matmul(m=2048, n=2048, k=2048, a="f32"),
    Matmul(m=64, n=2112, k=7168, a="bf16", order_b="col"),
    Matvec(m=4, n=6656, k=4096),
    Softmax(1000, 8192),
    RmsNorm(1000, 16384, dtype="bf16", out="bf16"),
    Reduce(8192, 4096, axis="column"),
    Transpose(8192, 4097, dtype="u16"),
)

_ROW_LENGTHS = (8192, 1024, 65536)
_SHAPES: dict[str, tuple[Problem, ...]] = {
    "matvec": (Matvec(m=4, n=6656, k=16384), Matvec(m=1, n=4096, k=4096, x="bf16", out="bf16")),
    "softmax": tuple(Softmax(4096, columns) for columns in _ROW_LENGTHS),
    "rmsnorm": tuple(RmsNorm(4096, columns) for columns in _ROW_LENGTHS),
    "reduce": tuple(Reduce(4096, columns) for columns in _ROW_LENGTHS),
    "transpose": (Transpose(8192, 8192, dtype="u16"), Transpose(8192, 8192)),
}
# sizes of operators that are not listed above
_SIZES = {"m": 4, "n": 6656, "k": 16384, "rows": 8192, "cols": 8192, "columns": 8192}


def matmuls() -> tuple[tuple[str, Problem], ...]:
    """Return (purpose, problem) pairs, alternating between purposes, so that even a short run covers all purposes."""
    return in_turns((_SQUARE, _PROJECTION, _DECODE, _BATCHED, _ODD, _ORDERS, _TYPES, _SKINNY))


def other_problems() -> tuple[tuple[str, Problem | str], ...]:
    """Return (operator, problem) pairs of all operators except matmul, alternating between operators.

    If no sizes are known for an operator, its pair has the reason instead of a problem.
    """
    groups: list[list[tuple[str, Problem | str]]] = [[(name, p) for p in shapes] for name, shapes in _SHAPES.items()]
    groups += [[(row.name, _typical(row))] for row in operators() if row.name not in (*_SHAPES, "matmul")]
    return in_turns(groups)


def in_turns(groups: Iterable[Iterable[T]]) -> tuple[T, ...]:
    """Return the first item of each group, then the second item of each group, and so on."""
    rounds = itertools.zip_longest(*groups)
    return tuple(entry for together in rounds for entry in together if entry is not None)


def _typical(row: Operator) -> Problem | str:
    sizes = {}
    for option in row.options:
        if option.default is None:
            if option.name not in _SIZES:
                return f"no size is known for the option {option.name}"
            sizes[option.field] = _SIZES[option.name]
    try:
        return row.make(**sizes)
    except ValueError as error:
        return str(error)


def of_program(program_path: str, sizes: Sequence[str]) -> tuple[str, Problem]:
    """Return the name and the problem of a tile program, and register it.

    If the program is a template of an operator, return a problem of that operator.

    Raises:
        ValueError: The program or its sizes are invalid.
    """
    program = register_at(program_path)
    known = operator(program.operator if isinstance(program, ProgramTemplate) else program.name)
    numbers: dict[str, int] = {}
    for text in sizes:
        name, _, number = text.partition("=")
        if not number.isdecimal() or name not in (option.name for option in known.options):
            raise ValueError(f"invalid --size {text}: use NAME=N with a size of {program_path}")
        numbers[name] = int(number)
    missing = [o.name for o in known.options if o.default is None and o.name not in numbers]
    if missing:
        raise ValueError(f"{program_path} needs {' and '.join(f'--size {name}=N' for name in missing)}")
    return program.name, known.make(**{o.field: numbers[o.name] for o in known.options if o.name in numbers})
