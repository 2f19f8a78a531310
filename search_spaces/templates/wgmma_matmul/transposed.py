"""The kernel template of matmuls by wgmma with sides exchanged: out^T = b^T @ a^T.

It is for two kinds of problems. If a has few rows, most of wgmma's 64 rows would be empty, but it can multiply as few
as 8 columns. And tf32 with b stored by rows needs b as the first operand, the only one that can be read from registers.
All functions are those of ``wgmma_matmul`` for the problem with sides exchanged: its m is n here, its a is b^T.
"""

from __future__ import annotations

from search_spaces.hardware.devices import Device
from search_spaces.operators.matmul import Matmul
from search_spaces.templates.common.exchanged_sides import with_sides_exchanged
from search_spaces.templates.wgmma_matmul import lowering
from search_spaces.templates.wgmma_matmul.problem import supports as straight_supports
from search_spaces.templates.wgmma_matmul.space import space as straight_space
from search_spaces.templates.wgmma_matmul.template import WGMMA_MATMUL

MOST_ROWS = 64  # rows of a; with more, wgmma_matmul's 64 rows are full without exchanging sides


def supports(problem: Matmul, device: Device) -> str | None:
    """Return the reason why this kernel cannot compute ``problem`` on ``device``; None if it can."""
    reason = straight_supports(problem, device, through_registers="b")
    if reason is None and problem.scale == "block":
        return "block scales are not supported with sides exchanged: use wgmma_matmul"
    if reason is None and problem.m > MOST_ROWS and straight_supports(problem, device) is None:
        return f"with sides exchanged wgmma computes at most {MOST_ROWS} rows, not {problem.m}: use wgmma_matmul"
    return reason


WGMMA_MATMUL_TRANSPOSED = with_sides_exchanged(
    WGMMA_MATMUL,
    name="wgmma_matmul_transposed",
    summary="few rows: out^T = b^T @ a^T by wgmma, with m and n, and a and b, exchanged (Hopper)",
    supports=supports,
    space=straight_space,
    lower_sides=lowering.lower_sides,
    box=lowering.box,
)
