"""Generate the kernel of ``autosched/kernels/matmul.cuh`` from a config: layouts, intrinsics and workspaces."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TypeVar

from search_spaces.hardware.costs.data_movement import CopyPlan, Method, Region, copy_plan
from search_spaces.hardware.devices import Device
from search_spaces.hardware.dtypes import F32, U32
from search_spaces.hardware.intrinsics import intrinsic
from search_spaces.hardware.requirements import Access, OperandSide, Refusal
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import Argument
from search_spaces.launches.operand import Operand
from search_spaces.layouts.shared_layout import SharedLayout, parse_layout
from search_spaces.layouts.wg_map import WgMap
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.config import Config
from search_spaces.templates.common.raster import RASTER_ARGUMENT, RASTER_GROUPS, raster_argument
from search_spaces.templates.device_source import DeviceSource, with_header_of
from search_spaces.templates.matmul.decisions import contiguous_extent, row_major, tile_shape

SOURCE = DeviceSource("autosched/kernels/matmul.cuh", "autosched::matmul")
WALK = DeviceSource("autosched/kernels/matmul/walk.cuh", "autosched::matmul_walk")
SIDES: tuple[OperandSide, ...] = ("a", "b")

# Arguments of autosched::matmul.
_CALL = (
    *("a", "b", "scale_a", "scale_b", "bias", "out"),
    *("partials", "counters", "reduced", "parts", "band_counters"),
    RASTER_ARGUMENT,
)
_BLOCK_SCALES = ("block_scale_a", "block_scale_b")

Answer = TypeVar("Answer")


def tile(config: Config) -> tuple[int, int, int]:
    """Return the sizes of a workgroup's tile along m, n and k."""
    m, n, k = config.integers("tile_m", "tile_n", "tile_k")
    return m, n, k


def wg_maps(config: Config) -> tuple[WgMap, WgMap, WgMap]:
    """Return the wg_maps of the tiles of a, b and out; the maps of the operands follow from the map of out."""
    return _wg_maps(*config.integers("subgroups_m", "subgroups_n", "sg_data_m", "sg_data_n", "tile_k"))


@lru_cache(maxsize=4096)
def _wg_maps(layout_m: int, layout_n: int, data_m: int, data_n: int, tile_k: int) -> tuple[WgMap, WgMap, WgMap]:
    out = WgMap((layout_m, layout_n), (data_m, data_n))
    return (*out.mma_operands(tile_k), out)


def layout(config: Config, side: OperandSide) -> SharedLayout:
    """Return the layout of an operand's tile in shared memory."""
    return _accepted(parse_layout(config.text(f"layout_{side}"), *tile_shape(side, *tile(config))))


def access(problem: Matmul, config: Config, side: OperandSide) -> Access:
    """Return the operand access by which the intrinsic reads an operand's tile."""
    row = intrinsic(config.text("intrinsic"))
    return _accepted(row.requirement(side, layout(config, side), problem.input_dtype.bytes))


def copy(problem: Matmul, config: Config, side: OperandSide) -> CopyPlan:
    """Return the plan of the copy of an operand's tile to shared memory."""
    threads, vector, columns = config.integers("threads", f"vector_{side}", f"copy_columns_{side}")
    method: Method = "cp.async" if config[f"copy_{side}"] == "cp.async" else "ld.global"
    region = Region(
        tile_shape(side, *tile(config)),
        "cols" if row_major(problem, side) else "rows",
        alignment=contiguous_extent(problem, side),
        element_bytes=problem.input_dtype.bytes,
    )
    return _accepted(copy_plan(region, layout(config, side), threads, vector, columns, method))


def _accepted(answer: Answer | Refusal | str) -> Answer:
    """Return ``answer``. Raises ValueError for a refusal, which cannot occur for schedules that satisfy the rules."""
    if isinstance(answer, Refusal | str):
        raise ValueError(answer.reason if isinstance(answer, Refusal) else answer)
    return answer


def reduction_parts(problem: Matmul, config: Config) -> tuple[int, int]:
    """Return how many tiles share results of a reduction, and how many groups they form; (1, 0) without reduction."""
    tiles_m, tiles_n = config.integers("tiles_m", "tiles_n")
    if problem.reduced_axis is None:
        return 1, 0
    return (tiles_n, tiles_m) if problem.reduced_axis == -1 else (tiles_m, tiles_n)


def exchanged_sums(config: Config, threads: int) -> tuple[Operand, ...]:
    """Return the workspaces of split-K or stream-K.

    With split-K: partial sums in the order of the accumulators of the ``threads`` that multiply, and one arrival
    counter per tile of out. With stream-K: for each pair of neighbouring blocks, which share a tile, the sums of one
    block, and two counters for tickets and stored sums.
    """
    split_k, blocks, accumulators = config.integers("split_k", "blocks", "accumulators")
    if config.integer("stream_k"):
        neighbours = config.integer("launched_blocks") - 1
        return (
            Operand("partials", "workspace", F32, (neighbours, accumulators, threads)),
            Operand("counters", "workspace", U32, (neighbours, 2), zeroed=True),
        )
    if split_k == 1:
        return ()
    return (
        Operand("partials", "workspace", F32, (blocks // split_k, split_k, accumulators, threads)),
        Operand("counters", "workspace", U32, (blocks // split_k,), zeroed=True),
    )


def workspaces(problem: Matmul, config: Config) -> tuple[Operand, ...]:
    """Return the workspaces through which blocks exchange sums.

    A reduction across tiles also needs workspaces for its partial results, and for one arrival counter per band of
    tiles that share results.
    """
    exchanged = exchanged_sums(config, config.integer("threads"))
    across, bands = reduction_parts(problem, config)
    if across > 1:
        results = problem.m if problem.reduced_axis == -1 else problem.n
        exchanged += (
            Operand("parts", "workspace", F32, (problem.batch, across, results)),
            Operand("band_counters", "workspace", U32, (problem.batch * bands,), zeroed=True),
        )
    return exchanged


def _window(problem: Matmul, config: Config) -> int:
    """Return the number of consecutive tiles that cover whole rows (or columns) of a reduction.

    Without a reduction, return 1.
    """
    if problem.reduced_axis is None:
        return 1
    tiles_m, tiles_n = config.integers("tiles_m", "tiles_n")
    matrices = problem.batch if config["batch_mapping"] == "inner" else 1
    group = RASTER_GROUPS.get(config.text("raster"), tiles_m)
    if problem.reduced_axis == -1:
        rows = tiles_m if config.text("raster") == "column" else min(group, tiles_m)
        return rows * tiles_n * matrices
    return tiles_m * matrices * (1 if config.text("raster") == "column" else tiles_n)


def lower(problem: Matmul, config: Config, device: Device) -> GeneratedKernel:
    """Return the kernel of a valid config."""
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
    types = {
        "T": element,
        "Out": problem.out_dtype.c_name,
        "Intrinsic": row.c_name(element, element),
    }
    for side in SIDES:
        types[f"Layout{side.upper()}"] = layout(config, side).c_name
        read = access(problem, config, side)
        constants |= {
            f"copy_store_{side}": copy(problem, config, side).store,
            f"access_{side}": read.mode,
            f"access_vector_{side}": read.vector,
            f"leading_dimension_{side}": read.leading_dimension or 0,
        }
    arguments: tuple[Argument, ...] = (
        *problem.operands(),
        *workspaces(problem, config),
        raster_argument(config.text("raster")),
    )
    names = {argument.name for argument in arguments}
    inner = config["batch_mapping"] == "inner"
    kernel = SOURCE.kernel(
        config,
        constants=constants,
        types=types,
        arguments=arguments,
        call=tuple(
            name if name in names else "nullptr" for name in (*_CALL, *(_BLOCK_SCALES if problem.blocks else ()))
        ),
        blocks=config.integer("launched_blocks"),
        at_launch=("raster",),
        cooperating=(
            config.integer("split_k"),
            math.prod(config.integers("tiles_m", "tiles_n")) * (problem.batch if inner else 1),
        ),
        chained=config.integer("stream_k") > 0,
        window=_window(problem, config),
        includes=(row.header,) if row.header else (),
    )
    return with_header_of(kernel, row)
