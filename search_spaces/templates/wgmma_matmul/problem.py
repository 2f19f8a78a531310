"""Problems that the wgmma kernel computes, and the layout of their operands."""

from __future__ import annotations

from search_spaces.hardware.devices import Device
from search_spaces.hardware.requirements import OperandSide
from search_spaces.hardware.tensor_intrinsic import TensorIntrinsic
from search_spaces.hardware.wgmma import TRANSPOSED_BYTES, wgmma_row
from search_spaces.operators.matmul import Matmul
from search_spaces.templates.common.boxes import SIDES, along_k
from search_spaces.templates.common.tiling import Tiling

# Bytes per register of A, which holds consecutive elements along k, whatever the layout in shared memory.
REGISTER_BYTES = 4


def row_of(problem: Matmul, n: int) -> TensorIntrinsic:
    """Return the instruction with n columns for the products of ``problem``. Raises ValueError for an invalid n."""
    return wgmma_row(problem.multiplied_as, n, f16_sums=problem.acc == "f16")


def supports(problem: Matmul, device: Device, *, through_registers: OperandSide = "a") -> str | None:
    """Return the reason why the wgmma kernel cannot compute ``problem`` on ``device``; None if it can.

    4-byte elements of the operand ``through_registers`` may be stored in either order.
    """
    if problem.blocks:
        return f"wgmma has no block scales, which {problem.a} needs"
    if problem.a == "f32" and problem.precision == "ieee":
        return "wgmma multiplies f32 as tf32, but the problem requires ieee precision"
    reason = row_of(problem, 256).why_not(device)
    if reason is not None:
        return reason
    element_bytes = problem.input_dtype.bytes
    for side in SIDES:
        if side == through_registers and element_bytes == REGISTER_BYTES:
            continue
        if not along_k(problem, side) and element_bytes != TRANSPOSED_BYTES:
            order = "row" if side == "a" else "col"
            return f"wgmma reads {problem.multiplied_as} along k only: store {side} with order_{side} = {order}"
    if problem.reduction != "none":
        return f"the wgmma kernel has no second output, which {problem.reduction} needs"
    return None


def tiling(problem: Matmul) -> Tiling:
    """Return the tiling of a matmul."""
    return Tiling((problem.m, problem.n, problem.k), ("tile_m", "tile_n", "tile_k"), problem.batch)
