"""Cost of PTX operations: the number of machine instructions, by the pipe of an SM that executes these instructions.

Counts of PTX and of SASS instructions differ: moves, address conversions and parameter reads have no machine code, and
a division has a dozen instructions. The numbers are rounded instruction counts of ptxas 13 for single operations. Rates
(results per clock cycle and SM) are from the CUDA C++ Programming Guide, "Throughput of Native Arithmetic
Instructions".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

Pipe = Literal["fma", "imad", "alu", "special", "f64", "tensor", "memory", "constant", "control"]
Costs = tuple[tuple[Pipe, float], ...]
T = TypeVar("T", float, npt.NDArray[np.float64])

# suffix of loads with a constant address ("ld.const.f32+immediate"), which ptxas folds into another instruction
IN_PLACE = "+immediate"

_SPECIAL = ("rcp", "rsqrt", "sin", "cos", "ex2", "lg2", "tanh", "popc", "clz", "bfind", "brev")
_MEMORY = ("ld", "st", "atom", "red", "ldmatrix", "stmatrix", "cp", "shfl", "tex", "surf", "suld", "sust")
_CONTROL = ("bra", "brx", "ret", "exit", "bar", "barrier", "call", "vote", "match", "redux", "fence", "membar")
_TCGEN05: dict[str, Pipe] = {"mma": "tensor", "ld": "memory", "st": "memory", "cp": "memory"}
_HALVES = ("f16", "f16x2", "bf16", "bf16x2")
# Results of f64 per cycle and SM, by compute capability; 2 for all others.
_F64_RATES = {80: 32.0, 90: 64.0, 100: 64.0, 103: 64.0}
# Names of tensor rates in device rows: by kind for instructions with scales, otherwise by type.
_KIND_RATES = {"mxf8f6f4": "mxf8", "mxf4": "mxf4", "mxf4nvf4": "nvf4"}
_RATES = {"s8": "i8", "u8": "i8", "s4": "i4", "u4": "i4", "e2m3": "e4m3", "e3m2": "e4m3", "e2m1": "e4m3"}


def f64_rate(sm: int) -> float:
    """Return the f64 results per cycle of an SM with compute capability ``sm``."""
    return _F64_RATES.get(sm, 2.0)


@lru_cache(maxsize=4096)
def costs(operation: str) -> Costs:
    """Return how many instructions a warp issues to each pipe for a PTX operation, such as "fma.rn.f32".

    Returns () if the operation compiles to no machine instruction.
    """
    opcode, *qualifiers = operation.removesuffix(IN_PLACE).split(".")
    kind = qualifiers[-1] if qualifiers else ""
    wide = kind in ("s64", "u64", "b64")
    if opcode in ("mov", "cvta", "nop", "pragma", "isspacep") or "param" in qualifiers or operation.endswith(IN_PLACE):
        return ()
    if opcode == "ld" and "const" in qualifiers:
        return (("constant", 1.0),)
    if opcode in _MEMORY:
        return (("memory", 1.0),)
    if opcode in _CONTROL:
        return (("control", 1.0),)
    if opcode in ("mma", "wmma", "wgmma"):
        return (("tensor", 1.0),)
    if opcode == "tcgen05":
        return ((_TCGEN05.get(qualifiers[0], "control"), 1.0),)
    if opcode == "cvt":
        return _conversion(qualifiers)
    if kind == "f64":
        slow: Costs = (("f64", 9.0), ("special", 1.0), ("alu", 4.0))
        return slow if opcode in ("div", "sqrt", "rcp", "rsqrt") else (("f64", 1.0),)
    if opcode in ("div", "sqrt") and kind == "f32":
        # Correctly rounded results are computed by an approximation, two Newton steps, and a check.
        rounded: Costs = (("fma", 6.0), ("alu", 1.0), ("special", 2.0), ("control", 1.0))
        return rounded if {"rn", "rz", "rm", "rp"} & {*qualifiers} else (("fma", 2.0), ("special", 1.0))
    if opcode in ("div", "rem"):
        return (
            (("alu", 40.0), ("imad", 30.0), ("special", 4.0))
            if wide
            else (("alu", 5.0), ("imad", 5.0), ("special", 3.0))
        )
    if opcode in _SPECIAL:
        return (("special", 1.0), ("fma", 0.5)) if kind == "f32" else (("special", 1.0),)
    if kind == "f32x2":
        return (("fma", 2.0),)
    if opcode in ("mad", "mul", "mul24", "mad24", "madc") and kind not in ("f32", *_HALVES):
        return (("imad", 3.0),) if wide else (("imad", 1.0),)
    if opcode in ("fma", "add", "sub", "mul", "mad") and kind in ("f32", *_HALVES):
        return (("fma", 1.0),)
    if kind == "pred":
        return (("alu", 0.5),)  # 0.5, as ptxas merges some of the logic on predicates into comparisons
    return (("alu", (1.5 if opcode in ("add", "sub") else 2.0) if wide else 1.0),)


@lru_cache(maxsize=4096)
def reaches_shared(operation: str) -> bool:
    """Return True if an operation makes the lanes of a warp access shared memory; False for copy engines."""
    opcode, *qualifiers = operation.split(".")
    shared = opcode in ("ldmatrix", "stmatrix") or any(q.startswith("shared") for q in qualifiers)
    return shared and opcode not in ("cp", "tcgen05") and costs(operation) == (("memory", 1.0),)


def _conversion(qualifiers: Iterable[str]) -> Costs:
    kinds = [q for q in qualifiers if q[:1] in "fsueb" and any(c.isdigit() for c in q)]
    floats = sum(k.startswith(("f", "bf", "e")) for k in kinds)
    if "f64" in kinds:
        return (("f64", 1.0),)
    return (("special", 1.0),) if floats == 1 else (("alu", 1.0),) if floats else (("alu", 0.3),)


@lru_cache(maxsize=1024)
def tensor_flops(operation: str) -> tuple[float, str]:
    """Return the flops per warp of a matrix instruction, and the type that it multiplies.

    For other operations, return (0, "").

    One thread executes a whole tcgen05.mma. The emulator appends shape and type to its qualifiers:
    "tcgen05.mma.cta_group::1.kind::f16.m128n256k16.bf16".
    """
    match = re.search(r"\bm(\d+)n(\d+)k(\d+)\b", operation)
    opcode, *qualifiers = operation.split(".")
    if match is None or opcode not in ("mma", "wgmma", "wmma", "tcgen05") or {"load", "store"} & {*qualifiers}:
        return 0.0, ""
    m, n, k = map(int, match.groups())
    types = [q for q in qualifiers if re.fullmatch(r"(f|bf|tf|s|u|e\dm|b)\d+", q)]
    # ``types`` are the types of d, a, b and possibly c. wmma of f16 only states the types of d and c, and tcgen05 only
    # the type of a.
    multiplied = types[-1] if opcode == "tcgen05" else types[1] if len(types) > 2 else "f16"
    warps = 4 if opcode == "wgmma" else 1
    kind = next((q.removeprefix("kind::") for q in qualifiers if q.startswith("kind::")), "")
    return 2.0 * m * n * k / warps, _KIND_RATES.get(kind) or _RATES.get(multiplied, multiplied)


def by_pipe(executed: Mapping[str, T]) -> dict[Pipe, T]:
    """Return the number of warp instructions by pipe for executed PTX operations.

    Args:
        executed: Number of executions of each operation: a number, or an array over several launches.
    """
    totals: dict[Pipe, T] = {}
    for operation, times in executed.items():
        for pipe, weight in costs(operation):
            totals[pipe] = totals[pipe] + weight * times if pipe in totals else weight * times
    return totals
