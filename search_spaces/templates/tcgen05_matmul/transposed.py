"""Kernel template that uses tcgen05 for matmuls with few rows: out^T = b^T @ a^T.

The template applies the functions of ``tcgen05_matmul`` to the problem with exchanged sides. In the kernel, m is the n
of the original problem, and a is b^T.
"""

from __future__ import annotations

from search_spaces.hardware.devices import Device
from search_spaces.operators.matmul import Matmul
from search_spaces.templates.common.exchanged_sides import with_sides_exchanged
from search_spaces.templates.tcgen05_matmul import lowering
from search_spaces.templates.tcgen05_matmul.problem import supports as straight_supports
from search_spaces.templates.tcgen05_matmul.space import space as straight_space
from search_spaces.templates.tcgen05_matmul.template import TCGEN05_MATMUL

# largest number of rows of operand a; with more rows, a fills the 128 rows of tcgen05 without an exchange of operands
MOST_ROWS = 128


def supports(problem: Matmul, device: Device) -> str | None:
    """Return the reason why this kernel cannot compute ``problem`` on ``device``; None if it can."""
    if problem.scale == "block":
        return "block scales are not supported if a and b are exchanged: use tcgen05_matmul"
    if problem.blocks:
        return f"block scales of {problem.a} are not supported if a and b are exchanged: use tcgen05_matmul"
    if problem.m > MOST_ROWS:
        return f"with a and b exchanged, tcgen05 computes at most {MOST_ROWS} rows, not {problem.m}: use tcgen05_matmul"
    return straight_supports(problem, device)


TCGEN05_MATMUL_TRANSPOSED = with_sides_exchanged(
    TCGEN05_MATMUL,
    name="tcgen05_matmul_transposed",
    summary="few rows: out^T = b^T @ a^T by tcgen05, exchanging m with n, and a with b (Blackwell)",
    supports=supports,
    space=straight_space,
    lower_sides=lowering.lower_sides,
    box=lowering.box,
)
