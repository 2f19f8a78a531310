"""Every order of tiles visits each tile once, and the time model predicts the tiles that a wave of blocks touches."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

import autosched
from search_spaces.arrays import IntArray
from search_spaces.launches.headers import Headers, include_dir
from search_spaces.templates.common.matmul_traffic import wave_shape
from search_spaces.templates.common.raster import RASTER_GROUPS, raster_argument

HEADER = "autosched/common/hilbert.cuh"
WALK = f"""
#include <{HEADER}>
extern "C" __global__ void walk(const int* rows, const int* columns, const int* first, int* out) {{
  const int grid = blockIdx.x, tiles = rows[grid] * columns[grid];
  for (int i = threadIdx.x; i < tiles; i += blockDim.x) {{
    out[first[grid] + i] = autosched::hilbert(i, rows[grid], columns[grid]);
  }}
}}
"""
MOST = 16
LARGER = ((1, 97), (97, 2), (4, 64), (33, 17), (32, 64))
GRIDS = [*((m, n) for m in range(1, MOST + 1) for n in range(1, MOST + 1)), *LARGER]


@lru_cache(maxsize=2)
def walks(old: str = "", new: str = "") -> dict[tuple[int, int], IntArray]:
    """Return the order in which the device function visits the tiles of each grid.

    Tiles are numbered in row-major order. If ``old`` is not empty, it is replaced by ``new`` in the code of the device
    function.
    """
    sizes = np.array([m * n for m, n in GRIDS])
    first = (np.cumsum(sizes) - sizes).astype(np.int32)
    rows, columns = (np.array(sides, np.int32) for sides in zip(*GRIDS, strict=True))
    out = np.zeros(sizes.sum(), np.int32)
    text = (Path(include_dir()) / HEADER).read_text()
    if old:
        assert text.count(old) == 1
        text = text.replace(old, new)
    run = autosched.emulate(
        WALK, arguments=[rows, columns, first, out], outputs=[3], grid=len(GRIDS), block=32, headers={HEADER: text}
    )
    assert run.ok, run.reason
    visits = run.arrays[3]
    assert visits is not None
    return dict(zip(GRIDS, np.split(visits, first[1:]), strict=True))


@needs_nvrtc
@needs_compiler
def test_a_hilbert_curve_visits_every_tile_once() -> None:
    for (m, n), walk in walks().items():
        assert np.array_equal(np.sort(walk), np.arange(m * n)), (m, n)


@needs_nvrtc
@needs_compiler
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("second ? length - half : half", "half"),
        ("id < middle", "id <= middle"),
        ("length = out;\n        height = half;", "height = half;"),
        ("height = length - half;", "height = half;"),
        ("along = -across;", "along = across;"),
        ("lines == 3", "false"),
    ],
)
def test_a_planted_fault_visits_a_tile_twice_or_never(old: str, new: str) -> None:
    faulty = walks(old, new)
    assert any(not np.array_equal(np.sort(walk), np.arange(m * n)) for (m, n), walk in faulty.items())


def order(raster: str, m: int, n: int) -> IntArray:
    """Return the tiles' row-major numbers in the order in which ``autosched/common/raster.cuh`` visits the tiles."""
    if raster == "hilbert":
        return walks()[m, n]
    tiles = np.arange(m * n).reshape(m, n)
    band = {"row": 1, "column": m}.get(raster) or int(raster.removeprefix("grouped_"))
    return np.concatenate([tiles[at : at + band].T.reshape(-1) for at in range(0, m, band)])


@needs_nvrtc
@needs_compiler
@pytest.mark.parametrize("raster", ["row", "column", "grouped_2", "grouped_8", "grouped_16", "hilbert"])
def test_the_model_predicts_the_rows_and_columns_of_a_wave(raster: str) -> None:
    """The predicted number of rows plus columns is within 1/6 of the mean over waves that start at different tiles."""
    for m, n in ((32, 64), (33, 17), (4, 64)):
        visited = order(raster, m, n)
        for wave in (24, 66, 132):
            if wave * 2 > m * n:
                continue
            waves = [visited[at : at + wave] for at in range(0, m * n - wave + 1, 11)]
            rows = np.mean([len(np.unique(tiles // n)) for tiles in waves])
            columns = np.mean([len(np.unique(tiles % n)) for tiles in waves])
            expected = wave_shape(raster, wave, m, n)
            assert sum(expected) == pytest.approx(rows + columns, rel=1 / 6), (m, n, wave, rows, columns, expected)


RASTER = "autosched/common/raster.cuh"
# For some of these grids, the last group of rows in a grouped order is smaller than the other groups.
LAUNCHED_GRIDS = ((1, 7), (6, 1), (5, 3), (16, 4), (19, 6), (32, 2), (33, 5))
LAUNCHED = f"""
#include <{RASTER}>
template <int M, int N>
__device__ void walk_grid(int order, int* out) {{
  for (int i = threadIdx.x; i < M * N; i += blockDim.x) {{
    const autosched::TileIndex tile = autosched::raster<false, M, N>(autosched::LaunchRaster{{order}}, i);
    out[i] = tile.m * N + tile.n;
  }}
}}
extern "C" __global__ void walk(const int* orders, int* out) {{
  out += blockIdx.x * {sum(m * n for m, n in LAUNCHED_GRIDS)};
  const int order = orders[blockIdx.x];
{"".join(f"  walk_grid<{m}, {n}>(order, out); out += {m * n};" for m, n in LAUNCHED_GRIDS)}
}}
"""


def launched_walks(old: str = "", new: str = "") -> dict[tuple[str, int, int], IntArray]:
    """Return, by order and grid, the tile numbers from a kernel that receives the order as a launch argument."""
    orders = np.array([raster_argument(name).value for name in RASTER_GROUPS], np.int32)
    sizes = [m * n for m, n in LAUNCHED_GRIDS]
    texts = dict(Headers.from_folder(include_dir()).files)
    assert not old or texts[RASTER].count(old) == 1
    run = autosched.emulate(
        LAUNCHED,
        arguments=[orders, np.zeros((len(orders), sum(sizes)), np.int32)],
        outputs=[1],
        grid=len(orders),
        block=32,
        headers=texts | {RASTER: texts[RASTER].replace(old, new) if old else texts[RASTER]},
    )
    assert run.ok, run.reason
    visits = run.arrays[1]
    assert visits is not None
    return {
        (name, m, n): tiles
        for name, row in zip(RASTER_GROUPS, visits, strict=True)
        for (m, n), tiles in zip(LAUNCHED_GRIDS, np.split(row, np.cumsum(sizes)[:-1]), strict=True)
    }


@needs_nvrtc
@needs_compiler
def test_every_launch_order_matches_its_name() -> None:
    for (name, m, n), tiles in launched_walks().items():
        assert np.array_equal(tiles, order(name, m, n)), (name, m, n)


@needs_nvrtc
@needs_compiler
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("id / TilesN >> launch.order << launch.order", "id / TilesN"),
        ("lower < 1 << launch.order", "false"),
        ("(1 << launch.order) - 1", "(1 << launch.order) - 2"),
        ("launch.order < 0", "launch.order < 1"),
    ],
)
def test_a_planted_fault_in_the_launch_order_is_detected(old: str, new: str) -> None:
    assert any(not np.array_equal(tiles, order(*key)) for key, tiles in launched_walks(old, new).items())
