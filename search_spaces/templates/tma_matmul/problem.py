"""Problems that the kernel computes, and the layout of their operands in shared memory."""

from __future__ import annotations

from search_spaces.hardware.architectures import FEATURES
from search_spaces.hardware.devices import Device
from search_spaces.hardware.intrinsics import intrinsics_for
from search_spaces.hardware.tensor_intrinsic import TensorIntrinsic
from search_spaces.hardware.wgmma import TRANSPOSED_BYTES
from search_spaces.operators.matmul import Matmul
from search_spaces.templates.common.boxes import SIDES, STRIDE_BYTES, aligned_bytes, along_k


def rows_of(problem: Matmul, device: Device) -> tuple[TensorIntrinsic, ...]:
    """Return the mma.sync instructions of ``device`` that multiply ``problem``."""
    known = intrinsics_for(problem.a, tf32=problem.precision == "tf32", acc=problem.acc, device=device)
    return tuple(row for row in known if row.unit == "mma" and row.why_not(device) is None)


def supports(problem: Matmul, device: Device) -> str | None:
    """Return the reason why the kernel cannot compute ``problem`` on ``device``; None if it can."""
    if not device.has("tma"):
        return f"TMA needs {FEATURES['tma'].since} or newer, but {device.name} is {device.arch}"
    if problem.scale == "block":
        return "block scales need a separate sum for every 128 products along k: use wgmma_matmul"
    if problem.reduction != "none":
        return f"the kernel has no second output, which {problem.reduction} needs"
    if not rows_of(problem, device):
        return f"no mma.sync of {device.name} multiplies {problem.a} in {problem.precision} precision"
    for side in SIDES:
        if not along_k(problem, side) and problem.input_dtype.bytes != TRANSPOSED_BYTES:
            order = "row" if side == "a" else "col"
            return f"ldmatrix reads {problem.a} along k only: store {side} with order_{side} = {order}"
        if aligned_bytes(problem, side) < STRIDE_BYTES:
            return (
                f"TMA needs a leading dimension that is a multiple of {STRIDE_BYTES} bytes, but that of {side} is not"
            )
    return None
