"""From a schedule to the constants of ``autosched/kernels/matmul.cuh``, its arguments and its launch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from search_spaces.hardware.bank_conflicts import Traffic, fragment_traffic
from search_spaces.hardware.data_movement import CopyPlan, Method, Region, copy_plan
from search_spaces.hardware.devices import Device
from search_spaces.hardware.dtypes import F32, U32
from search_spaces.hardware.intrinsics import TensorIntrinsic, intrinsic
from search_spaces.hardware.requirements import Access, Refusal
from search_spaces.hardware.requirements import OperandSide as Side
from search_spaces.layouts.shared_layout import SharedLayout, parse_layout
from search_spaces.layouts.wg_map import WgMap
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Operand
from search_spaces.spaces.config import Config
from search_spaces.templates.common.raster import raster_group
from search_spaces.templates.device_source import DeviceSource
from search_spaces.templates.kernel import Kernel
from search_spaces.templates.matmul.space import (
    contiguous_extent,
    row_major,
    tile_shape,
)

SOURCE = DeviceSource("autosched/kernels/matmul.cuh", "autosched::matmul")

_SIDES: tuple[Side, ...] = ("a", "b")
_CALL = ("a", "b", "bias", "out", "partials", "counters", "reduced", "parts", "band_counters")  # of autosched::matmul


@dataclass(frozen=True)
class OperandPlan:
    """One operand of one schedule: where its tile lies, how it is copied there and how it is read; ``loads`` is the
    traffic of reading every fragment of the tile once."""

    name: str
    copy: CopyPlan
    loads: Traffic
    stage_bytes: int
    access: Access

    @property
    def layout(self) -> SharedLayout:
        return self.copy.layout


@dataclass(frozen=True)
class MatmulPlan:
    """What follows from one schedule: the maps, the layouts, the launch. Everything after the space reads this.

    ``store_vector`` is how many neighbours of out a thread stores at a time when they come through shared memory: four
    f32 fill a 16-byte load without bank conflicts; eight, for a 16-byte store of f16, would take two loads of 32 bytes
    stride, two-way conflicts each.
    """

    problem: Matmul
    config: Config
    intrinsic: TensorIntrinsic
    tile: tuple[int, int, int]
    wg_map: WgMap
    a: OperandPlan
    b: OperandPlan
    threads: int
    registers: int
    shared_bytes: int
    accumulators: int
    store_vector: int

    @property
    def tiles(self) -> tuple[int, int, int]:
        """Tiles along m, n and k."""
        p, (m, n, k) = self.problem, self.tile
        return -(-p.m // m), -(-p.n // n), -(-p.k // k)

    @property
    def split_k(self) -> int:
        return self.config.integer("split_k")

    @property
    def stages(self) -> int:
        return self.config.integer("stages")

    @property
    def blocks(self) -> int:
        tiles_m, tiles_n, _ = self.tiles
        return tiles_m * tiles_n * self.split_k * self.problem.batch

    @property
    def reduction_tiles(self) -> tuple[int, int, int]:
        """Tiles that share results of the reduction, bands of such tiles, results; (1, 0, 0) without a reduction."""
        tiles_m, tiles_n, _ = self.tiles
        if self.problem.reduced_axis is None:
            return 1, 0, 0
        return (
            (tiles_n, tiles_m, self.problem.m)
            if self.problem.reduced_axis == -1
            else (tiles_m, tiles_n, self.problem.n)
        )

    @property
    def fragments(self) -> tuple[int, int]:
        """Fragments of out that one subgroup owns along m and n."""
        layout_m, layout_n = self.wg_map.sg_layout
        return self.tile[0] // (layout_m * self.intrinsic.m), self.tile[1] // (layout_n * self.intrinsic.n)


@lru_cache(maxsize=4096)
def plan(problem: Matmul, config: Config) -> MatmulPlan:
    """The plan of a valid config."""
    m, n, k = (config.integer(f"tile_{axis}") for axis in "mnk")
    row = intrinsic(config.text("intrinsic"))
    sg_layout = (config.integer("sg_layout_m"), config.integer("sg_layout_n"))
    wg_map = _verified_map(sg_layout, (config.integer("sg_data_m"), config.integer("sg_data_n")), (m, n))
    a, b = (
        _operand_plan(
            problem,
            name,
            row.name,
            config.text(f"layout_{name}"),
            tile_shape(name, m, n, k),
            config.integer("threads"),
            config.integer(f"vector_{name}"),
            config.integer(f"copy_columns_{name}"),
            "cp.async" if config[f"copy_{name}"] == "cp.async" else "ld.global",
            config.integer(f"stage_bytes_{name}"),
        )
        for name in _SIDES
    )
    return MatmulPlan(
        problem=problem,
        config=config,
        intrinsic=row,
        tile=(m, n, k),
        wg_map=wg_map,
        a=a,
        b=b,
        threads=config.integer("threads"),
        registers=config.integer("registers"),
        shared_bytes=config.integer("shared_bytes"),
        accumulators=config.integer("accumulators"),
        store_vector=_widest(problem.n, 4),
    )


@lru_cache(maxsize=4096)
def _verified_map(sg_layout: tuple[int, int], sg_data: tuple[int, int], shape: tuple[int, int]) -> WgMap:
    """A map of a tile of ``shape``; a search meets the same few again and again. Raises ValueError as WgMap does."""
    wg_map = WgMap(sg_layout, sg_data)
    wg_map.verify(shape)
    return wg_map


def _widest(extent: int, most: int) -> int:
    """The largest power of two up to ``most`` that divides ``extent``."""
    return min(most, extent & -extent)


@lru_cache(maxsize=2**14)
def _operand_plan(
    problem: Matmul,
    name: Side,
    row_name: str,
    text: str,
    shape: tuple[int, int],
    threads: int,
    vector: int,
    columns: int,
    method: Method,
    stage_bytes: int,
) -> OperandPlan:
    """Schedules of a search share most of their operands, so these are made once."""
    layout = parse_layout(text, *shape)
    if isinstance(layout, str):
        raise ValueError(layout)
    row = intrinsic(row_name)
    access = row.requirement(name, layout, problem.input_dtype.bytes)
    if isinstance(access, Refusal):
        raise ValueError(access.reason)
    region = Region(
        shape,
        "cols" if row_major(problem, name) else "rows",
        alignment=contiguous_extent(problem, name),
        element_bytes=problem.input_dtype.bytes,
    )
    copy = copy_plan(region, layout, threads, vector, columns, method)
    if isinstance(copy, Refusal):
        raise ValueError(copy.reason)
    loads = fragment_traffic(row, name, layout, problem.input_dtype.bytes)
    return OperandPlan(name, copy, loads, stage_bytes, access)


def workspaces(p: MatmulPlan) -> tuple[Operand, ...]:
    """Of split-K: partial sums in the order of the accumulators, and one arrival counter for every tile of out. Of a
    reduction across tiles: their parts, and one arrival counter for every band of tiles that share results."""
    tiles_m, tiles_n, _ = p.tiles
    batch = p.problem.batch
    found: tuple[Operand, ...] = ()
    if p.split_k > 1:
        tiles = tiles_m * tiles_n * batch
        found += (
            Operand("partials", "workspace", F32, (tiles, p.split_k, p.accumulators, p.threads)),
            Operand("counters", "workspace", U32, (tiles,), zeroed=True),
        )
    across, bands, kept = p.reduction_tiles
    if across > 1:
        found += (
            Operand("parts", "workspace", F32, (batch, across, kept)),
            Operand("band_counters", "workspace", U32, (batch * bands,), zeroed=True),
        )
    return found


def lower(problem: Matmul, config: Config, device: Device) -> Kernel:
    """The kernel of a valid config."""
    p = plan(problem, config)
    raster = config.text("raster")
    constants = {
        **{name: getattr(problem, name) for name in ("m", "n", "k", "batch")},
        **{name: config.integer(name) for name in ("tile_m", "tile_n", "tile_k")},
        **{name: config.integer(name) for name in ("sg_layout_m", "sg_layout_n", "sg_data_m", "sg_data_n")},
        **{name: config.integer(name) for name in ("stages", "k_unroll", "split_k")},
        "store_vector": p.store_vector,
        "raster_group": raster_group(raster),
    }
    switches = {
        "epilogue_shared": config["epilogue"] == "shared",
        "batch_inner": config["batch_mapping"] == "inner",
        "has_bias": problem.has_bias,
    }
    members = (
        f"using Out = {problem.out_dtype.c_name};",
        f"using Intrinsic = {p.intrinsic.c_name(problem.input_dtype.c_name, problem.input_dtype.c_name)};",
        *(f"static constexpr int {name} = {value};" for name, value in constants.items()),
        *(f"static constexpr bool {name} = {str(value).lower()};" for name, value in switches.items()),
        f"static constexpr autosched::Raster raster_order = autosched::Raster::{raster.partition('_')[0]};",
        f"static constexpr autosched::Activation activation = autosched::Activation::{problem.activation};",
        *_reduction_members(problem),
        *_operand_members(p.a, problem),
        *_operand_members(p.b, problem),
    )
    arguments = (*problem.operands(), *workspaces(p))
    names = {operand.name for operand in arguments}
    return SOURCE.kernel(
        "matmul",
        members=members,
        arguments=arguments,
        call=tuple(name if name in names else "nullptr" for name in (_CALL if "reduced" in names else _CALL[:6])),
        blocks=p.blocks,
        threads=p.threads,
        min_blocks=config.integer("min_blocks"),
        dynamic_shared_bytes=p.shared_bytes,
    )


def _reduction_members(problem: Matmul) -> tuple[str, ...]:
    along, _, kind = problem.reduction.partition("_")
    member = f"static constexpr autosched::Along reduce_along = autosched::Along::{along};"
    return (member, f"using ReduceState = autosched::{kind.capitalize()}State;") if kind else (member,)


def _operand_members(operand: OperandPlan, problem: Matmul) -> tuple[str, ...]:
    access, copy = operand.access, operand.copy
    lines = [
        f"using T = {problem.input_dtype.c_name};",
        f"using Layout = {operand.layout.c_name};",
        f"static constexpr bool row_major = {str(copy.region.axis == 'cols').lower()};",
        f"static constexpr int stage_bytes = {operand.stage_bytes};",
        f"static constexpr bool copy_async = {str(copy.method == 'cp.async').lower()};",
        f"static constexpr int copy_vector = {copy.vector};",
        f"static constexpr int copy_columns = {copy.columns};",
        f"static constexpr int copy_store = {copy.store};",
    ]
    lines += [f"static constexpr {kind} {name} = {value};" for kind, name, value in access.constants]
    return (f"struct {operand.name.upper()} {{", *(f"  {line}" for line in lines), "};")
