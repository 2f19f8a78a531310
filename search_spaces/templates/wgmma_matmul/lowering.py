"""Generate the kernel of ``autosched/kernels/wgmma_matmul.cuh``, with tensor maps and workspaces, from a config."""

from __future__ import annotations

import math
from typing import Literal

from search_spaces.hardware.devices import Device
from search_spaces.hardware.dtypes import F32, U32
from search_spaces.hardware.requirements import OperandSide
from search_spaces.hardware.wgmma import ROWS, WARPGROUP, line_bytes
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import Argument
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import MOST_BOX, TensorMap
from search_spaces.layouts.shared_layout import SharedLayout
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.config import Config
from search_spaces.templates.common.boxes import SIDES, along_k, box_of
from search_spaces.templates.common.launch_decisions import (
    ARGUMENT_NAMES,
    AT_LAUNCH,
    launch_arguments,
    launch_constants,
)
from search_spaces.templates.device_source import DeviceSource
from search_spaces.templates.wgmma_matmul.fragments import HEADER, REGISTERS
from search_spaces.templates.wgmma_matmul.movement import access
from search_spaces.templates.wgmma_matmul.problem import row_of

SOURCE = DeviceSource("autosched/kernels/wgmma_matmul.cuh", "autosched::wgmma_matmul")
WALK = DeviceSource("autosched/kernels/wgmma_matmul/walk.cuh", "autosched::wgmma_matmul_walk")

_SWIZZLE_NAMES: dict[int, Literal["NONE", "32B", "64B", "128B"]] = {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}
_SUMS = {"f32": "float", "i32": "int", "f16": "autosched::f16x2"}
# Arguments of autosched::wgmma_matmul after a and b.
_CALL = ("scale_a", "scale_b", "bias", "out", "&out_map", "partials", "counters", *ARGUMENT_NAMES)


def box(problem: Matmul, config: Config, side: OperandSide) -> SharedLayout:
    """Return the layout of one box of an operand's tile in shared memory."""
    extent = config.integer("tile_m" if side == "a" else "tile_n")
    layout = box_of(problem, side, extent, config.integer("tile_k"), config.integer(f"swizzle_{side}"))
    if isinstance(layout, str):
        raise ValueError(layout)
    return layout


def tensor_map(problem: Matmul, config: Config, side: OperandSide, operand: Operand) -> TensorMap:
    """Return the tensor map with which TMA copies an operand.

    A box is part of one matrix, and its lines are as wide as the swizzle. If the blocks of a cluster multicast, a box
    is the part of the tile that one block copies. If this box has too many lines for TMA, it is halved.

    Args:
        problem: Provides the storage orders.
        config: Provides tiles, swizzles and clusters.
        side: Operand of the product.
        operand: The array.
    """
    swizzle = config.integer(f"swizzle_{side}")
    width = line_bytes(swizzle) // operand.dtype.bytes
    extent = config.integer("tile_m" if side == "a" else "tile_n")
    lines = extent if along_k(problem, side) else config.integer("tile_k")
    share = config.integer("cluster_n" if side == "a" else "cluster_m")
    copied = lines // share
    if copied > MOST_BOX:
        copied //= 2
    promotions: dict[int, Literal["L2_128B", "L2_256B"]] = {128: "L2_128B", 256: "L2_256B"}
    return TensorMap.dense(
        f"{operand.name}_map",
        operand,
        (1, copied, width),
        swizzle=_SWIZZLE_NAMES[swizzle],
        l2_promotion=promotions[config.integer("l2_promotion")],
    )


def out_map(config: Config, out: Operand) -> TensorMap:
    """Return the TMA store of out: boxes of the rows of one wgmma."""
    line = config.integer("store_line")
    swizzle = _SWIZZLE_NAMES[0 if line == line_bytes(0) else line]
    return TensorMap.dense("out_map", out, (1, ROWS, line // out.dtype.bytes), swizzle=swizzle)


def workspaces(config: Config) -> tuple[Operand, ...]:
    """Return the workspaces of split-K or stream-K.

    With split-K, these are partial sums in the order of the accumulators, and one arrival counter per tile of out. With
    stream-K, each pair of neighbouring blocks that share a tile has workspaces: the sums of one of the two blocks, and
    two counters (tickets and stored sums) for each warpgroup of that block.
    """
    split_k, blocks, accumulators, consumers = config.integers(
        "split_k", "blocks", "accumulators", "consumer_warpgroups"
    )
    if config.integer("stream_k"):
        cluster = config.integer("cluster_m") * config.integer("cluster_n")
        groups = (config.integer("launched_blocks") - cluster) * (1 if config.integer("ping_pong") else consumers)
        return (
            Operand("partials", "workspace", F32, (groups, accumulators, WARPGROUP)),
            Operand("counters", "workspace", U32, (groups, 2), zeroed=True),
        )
    if split_k == 1:
        return ()
    return (
        Operand("partials", "workspace", F32, (blocks // split_k, split_k, accumulators, WARPGROUP * consumers)),
        Operand("counters", "workspace", U32, (blocks // split_k,), zeroed=True),
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
    *read, out = rest
    accesses = {side: access(problem, config, side) for side in SIDES}
    sources = [
        operand if accesses[side] else tensor_map(problem, config, side, operand)
        for side, operand in zip(SIDES, (a, b), strict=True)
    ]
    arguments: tuple[Argument, ...] = (
        *sorted(sources, key=lambda source: source.name),
        *read,
        out_map(config, out) if config.integer("store_buffers") else out,
        *workspaces(config),
        *launch_arguments(config),
    )
    names = {argument.name for argument in arguments}
    row = row_of(problem, config.integer("tile_n"))
    tiles = math.prod(config.integers("tiles_m", "tiles_n"))
    cluster = math.prod(config.integers("cluster_m", "cluster_n"))
    stream_k = config.integer("stream_k") > 0
    return SOURCE.kernel(
        config,
        constants={
            name: getattr(problem, name)
            for name in ("m", "n", "k", "batch", "order_a", "order_b", "scale", "has_bias", "activation")
        }
        | {"transposed": transposed}
        | {f"access_{side}": bytes_ for side, bytes_ in accesses.items()}
        | launch_constants(config, stream_k=stream_k),
        types={"T": problem.input_dtype.c_name, "Sum": _SUMS[problem.acc], "Out": problem.out_dtype.c_name},
        arguments=arguments,
        call=(
            *(source.name for source in sources),
            *(name if name.removeprefix("&") in names else "nullptr" for name in _CALL),
        ),
        blocks=config.integer("launched_blocks"),
        at_launch=AT_LAUNCH,
        cluster=(cluster, 1, 1),
        cooperating=(cluster, 1) if stream_k else (config.integer("split_k"), tiles),
        chained=stream_k,
        grid_may_shrink=config.integer("tiles_per_block") > 1 and not stream_k,
        includes=tuple(
            header for header in (row.header, HEADER if config.text("a_operand_source") == REGISTERS else "") if header
        ),
    )
