"""Check that the GPU's and the emulator's results agree, and define the problems for this check."""

from __future__ import annotations

from typing import Any

import numpy as np

from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Reduce, RmsNorm, Softmax
from search_spaces.operators.transpose import Transpose

# Problems small enough to emulate, with partial tiles in every dimension.
AGREEMENT_PROBLEMS = (
    Matmul(m=96, n=80, k=72),
    Matmul(m=70, n=131, k=99, a="bf16", b="bf16", out="f32", order_a="col"),
    Matvec(m=3, n=70, k=264),
    Softmax(9, 700),
    RmsNorm(9, 520, dtype="bf16", out="bf16"),
    Reduce(70, 99, axis="column"),
    Transpose(70, 131, dtype="u16"),
)


def agreement(problem: Problem, inputs: Any, ran: Any, emulated: Any) -> dict[str, Any]:
    """Compare the outputs of the GPU and of the emulator with the reference.

    The result has ``agrees``, True if the GPU's and the emulator's outputs are within the tolerance, and the largest
    errors in units of the tolerance.
    """
    reference, tolerance = problem.expected(inputs)
    apart, worst, same = 0.0, 0.0, True
    for operand in problem.operands():
        if operand.role == "output" and operand.name in ran:
            name = operand.name
            one, two = operand.dtype.load(ran[name]), operand.dtype.load(emulated[name])
            same &= bool(np.array_equal(ran[name], emulated[name]))
            apart = max(apart, _most(one - two, tolerance[name]))
            worst = max(
                worst, _most(one - reference[name], tolerance[name]), _most(two - reference[name], tolerance[name])
            )
        elif operand.role == "output":
            return {"agrees": False, "reason": f"the GPU returned no {operand.name}"}
    agrees = worst <= 1.0
    reason = "" if agrees else f"the error is {worst:.3g} times the tolerance"
    return {"agrees": agrees, "same_bits": same, "apart": apart, "worst": worst, "reason": reason}


def _most(error: Any, tolerance: Any) -> float:
    """Return the largest error in units of the tolerance; infinity for a NaN."""
    with np.errstate(divide="ignore"):
        ratio = np.divide(np.abs(error), tolerance, out=np.zeros(np.shape(error)), where=error != 0)
    return float(np.where(np.isnan(ratio), np.inf, ratio).max(initial=0.0))
