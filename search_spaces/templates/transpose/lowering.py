"""Generate the kernel of ``autosched/kernels/transpose.cuh``, and the maps of its threads, from a config."""

from __future__ import annotations

from search_spaces.hardware.devices import Device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.layouts.shared_layout import SharedLayout, parse_layout
from search_spaces.layouts.wg_map import WgMap
from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.config import Config
from search_spaces.templates.device_source import DeviceSource
from search_spaces.templates.transpose.space import NONE

SOURCE = DeviceSource("autosched/kernels/transpose.cuh", "autosched::transpose")


def shared_layout(config: Config) -> SharedLayout | None:
    """Return the layout of the tile of x in shared memory; None if its elements stay in registers."""
    if config["layout_x"] == NONE:
        return None
    layout = parse_layout(config.text("layout_x"), *config.integers("tile_m", "tile_n"))
    if isinstance(layout, str):
        raise ValueError(layout)
    return layout


def load_map(config: Config) -> WgMap:
    """Return the wg_map that assigns the elements of x's tile to threads (each thread is a subgroup of the map)."""
    threads, columns, rows, vector = config.integers("threads", "copy_columns_x", "block_rows", "vector_x")
    return WgMap((threads // columns, columns), (rows, vector))


def store_map(config: Config) -> WgMap:
    """Return the wg_map that assigns the elements of out's tile to threads.

    Without shared memory, this is the transposed load map, in which each thread stores the elements that it loaded.
    """
    if config["layout_x"] == NONE:
        return load_map(config).transpose_input()
    threads, columns, vector = config.integers("threads", "copy_columns_out", "vector_out")
    return WgMap((threads // columns, columns), (1, vector))


def lower(problem: Transpose, config: Config, device: Device) -> GeneratedKernel:
    """Return the kernel of a valid config."""
    layout = shared_layout(config)
    return SOURCE.kernel(
        config,
        constants={name: getattr(problem, name) for name in ("rows", "columns", "batch", "element_bytes")},
        types={"Word": problem.word.c_name, "Layout": layout.c_name if layout else "void"},
        arguments=problem.operands(),
        call=("x", "out"),
        blocks=config.integer("blocks"),
    )
