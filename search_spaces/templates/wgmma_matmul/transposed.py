"""The kernel template of matmuls by wgmma with sides exchanged: out^T = b^T @ a^T.

This template is for two kinds of problems. In the first kind, a has few rows: most of wgmma's 64 rows would be empty,
but wgmma can multiply as few as 8 columns. In the second kind, the type is tf32 and b is row-major: b must be the first
operand, because only the first operand can be read from registers. The template applies the functions of
``wgmma_matmul`` to the problem with exchanged sides. In the kernel, m is the n of the original problem, and a is b^T.
"""

from __future__ import annotations

from search_spaces.hardware.devices import Device
from search_spaces.operators.matmul import Matmul
from search_spaces.templates.common.exchanged_sides import with_sides_exchanged
from search_spaces.templates.wgmma_matmul import lowering
from search_spaces.templates.wgmma_matmul.problem import supports as straight_supports
from search_spaces.templates.wgmma_matmul.space import space as straight_space
from search_spaces.templates.wgmma_matmul.template import WGMMA_MATMUL

MOST_ROWS = 64  # largest number of rows of a; with more rows, a fills the 64 rows of wgmma without an exchange


def supports(problem: Matmul, device: Device) -> str | None:
    """Return the reason why this kernel cannot compute ``problem`` on ``device``; None if it can."""
    reason = straight_supports(problem, device, through_registers="b")
    if reason is None and problem.scale == "block":
        return "block scales are not supported if a and b are exchanged: use wgmma_matmul"
    if reason is None and problem.m > MOST_ROWS and straight_supports(problem, device) is None:
        return f"with a and b exchanged, wgmma computes at most {MOST_ROWS} rows, not {problem.m}: use wgmma_matmul"
    return reason


WGMMA_MATMUL_TRANSPOSED = with_sides_exchanged(
    WGMMA_MATMUL,
    name="wgmma_matmul_transposed",
    summary="few rows: out^T = b^T @ a^T by wgmma, exchanging m with n, and a with b (Hopper)",
    supports=supports,
    space=straight_space,
    lower_sides=lowering.lower_sides,
    box=lowering.box,
)
