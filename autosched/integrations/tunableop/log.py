"""Read the GEMMs in a CSV file of PyTorch's TunableOp.

``PYTORCH_TUNABLEOP_ENABLED=1 PYTORCH_TUNABLEOP_TUNING=0 PYTORCH_TUNABLEOP_RECORD_UNTUNED=1`` writes
``tunableop_untuned0.csv``, with a line such as ``GemmTunableOp_Half_TN,tn_768_1024_512_ld_512_512_768`` for each GEMM.
Its matrices are column-major, as in BLAS: C (m, n) = op(A) op(B). autosched computes the transposed product, which is
row-major, with n rows, m columns, and B as the first factor.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

from autosched.dispatch.call_log import text_of
from autosched.suites.logged_calls import CallReader, ProblemCounts
from search_spaces.operators.matmul import Matmul

_TYPES = {"Half": "f16", "BFloat16": "bf16", "float": "f32", "tf32": "f32"}
_OPERATION = re.compile(r"(Gemm|GemmAndBias|GemmStridedBatched|ScaledGemm)TunableOp_(\w+?)_([NT][NT])")
_SIZES = re.compile(r"([nt])([nt])_(\d+)_(\d+)_(\d+)(?:_B_(\d+))?_ld_(\d+)_(\d+)_(\d+)")


class _LogReader:
    def reads(self, path: Path, first_line: str) -> bool:
        return first_line.startswith("Validator,") or _OPERATION.match(first_line) is not None

    def problems(self, path: Path, rows: Sequence[int]) -> ProblemCounts:
        counts = ProblemCounts()
        for line in text_of(path).splitlines():
            try:
                gemm = problem(line)
            except ValueError as error:
                counts.skipped[str(error)] += 1
                continue
            if gemm is not None:
                counts.add(gemm, seconds=_seconds(line))
        return counts


READER: CallReader = _LogReader()


def _seconds(line: str) -> float | None:
    """Return the mean time of a tuned GEMM in seconds, from the milliseconds at the end of its line; else None."""
    columns = line.strip().split(",")
    try:
        milliseconds = float(columns[3])
    except (IndexError, ValueError):
        return None
    return milliseconds / 1e3 if 0 < milliseconds < math.inf else None


def problem(line: str) -> Matmul | None:
    """Return the problem in a line of the log; None for a line without a GEMM, such as the line of a validator.

    Raises ValueError for a GEMM that no kernel computes. The message is one line.
    """
    name, _, rest = line.strip().partition(",")
    operation = _OPERATION.fullmatch(name)
    if operation is None:
        return None
    kind, type_name, _ = operation.groups()
    sizes = _SIZES.match(rest)
    if kind == "ScaledGemm" or sizes is None:
        raise ValueError(f"{kind} is not supported: only plain, biased and batched GEMMs are supported")
    if type_name not in _TYPES:
        raise ValueError(f"GEMMs of {type_name} are not supported: the supported types are {', '.join(_TYPES)}")
    order_a, order_b = sizes[1], sizes[2]
    m, n, k, lda, ldb, ldc = (int(sizes[i]) for i in (3, 4, 5, 7, 8, 9))
    if (lda, ldb, ldc) != (m if order_a == "n" else k, k if order_b == "n" else n, m):
        raise ValueError("GEMMs of matrices that are not dense are not supported")
    return Matmul(
        m=n,
        n=m,
        k=k,
        batch=int(sizes[6] or 1),
        a=_TYPES[type_name],
        b=_TYPES[type_name],
        order_a="row" if order_b == "n" else "col",
        order_b="row" if order_a == "n" else "col",
        epilogue="bias" if kind == "GemmAndBias" else "none",
        precision="ieee" if type_name == "float" else "tf32",
    )
