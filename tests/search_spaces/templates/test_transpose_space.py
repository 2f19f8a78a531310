"""The spaces of transpose and copy have the right rules and reduced problems, and maps that partition the tile."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from search_spaces.hardware.costs.bank_conflicts import copy_traffic
from search_spaces.hardware.costs.data_movement import CopyPlan, Method, Region, conflict_percent, copy_plan
from search_spaces.hardware.devices import device
from search_spaces.layouts.wg_map_consistency import check_transpose
from search_spaces.operators.copy import Copy
from search_spaces.operators.problem import Problem
from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.config import Config
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.copy.template import COPY
from search_spaces.templates.template import KernelTemplate
from search_spaces.templates.transpose.lowering import load_map, shared_layout, store_map
from search_spaces.templates.transpose.space import NONE, space
from search_spaces.templates.transpose.template import TRANSPOSE

H200 = device("h200")
LARGE = Transpose(8192, 8192)
TRANSPOSES = [
    LARGE,
    Transpose(67, 133, dtype="u16"),
    Transpose(4096, 4096, dtype="u8"),
    Transpose(1000, 36, batch=3, dtype="u128"),
    Transpose(1, 1, dtype="u64"),
    Transpose(100_000, 3),
]
COPIES = [Copy(8192, 8192), Copy(1, 1, dtype="u8"), Copy(33, 77, batch=2, dtype="u16")]


def sampled(problem: Transpose, count: int, seed: int) -> Sequence[Config]:
    problem_space = space(problem, H200)
    return problem_space.configs(problem_space.sample(count, seed))


def tile_of(config: Config) -> tuple[int, int]:
    rows, columns = config.integers("tile_m", "tile_n")
    return rows, columns


def template_of(problem: Problem) -> KernelTemplate:
    return {"transpose": TRANSPOSE, "copy": COPY}[problem.operator]


def test_spaces_are_large_and_counted() -> None:
    assert space(LARGE, H200).count() > 10**6
    assert COPY.space(COPIES[0], H200).count() > 10**3


@pytest.mark.parametrize("problem", [*TRANSPOSES, *COPIES], ids=lambda p: p.key())
@pytest.mark.parametrize("name", ["h200", "rtx4090"])
def test_sampled_schedules_break_no_rule(problem: Problem, name: str) -> None:
    problem_space = template_of(problem).space(problem, device(name))
    schedules = problem_space.sample(30, seed=5)
    assert len(schedules) == 30
    assert all(not problem_space.explain(s) for s in schedules)


def test_every_rule_rejects_a_schedule_with_a_reason() -> None:
    rng = np.random.default_rng(0)
    for problems in (TRANSPOSES, COPIES):
        refused: dict[str, str] = {}
        names: set[str] = set()
        for problem in problems:
            for target in (H200, device("rtx4090")):
                problem_space = template_of(problem).space(problem, target)
                names |= {rule.name for rule in problem_space.rules}
                for _ in range(150):
                    for violation in problem_space.explain({p.name: p.random(rng) for p in problem_space.parameters}):
                        refused.setdefault(violation.rule, violation.reason)
        assert names - set(refused) <= {"grid", "threads"}  # no values of the parameters violate these two rules
        for rule, reason in refused.items():
            assert len(reason) > 20 and "\n" not in reason, rule


def test_a_launch_of_too_many_tiles_is_rejected() -> None:
    huge = Transpose(2**29, 2**10, dtype="u8")
    schedule = space(huge, H200).sample(1, 0)[0].replace(tile_m=8, tile_n=8)
    assert "grid" in {v.rule for v in space(huge, H200).valid.explain(schedule)}


def test_the_map_constraints_agree_with_the_maps() -> None:
    """A map is legal exactly if its threads cover the tile in whole rounds, and no thread holds an element twice."""
    problem, rng = TRANSPOSES[2], np.random.default_rng(4)
    problem_space = space(problem, H200)
    verdicts = []
    for _ in range(600):
        values = {p.name: p.random(rng) for p in problem_space.parameters} | {"layout_x": "identity"}
        config = problem_space.config(Schedule.from_json("transpose", values))
        refused = {violation.rule for violation in problem_space.valid.explain(values)}
        rows, columns = tile_of(config)
        for name, map_, shape in (
            ("load_map", load_map(config), (rows, columns)),
            ("store_map", store_map(config), (columns, rows)),
        ):
            try:
                covers = not any(map_.wraps(shape))
            except ValueError:
                covers = False
            assert (name not in refused) == covers, (name, values)
            verdicts.append((name, covers))
    assert len(set(verdicts)) == 4


@pytest.mark.parametrize("problem", TRANSPOSES, ids=lambda p: p.key())
def test_blocks_cover_the_matrices(problem: Transpose) -> None:
    for config in sampled(problem, 12, seed=1):
        rows, columns = tile_of(config)
        down, across, tiles, blocks = config.integers("row_tiles", "column_tiles", "tiles", "blocks")
        assert down * rows >= problem.rows > (down - 1) * rows
        assert across * columns >= problem.columns > (across - 1) * columns
        assert tiles == problem.batch * down * across
        assert blocks * config.integer("tiles_per_block") >= tiles > (blocks - 1) * config.integer("tiles_per_block")


@pytest.mark.parametrize("problem", TRANSPOSES, ids=lambda p: p.key())
def test_executing_a_config_in_numpy_transposes_the_tile(problem: Transpose) -> None:
    """Loads and stores by the two maps, via the shared layout or registers, transpose a tile.

    No element is written twice.
    """
    for config in sampled(problem, 12, seed=1):
        rows, columns = tile_of(config)
        loads, stores, layout = load_map(config), store_map(config), shared_layout(config)
        tile = np.arange(rows * columns).reshape(rows, columns)
        held = loads.distribute(tile)  # axes: threads, blocks of a thread, rows of a block, elements of a vector
        assert loads.subgroups == config["threads"] and not any(loads.wraps(tile.shape))
        if layout is None:
            # A thread stores its own blocks, transposed, at transposed origins. No element moves between threads.
            origins = loads.all_offsets(tile.shape)
            out = np.full((columns, rows), -1)
            for thread, blocks in zip(origins, held, strict=True):
                for (row, column), block in zip(thread, blocks, strict=True):
                    part = out[column : column + block.shape[1], row : row + block.shape[0]]
                    assert (part == -1).all()
                    part[:] = block.T
            assert np.array_equal(out, tile.T)
            assert config["shared_bytes"] == config["load_piece"] == config["store_piece"] == 0
            continue
        r, c = np.divmod(held, columns)
        shared = np.full(config.integer("stage_bytes") // problem.element_bytes, -1)
        shared[layout(r, c)] = held
        assert np.count_nonzero(shared >= 0) == tile.size
        expected = stores.distribute(tile.T)
        r, c = np.divmod(expected, columns)
        assert np.array_equal(shared[layout(r, c)], expected)
        assert not any(stores.wraps((columns, rows)))
        assert np.array_equal(stores.undistribute(expected, (columns, rows)), tile.T)


def test_the_maps_of_the_register_route_agree_as_a_transpose() -> None:
    problem = Transpose(4096, 4096, dtype="u128")
    in_registers = [config for config in sampled(problem, 1200, seed=0) if config["layout_x"] == NONE]
    assert in_registers
    for config in in_registers:
        assert not check_transpose(load_map(config), store_map(config), tile_of(config)[::-1])


@pytest.mark.parametrize("problem", TRANSPOSES, ids=lambda p: p.key())
def test_both_sides_are_good_choices_of_the_automatic_data_movement(problem: Transpose) -> None:
    for config in sampled(problem, 12, seed=2):
        layout = shared_layout(config)
        if layout is None or config.integer("block_rows") > 1:
            continue
        threads = config.integer("threads")
        method: Method = "cp.async" if config["copy_x"] == "cp.async" else "ld.global"
        region = Region(tile_of(config), "cols", problem.columns, problem.element_bytes)
        vector, columns = config.integers("vector_x", "copy_columns_x")
        load = copy_plan(region, layout, threads, vector, columns, method)
        assert isinstance(load, CopyPlan) and load.store == config["load_piece"]
        back = Region(tile_of(config), "rows", problem.rows, problem.element_bytes)
        vector, columns = config.integers("vector_out", "copy_columns_out")
        store = copy_plan(back, layout, threads, vector, columns, "ld.global")
        assert isinstance(store, CopyPlan) and store.store == config["store_piece"]
        for side in (load, store):
            assert side.stores.conflict_degree <= 2.5  # over the whole tile; the pruning rule only samples a part


@pytest.mark.parametrize("element_bytes", [1, 4, 16])
def test_sampled_conflicts_agree_with_the_whole_tile(element_bytes: int) -> None:
    problem = Transpose(4096, 4096, dtype={1: "u8", 4: "u32", 16: "u128"}[element_bytes])
    for config in sampled(problem, 40, seed=3):
        layout = shared_layout(config)
        if layout is not None:
            vector, columns, threads = config.integers("vector_out", "copy_columns_out", "threads")
            full_traffic = copy_traffic(layout, element_bytes, "rows", vector, columns, threads)
            conflicts = conflict_percent(layout, element_bytes, "rows", vector, columns)
            assert conflicts == pytest.approx(100 * full_traffic.conflict_degree, rel=0.3)


@pytest.mark.parametrize("problem", TRANSPOSES, ids=lambda p: p.key())
def test_a_cut_transpose_is_small_and_has_the_same_remainders(problem: Transpose) -> None:
    proxy = TRANSPOSE.proxy
    assert proxy is not None
    for schedule in space(problem, H200).sample(25, seed=2):
        small = proxy(problem, schedule)
        for name, tile_name in (("rows", "tile_m"), ("columns", "tile_n")):
            size, cut, tile = getattr(problem, name), getattr(small, name), schedule.integer(tile_name)
            assert cut <= min(size, 2 * tile) and cut % tile == size % tile
        assert not space(small, H200).valid.explain(schedule)
        assert proxy(small, schedule) == small


@pytest.mark.parametrize("problem", COPIES, ids=lambda p: p.key())
def test_a_cut_copy_is_small_and_valid(problem: Copy) -> None:
    proxy = COPY.proxy
    assert proxy is not None
    for schedule in COPY.space(problem, H200).sample(25, seed=2):
        small = proxy(problem, schedule)
        vector = schedule.integer("vector_x")
        assert small.bytes % vector == problem.bytes % vector
        assert small.bytes <= max(2 * 2**18, problem.bytes if problem.bytes < 2**18 else 0)
        assert not COPY.space(small, H200).valid.explain(schedule)
        assert proxy(small, schedule) == small


def test_work_counts_the_bytes_that_move() -> None:
    for problem in (LARGE, COPIES[0]):
        row = template_of(problem)
        assert row.counts is not None
        for schedule in row.space(problem, H200).sample(25, seed=3):
            work = row.counts(problem, row.config(problem, schedule, H200), H200)
            assert work.dram_bytes == problem.min_bytes == 2 * 4 * 8192**2
            assert work.load_bytes * work.blocks >= problem.min_bytes / 2
            assert work.store_bytes * work.blocks >= problem.min_bytes / 2
            in_registers = schedule.values.get("layout_x") == NONE or schedule["copy_x"] != "cp.async"
            assert work.shared_wavefronts > 0 or in_registers
