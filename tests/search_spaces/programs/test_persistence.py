"""Persistent blocks compute several tiles each. The number of tiles with work is known only on the device."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from program_outcome import outcome

from autosched.programs.loading import problem
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.programs.builder import Input, Output, program
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.template import template
from search_spaces.spaces.schedule import Schedule


@program(a=Input("m k", "f16"), b=Input("g k n", "f16"), offsets=Input("ends", "i32"), out=Output("m n", "f32"))
def product(p: Any, a: Any, b: Any, offsets: Any, out: Any) -> None:
    """Multiply the rows of each group by its matrix."""
    (m, k), n, bm = a.shape, out.shape[1], 64
    i, j = p.blocks((m + b.shape[0] * (bm - 1), n), (bm, 64))
    group, first = p.find_tile(offsets, i // bm, bm, high=m)
    begin, end = (p.load_scalar(offsets, group + at, high=m, ordered=True) for at in (0, 1))
    row = p.minimum(p.maximum(begin + (i // bm - first) * bm, 0), m)
    acc, own = p.state(p.zeros((bm, 64))), b[p.minimum(group, b.shape[0] - 1)]
    for at in p.steps(p.minimum(p.maximum(end - row, 0), 1) * k, 64):
        acc.set(p.mma(p.load(p.window(a, (row, at), (bm, 64))), p.load(p.window(own, (at, j), (64, 64))), acc))
    p.store(acc, p.window(out, (row, j), (bm, 64)), rows_below=end)


@program(a=Input("m k", "f16"), b=Input("k n", "f16"), out=Output("m n", "f32"))
def dense(p: Any, a: Any, b: Any, out: Any) -> None:
    """Multiply two matrices."""
    i, j = p.blocks(out.shape, (64, 64))
    acc = p.state(p.zeros((64, 64)))
    for at in p.steps(a.shape[1], 64):
        acc.set(p.mma(p.load(p.window(a, (i, at), (64, 64))), p.load(p.window(b, (at, j), (64, 64))), acc))
    p.store(acc, p.window(out, (i, j), (64, 64)))


SMALL = problem(product, m=200, k=136, n=136, g=3, ends=4)
# Methods of filling the ring of stages and of storing results. Some combinations need a barrier between a block's
# tiles.
WAYS = {
    "mma": ("a100", {}),
    "wgmma": ("h100", {"filled_by": "tma", "store_1": "turned"}),
    "wgmma, copying warp": ("h100", {"filled_by": "warp", "store_1": "direct"}),
    "wgmma, copying warp and exchange": ("h100", {"filled_by": "warp", "store_1": "turned"}),
    "wgmma in flight": ("h100", {"filled_by": "warp", "store_1": "direct", "in_flight": 1}),
}


@cache
def schedule_of(way: str, seed: int = 1) -> Schedule:
    """Return a sampled persistent schedule of SMALL."""
    gpu, parameters = WAYS[way]
    # valid schedules include those that pruning rejects: persistent blocks for few tiles
    space = template(SMALL.program).space(SMALL, device(gpu)).valid
    parameters = {"persistent": 1, **parameters}
    drawn = (s for part in range(20) for s in space.sample(1000, 100 * seed + part))
    return next(s for s in drawn if parameters.items() <= s.values.items())


def kernel_of(p: ProgramProblem, way: str, seed: int = 1) -> GeneratedKernel:
    return template(p.program).kernel(p, schedule_of(way, seed), device(WAYS[way][0]))


@pytest.mark.parametrize("way", WAYS)
def test_blocks_compute_several_tiles(way: str) -> None:
    kernel = kernel_of(SMALL, way)
    trace = SMALL.usual_trace()
    assert 1 < 2 * kernel.grid[0] <= trace.block_count and kernel.grid_may_shrink
    assert outcome(SMALL, kernel) == "ok"
    assert outcome(SMALL, replace(kernel, grid=(1, 1, 1))) == "ok"


@pytest.mark.parametrize("way", ["mma", "wgmma, copying warp"])
@pytest.mark.parametrize("ends", [(0, 0, 0, 200), (0, 200, 200, 200), (0, 1, 2, 200), (0, 64, 128, 200)])
def test_empty_and_skewed_groups(way: str, ends: tuple[int, ...]) -> None:
    inputs = {**SMALL.random_inputs(2), "offsets": np.array(ends, dtype=np.int32)}
    assert outcome(SMALL, kernel_of(SMALL, way), inputs) == "ok"


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2, 8))
@pytest.mark.parametrize("way", WAYS)
def test_sampled_persistent_schedules(way: str, seed: int) -> None:
    kernel = kernel_of(SMALL, way, seed)
    assert outcome(SMALL, kernel) == "ok", schedule_of(way, seed)
    for input_set in SMALL.stress_inputs(seed):
        assert outcome(SMALL, kernel, input_set.inputs) == "ok", input_set.cases


FAULTS = {
    "tiles of the next block": (r"tile_place \+= int\(gridDim.x\)", "tile_place += 1 + int(gridDim.x)", "mma"),
    "the last tile": (r"tile_place < (\d+);", r"tile_place < \1 - 15;", "mma"),
    "iterations of earlier tiles are forgotten": (r"begun_(\d+) \+= turns_of_\d+;", "", "wgmma"),
    "the copying warp forgets earlier tiles": (
        r"(ptx::warp_sync\(\);\s*(?:#line[^\n]*\s*)?)begun_(\d+) \+= turns_of_\d+;",
        r"\1",
        "wgmma, copying warp",
    ),
    "no barrier before the next tile": (
        r"ptx::fence_async_proxy\(\);  // TMA[^\n]*\s*(?:#line[^\n]*\s*)?ptx::barrier_sync\(\);  // everybody[^\n]*",
        "",
        "wgmma",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str) -> None:
    old, new, way = FAULTS[fault]
    kernel = kernel_of(SMALL, way)
    source, count = re.subn(old, new, kernel.source)
    assert count == 1 + (fault == "iterations of earlier tiles are forgotten" and "warp" in way)
    assert outcome(SMALL, replace(kernel, source=source)) != "ok"


def test_only_programs_that_find_tiles_have_persistent_blocks() -> None:
    for gpu in ("a100", "h100"):
        plain = problem(dense, m=64, k=64, n=64)
        assert "persistent" not in template(dense).space(plain, device(gpu)).parameters[0].name
        names = {p.name for p in template(dense).space(plain, device(gpu)).parameters}
        assert "persistent" not in names and "stream_k" in names
        assert "persistent" in {p.name for p in template(product).space(SMALL, device(gpu)).parameters}


def test_rules() -> None:
    hopper, blackwell = device("h100"), device("b200")
    schedules = template(product).space(SMALL, hopper).sample(300, 1)
    assert not any(s["persistent"] for s in schedules)  # fewer tiles than concurrent blocks
    large = problem(product, m=20000, k=200, n=1000, g=3, ends=4)
    assert any(s["persistent"] for s in template(product).space(large, hopper).sample(300, 1))
    drawn = template(product).space(large, blackwell).sample(300, 1)
    assert not any(s["persistent"] and s.text("intrinsic").startswith("tcgen05") for s in drawn)


def test_copies_of_the_next_tile_overlap_the_store_of_this_one() -> None:
    large, counts = problem(product, m=20000, k=200, n=1000, g=3, ends=4), template(product).counts
    assert counts is not None
    for way, overlap in (("wgmma, copying warp", True), ("wgmma, copying warp and exchange", False), ("wgmma", False)):
        config = template(product).config(large, schedule_of(way), device("h100"))
        costs = counts(large, config, device("h100"))
        assert costs.drains > 1 and costs.blocks == config.integer("persistent_blocks")
        assert costs.restarts == (0 if overlap else costs.drains - 1)
