"""Generate the kernel of ``autosched/kernels/tcgen05_matmul.cuh``, with its tensor maps, from a config."""

from __future__ import annotations

import math
from typing import Literal

from search_spaces.hardware.devices import Device
from search_spaces.hardware.dtypes import F32, U32
from search_spaces.hardware.fragments import WARP
from search_spaces.hardware.requirements import OperandSide
from search_spaces.hardware.tcgen05 import ROWS, SCALE_BYTES
from search_spaces.hardware.wgmma import line_bytes
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import Argument
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import TensorMap
from search_spaces.layouts.shared_layout import SharedLayout
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.config import Config
from search_spaces.templates.common.boxes import along_k, box_of
from search_spaces.templates.common.launch_decisions import (
    ARGUMENT_NAMES,
    AT_LAUNCH,
    launch_arguments,
    launch_constants,
)
from search_spaces.templates.device_source import DeviceSource
from search_spaces.templates.tcgen05_matmul.problem import row_of, scale_tiles, scale_words

SOURCE = DeviceSource("autosched/kernels/tcgen05_matmul.cuh", "autosched::tcgen05_matmul")
WALK = DeviceSource("autosched/kernels/tcgen05_matmul/walk.cuh", "autosched::tcgen05_matmul_walk")

_SWIZZLE_NAMES: dict[int, Literal["NONE", "32B", "64B", "128B"]] = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}
_PROMOTIONS: dict[int, Literal["L2_128B", "L2_256B"]] = {128: "L2_128B", 256: "L2_256B"}
_SUMS = {"f32": "float", "i32": "int"}
# Arguments of autosched::tcgen05_matmul after the maps of a and b.
_CALL = (
    *("scale_a", "scale_b", "bias", "out", "&out_map", "partials", "counters"),
    *("&block_scale_a_map", "&block_scale_b_map"),
    *ARGUMENT_NAMES,
)


def blocks_of_tile(config: Config) -> int:
    """Return the number of blocks that compute a tile together."""
    return config.integer("tile_m") // ROWS


def box(problem: Matmul, config: Config, side: OperandSide) -> SharedLayout:
    """Return the layout of one box of an operand's tile in the shared memory of a block."""
    extent = ROWS if side == "a" else config.integer("tile_n") // blocks_of_tile(config)
    layout = box_of(problem, side, extent, config.integer("tile_k"), config.integer(f"swizzle_{side}"))
    if isinstance(layout, str):
        raise ValueError(layout)
    return layout


def tensor_map(problem: Matmul, config: Config, side: OperandSide, operand: Operand) -> TensorMap:
    """Return the TMA copy of an operand: its boxes belong to one matrix, and have lines as wide as the swizzle.

    Args:
        problem: Provides the storage orders.
        config: Provides tiles and swizzles.
        side: Operand of the product.
        operand: The array.
    """
    swizzle = config.integer(f"swizzle_{side}")
    extent = ROWS if side == "a" else config.integer("tile_n") // blocks_of_tile(config)
    lines = extent if along_k(problem, side) else config.integer("tile_k")
    return TensorMap.dense(
        f"{operand.name}_map",
        operand,
        (1, lines, line_bytes(swizzle) // operand.dtype.bytes),
        swizzle=_SWIZZLE_NAMES[swizzle],
        l2_promotion=_PROMOTIONS[config.integer("l2_promotion")],
    )


def scales_map(problem: Matmul, config: Config, operand: Operand) -> TensorMap:
    """Return the TMA copy of a k-tile's block scales, for 128 lines of operand a or for all columns of operand b.

    Each copy is half of a tile of scales, whose bytes are contiguous in global and in shared memory.
    """
    batch, tiles, across, *_ = operand.shape
    half, words = SCALE_BYTES // 2, scale_words(problem, config.integer("tile_k"))
    lines = 1 if operand.name == "block_scale_a" else scale_tiles(config.integer("tile_n")) - 1
    sizes, strides = (half, 2 * across, batch * tiles), (half, SCALE_BYTES * across)
    return TensorMap(f"{operand.name}_map", operand, "UINT8", sizes, strides, (half, 2 * words, lines), (1, 1, 1))


def out_map(config: Config, out: Operand) -> TensorMap:
    """Return the tensor map with which TMA stores ``out``, in boxes that span the rows of one warp."""
    line = config.integer("store_line")
    swizzle = _SWIZZLE_NAMES[0 if line == line_bytes(0) else line]
    return TensorMap.dense("out_map", out, (1, WARP, line // out.dtype.bytes), swizzle=swizzle)


def workspaces(config: Config) -> tuple[Operand, ...]:
    """Return the workspaces of split-K or stream-K.

    With split-K, these are the partial sums of each block, column by column, and one arrival counter for each ROWS rows
    of a tile of out. With stream-K, each pair of neighbouring workers that share a tile has the sums of one of the two
    workers, and two counters: one for tickets and one for stored sums.
    """
    split_k, blocks, tile_n = config.integers("split_k", "blocks", "tile_n")
    pair = blocks_of_tile(config)
    if config.integer("stream_k"):
        shared = config.integer("launched_blocks") - pair
        return (
            Operand("partials", "workspace", F32, (shared, tile_n, ROWS)),
            Operand("counters", "workspace", U32, (shared, 2), zeroed=True),
        )
    if split_k == 1:
        return ()
    tiles = blocks // split_k * pair
    return (
        Operand("partials", "workspace", F32, (tiles, split_k, tile_n, ROWS)),
        Operand("counters", "workspace", U32, (tiles,), zeroed=True),
    )


def lower(problem: Matmul, config: Config, device: Device) -> GeneratedKernel:
    """Return the kernel of a valid config."""
    return lower_sides(problem, problem.operands(), config)


def lower_sides(
    problem: Matmul, operands: tuple[Operand, ...], config: Config, *, transposed: bool = False
) -> GeneratedKernel:
    """Return the kernel of a valid config.

    Args:
        problem: The problem to compute.
        operands: Operands of the problem: a, b, scales and bias (if any) and out.
        config: The schedule with all derived values.
        transposed: True if the sides are exchanged, so that out is written transposed.
    """
    a, b, *rest = operands
    scales, (*read, out) = (rest[:2], rest[2:]) if problem.blocks else ([], rest)
    sources = tensor_map(problem, config, "a", a), tensor_map(problem, config, "b", b)
    arguments: tuple[Argument, ...] = (
        *sorted(sources, key=lambda source: source.name),
        *(scales_map(problem, config, operand) for operand in scales),
        *read,
        out_map(config, out) if config.integer("store_buffers") else out,
        *workspaces(config),
        *launch_arguments(config),
    )
    pair, stream_k = blocks_of_tile(config), config.integer("stream_k") > 0
    names = {argument.name for argument in arguments}
    return SOURCE.kernel(
        config,
        constants={
            "m": problem.m,
            "n": problem.n,
            "k": problem.depth,
            **{
                name: getattr(problem, name)
                for name in ("batch", "order_a", "order_b", "scale", "has_bias", "activation", "scale_order")
            },
            "transposed": transposed,
            "scales_of_step": row_of(problem, ROWS, 256).scales_of_row,
            **launch_constants(config, stream_k=stream_k),
        },
        types={"T": problem.input_dtype.c_name, "Sum": _SUMS[problem.acc], "Out": problem.out_dtype.c_name},
        arguments=arguments,
        call=(
            *(source.name for source in sources),
            *(name if name.removeprefix("&") in names else "nullptr" for name in _CALL),
        ),
        blocks=config.integer("launched_blocks"),
        at_launch=AT_LAUNCH,
        cluster=(pair, 1, 1),
        cooperating=(pair, 1)
        if stream_k
        else (config.integer("split_k"), math.prod(config.integers("tiles_m", "tiles_n")) * pair),
        chained=stream_k,
        grid_may_shrink=(
            config.integer("tiles_per_block") > 1 and not stream_k and config.text("tile_scheduler") == "static"
        ),
    )
