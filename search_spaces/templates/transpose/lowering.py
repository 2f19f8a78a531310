"""From a schedule to the constants of ``autosched/kernels/transpose.cuh``, its arguments and its launch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from search_spaces.hardware.devices import Device
from search_spaces.layouts.shared_layout import SharedLayout, parse_layout
from search_spaces.layouts.wg_map import WgMap
from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.config import Config
from search_spaces.templates.common.cache_hints import load_hint_member, store_hint_member
from search_spaces.templates.common.raster import raster_group
from search_spaces.templates.device_source import DeviceSource
from search_spaces.templates.kernel import Kernel
from search_spaces.templates.transpose.space import NONE

SOURCE = DeviceSource("autosched/kernels/transpose.cuh", "autosched::transpose")


@dataclass(frozen=True)
class TransposePlan:
    """What follows from one schedule: the maps, the layout, the launch. Everything after the space reads this.

    ``load_map`` deals the tile of x out to threads, ``store_map`` the tile of out (both with threads as subgroups);
    there is no layout where the elements stay in registers, and the store map is then the load map transposed, with
    the threads numbered as in the load map. ``load_piece`` and ``store_piece`` are the elements that one access of
    shared memory moves.
    """

    problem: Transpose
    config: Config
    tile: tuple[int, int]
    threads: int
    layout: SharedLayout | None
    load_map: WgMap
    store_map: WgMap
    load_piece: int
    store_piece: int
    registers: int
    stage_bytes: int
    shared_bytes: int

    @property
    def tiles(self) -> tuple[int, int, int]:
        """Matrices, and tiles along the rows and the columns of x."""
        p = self.problem
        return p.batch, -(-p.rows // self.tile[0]), -(-p.columns // self.tile[1])

    @property
    def block_tiles(self) -> int:
        return self.config.integer("block_tiles")

    @property
    def blocks(self) -> int:
        batch, rows, columns = self.tiles
        return -(-batch * rows * columns // self.block_tiles)


@lru_cache(maxsize=4096)
def plan(problem: Transpose, config: Config) -> TransposePlan:
    """The plan of a valid config."""
    rows, columns, threads = (config.integer(name) for name in ("tile_rows", "tile_columns", "threads"))
    vector, block_rows = config.integer("load_vector"), config.integer("block_rows")
    load_columns = config.integer("load_columns")
    load_map = WgMap((threads // load_columns, load_columns), (block_rows, vector))
    load_map.verify((rows, columns))
    layout: SharedLayout | None = None
    load_piece, store_piece = vector, block_rows
    if config["layout"] == NONE:
        store_map = load_map.transpose_input()
    else:
        store_columns, store_vector = config.integer("store_columns"), config.integer("store_vector")
        store_map = WgMap((threads // store_columns, store_columns), (1, store_vector))
        parsed = parse_layout(config.text("layout"), rows, columns)
        if isinstance(parsed, str):
            raise ValueError(parsed)
        layout = parsed
        load_piece = min(vector, layout.contiguity("cols")) if block_rows == 1 else block_rows
        store_piece = min(store_vector, layout.contiguity("rows"))
    store_map.verify((columns, rows))
    return TransposePlan(
        problem=problem,
        config=config,
        tile=(rows, columns),
        threads=threads,
        layout=layout,
        load_map=load_map,
        store_map=store_map,
        load_piece=load_piece,
        store_piece=store_piece,
        registers=config.integer("registers"),
        stage_bytes=config.integer("stage_bytes"),
        shared_bytes=config.integer("shared_bytes"),
    )


def lower(problem: Transpose, config: Config, device: Device) -> Kernel:
    """The kernel of a valid config."""
    p = plan(problem, config)
    raster = config.text("raster")
    constants = {
        **{name: getattr(problem, name) for name in ("rows", "columns", "batch", "element_bytes")},
        **{name: config.integer(name) for name in ("tile_rows", "tile_columns", "threads")},
        **{name: config.integer(name) for name in ("load_vector", "load_columns", "block_rows")},
        "load_piece": p.load_piece,
        **{name: config.integer(name) for name in ("store_vector", "store_columns")},
        "store_piece": p.store_piece,
        **{name: config.integer(name) for name in ("block_tiles", "stages")},
        "stage_bytes": p.stage_bytes,
        "raster_group": raster_group(raster),
    }
    layout = p.layout or SharedLayout(p.tile)
    members = (
        f"using Word = {problem.word.c_name};",
        f"using Layout = {layout.c_name};",
        f"static constexpr autosched::TransposeRoute route = autosched::TransposeRoute::{_route(p)};",
        *(f"static constexpr int {name} = {value};" for name, value in constants.items()),
        f"static constexpr autosched::Raster raster_order = autosched::Raster::{raster.partition('_')[0]};",
        load_hint_member("x_cache", config.text("x_cache")),
        store_hint_member("out_cache", config.text("out_cache")),
    )
    return SOURCE.kernel(
        "transpose",
        members=members,
        arguments=problem.operands(),
        call=("x", "out"),
        blocks=p.blocks,
        threads=p.threads,
        min_blocks=config.integer("min_blocks"),
        dynamic_shared_bytes=p.shared_bytes,
    )


def _route(p: TransposePlan) -> str:
    """The name of the kernel's route."""
    if p.layout is None:
        return "registers"
    return "cp_async" if p.config["copy"] == "cp.async" else "shared"
