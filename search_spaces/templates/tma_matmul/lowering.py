"""Generate the kernel of ``autosched/kernels/tma_matmul.cuh``, with boxes and tensor maps, from a config."""

from __future__ import annotations

import math
from typing import Literal

from search_spaces.hardware.devices import Device
from search_spaces.hardware.intrinsics import intrinsic
from search_spaces.hardware.requirements import Access, OperandSide, Refusal
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import Argument
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import TensorMap
from search_spaces.layouts.shared_layout import SharedLayout
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.config import Config
from search_spaces.templates.common.boxes import SIDES, box_of
from search_spaces.templates.common.raster import RASTER_ARGUMENT, raster_argument
from search_spaces.templates.device_source import DeviceSource, with_header_of
from search_spaces.templates.matmul.decisions import tile_shape
from search_spaces.templates.matmul.lowering import exchanged_sums, tile

SOURCE = DeviceSource("autosched/kernels/tma_matmul.cuh", "autosched::tma_matmul")
WALK = DeviceSource("autosched/kernels/tma_matmul/walk.cuh", "autosched::tma_matmul_walk")

# Arguments of autosched::tma_matmul after a and b.
_CALL = ("scale_a", "scale_b", "bias", "out", "partials", "counters", RASTER_ARGUMENT)
_BLOCK_SCALES = ("block_scale_a", "block_scale_b")


def box(problem: Matmul, config: Config, side: OperandSide) -> SharedLayout:
    """Return the layout of one box of an operand's tile in shared memory."""
    extent = config.integer("tile_m" if side == "a" else "tile_n")
    layout = box_of(problem, side, extent, config.integer("tile_k"), config.integer(f"swizzle_{side}"))
    if isinstance(layout, str):
        raise ValueError(layout)
    return layout


def boxes(problem: Matmul, config: Config, side: OperandSide) -> int:
    """Return the number of boxes that an operand has in a stage."""
    whole = config.integer(f"stage_bytes_{side}") // problem.input_dtype.bytes
    return whole // math.prod(box(problem, config, side).shape)


def access(problem: Matmul, config: Config, side: OperandSide) -> Access:
    """Return the operand access by which the intrinsic reads an operand's boxes."""
    row = intrinsic(config.text("intrinsic"))
    answer = row.requirement(side, box(problem, config, side), problem.input_dtype.bytes)
    if isinstance(answer, Refusal):
        raise ValueError(answer.reason)
    return answer


def tensor_map(problem: Matmul, config: Config, side: OperandSide, operand: Operand) -> TensorMap:
    """Return the TMA copy of an operand: one box of one matrix per instruction.

    Args:
        problem: Provides the storage orders.
        config: Provides tiles and swizzles.
        side: Operand of the product.
        operand: The array.
    """
    layout = box(problem, config, side)
    swizzles: dict[int, Literal["32B", "64B", "128B"]] = {32: "32B", 64: "64B", 128: "128B"}
    promotions: dict[int, Literal["L2_128B", "L2_256B"]] = {128: "L2_128B", 256: "L2_256B"}
    return TensorMap.dense(
        f"{operand.name}_map",
        operand,
        (1, layout.lines, layout.line),
        swizzle=swizzles[config.integer(f"swizzle_{side}")],
        l2_promotion=promotions[config.integer("l2_promotion")],
    )


def lower(problem: Matmul, config: Config, device: Device) -> GeneratedKernel:
    """Return the kernel of a valid config."""
    a, b, *rest = problem.operands()
    maps = tuple(tensor_map(problem, config, side, operand) for side, operand in zip(SIDES, (a, b), strict=True))
    constants: dict[str, int | bool | float | str] = {
        "m": problem.m,
        "n": problem.n,
        "k": problem.depth,
        **{
            name: getattr(problem, name)
            for name in ("batch", "order_a", "order_b", "scale", "has_bias", "activation", "reduction")
        },
    }
    if problem.blocks:
        constants |= {"scale_order": problem.scale_order, "scale_blocks": problem.scale_blocks}
    element, row = problem.input_dtype.c_name, intrinsic(config.text("intrinsic"))
    types = {"T": element, "Out": problem.out_dtype.c_name, "Intrinsic": row.c_name(element, element)}
    for side in SIDES:
        types[f"Layout{side.upper()}"] = _boxed(problem, config, side)
        read = access(problem, config, side)
        constants |= {f"access_{side}": read.mode, f"access_vector_{side}": read.vector, f"leading_dimension_{side}": 0}
    arguments: tuple[Argument, ...] = (
        *maps,
        *rest,
        *exchanged_sums(config, config.integer("multiplying_threads")),
        raster_argument(config.text("raster")),
    )
    names = {argument.name for argument in arguments}
    inner = config["batch_mapping"] == "inner"
    kernel = SOURCE.kernel(
        config,
        constants=constants,
        types=types,
        arguments=arguments,
        call=(
            *(tensor_map.name for tensor_map in maps),
            *(name if name in names else "nullptr" for name in (*_CALL, *(_BLOCK_SCALES if problem.blocks else ()))),
        ),
        blocks=config.integer("launched_blocks"),
        at_launch=("raster",),
        cooperating=(
            config.integer("split_k"),
            math.prod(config.integers("tiles_m", "tiles_n")) * (problem.batch if inner else 1),
        ),
        chained=config.integer("stream_k") > 0,
        includes=(row.header,) if row.header else (),
    )
    return with_header_of(kernel, row)


def _boxed(problem: Matmul, config: Config, side: OperandSide) -> str:
    """Return the C++ type of the layout of an operand's tile (autosched/common/shared_layout.cuh)."""
    one = box(problem, config, side)
    (swizzle,) = one.steps
    fields = (*map(str, tile_shape(side, *tile(config))), str(one.transposed).lower(), str(one.line), swizzle.c_name)
    return f"autosched::BoxedLayout<{', '.join(fields)}>"
