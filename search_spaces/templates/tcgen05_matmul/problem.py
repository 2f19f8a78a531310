"""Problems that the tcgen05 kernel computes."""

from __future__ import annotations

from search_spaces.hardware.devices import Device
from search_spaces.hardware.tcgen05 import ROWS, SCALE_LINES, tcgen05_row
from search_spaces.hardware.tensor_intrinsic import TensorIntrinsic
from search_spaces.hardware.wgmma import TRANSPOSED_BYTES
from search_spaces.operators.matmul import Matmul
from search_spaces.templates.common.boxes import SIDES, STRIDE_BYTES, aligned_bytes, along_k
from search_spaces.templates.common.tiling import Tiling


def row_of(problem: Matmul, tile_m: int, tile_n: int) -> TensorIntrinsic:
    """Return the instruction that multiplies a tile. Raises ValueError for sizes without an instruction."""
    return tcgen05_row(problem.multiplied_as, tile_m, tile_n)


def supports(problem: Matmul, device: Device) -> str | None:
    """Return the reason why the tcgen05 kernel cannot compute ``problem`` on ``device``; None if it can."""
    if problem.a == "f32" and problem.precision == "ieee":
        return "tcgen05 multiplies f32 as tf32, but the problem requires ieee precision"
    reason = row_of(problem, ROWS, 256).why_not(device)
    if reason is not None:
        return reason
    if problem.blocks and problem.scale_order != "tiled":
        return "tcgen05 needs block scales in tiles: store them with scale_order = tiled"
    step = row_of(problem, ROWS, 256).numbers
    if problem.blocks and problem.k % step:
        return (
            f"tcgen05 multiplies {step} numbers of {problem.a} along k at a time, which does not divide k = {problem.k}"
        )
    if problem.acc == "f16":
        return "the tcgen05 kernel accumulates in f32, but the problem requires f16"
    if problem.reduction != "none":
        return f"the tcgen05 kernel has no second output, which {problem.reduction} needs"
    for side in SIDES:
        if not along_k(problem, side) and problem.input_dtype.bytes != TRANSPOSED_BYTES:
            order = "row" if side == "a" else "col"
            return f"tcgen05 reads {problem.multiplied_as} along k only: store {side} with order_{side} = {order}"
        aligned = aligned_bytes(problem, side)
        if aligned < STRIDE_BYTES:
            return (
                f"the tcgen05 kernel loads {side} by TMA, which needs lines at a distance that is a multiple of "
                f"{STRIDE_BYTES} bytes, but their distance is only a multiple of {aligned} bytes"
            )
    return None


def scale_words(problem: Matmul, tile_k: int) -> int:
    """Return the number of words, of four block scales each, in a line of a k-tile; 0 without scales."""
    return tile_k // problem.blocks.word_elements if problem.blocks else 0


def scale_tiles(tile_n: int) -> int:
    """Return the number of 128-line tiles of scales per k-tile: one for rows of a, the others for columns of b."""
    return 1 + -(-tile_n // SCALE_LINES)


def tiling(problem: Matmul) -> Tiling:
    """Return the tiling of a matmul."""
    return Tiling((problem.m, problem.n, problem.depth), ("tile_m", "tile_n", "tile_k"), problem.batch)
