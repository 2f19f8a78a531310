"""The matmul space has the right rules and configs, and reduced problems have the properties of the originals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cases import representative

from search_spaces.hardware.costs.copy_rankings import copy_choices
from search_spaces.hardware.costs.data_movement import MOST_CONFLICTS, MOST_SECTORS, Region, copy_plan
from search_spaces.hardware.devices import device
from search_spaces.hardware.intrinsics import intrinsic
from search_spaces.hardware.requirements import Refusal
from search_spaces.layouts.shared_layout import SharedLayout, parse_layout
from search_spaces.layouts.wg_map_consistency import check_mma
from search_spaces.operators.matmul import Matmul
from search_spaces.templates.matmul.counts import counts
from search_spaces.templates.matmul.decisions import contiguous_extent, row_major, tile_shape
from search_spaces.templates.matmul.lowering import SIDES, copy, tile, wg_maps
from search_spaces.templates.matmul.proxy import MOST_TILES, proxy
from search_spaces.templates.matmul.pruning import pruning_rules
from search_spaces.templates.matmul.space import space, validity_constraints
from search_spaces.templates.matmul.template import MATMUL

H200 = device("h200")
LARGE = Matmul(4096, 4096, 4096)
PROBLEMS = [
    LARGE,
    Matmul(17, 33, 77),
    Matmul(1, 1, 1, a="f32", b="f32", out="f32"),
    Matmul(4096, 4096, 4096, a="bf16", b="bf16", out="f32", order_a="col", order_b="col", epilogue="bias+gelu"),
    Matmul(1000, 96, 5000, batch=3, a="f32", b="f32", order_a="col"),
]


def test_the_full_space_is_large_and_its_count_exact() -> None:
    count = space(LARGE, H200).count()
    assert count > 10**7
    assert isinstance(count, int)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p.m}x{p.n}x{p.k}-{p.a}")
@pytest.mark.parametrize("name", representative(["h200", "a100", "rtx4090"], "h200", "a100"))
def test_sampled_schedules_break_no_rule(problem: Matmul, name: str) -> None:
    sampled = space(problem, device(name))
    schedules = sampled.sample(40, seed=5)
    assert len({s.key() for s in schedules}) == 40
    assert sampled.allowed(sampled.columns(schedules)).all()
    assert all(not sampled.explain(s) for s in schedules)


def test_same_seed_same_samples() -> None:
    assert space(LARGE, H200).sample(5, seed=9) == space(LARGE, H200).sample(5, seed=9)
    assert space(LARGE, H200).sample(5, seed=9) != space(LARGE, H200).sample(5, seed=10)


def test_every_rule_rejects_a_schedule_with_a_reason() -> None:
    """Each rule rejects some values for at least one of these problems and devices, with its own message."""
    refused: dict[str, str] = {}
    rng = np.random.default_rng(0)
    for problem in (*PROBLEMS, Matmul(64, 64, 64, a="f32", b="f32", precision="ieee")):
        for target in (H200, device("rtx4090")):
            problem_space = space(problem, target)
            for _ in range(60):
                values = {p.name: p.random(rng) for p in problem_space.parameters}
                for violation in problem_space.explain(values):
                    refused.setdefault(violation.rule, violation.reason)
    names = {rule.name for rule in (*validity_constraints(LARGE, H200), *pruning_rules(LARGE, H200))}
    # No device is older than sm_80, and every value of tile_k is a multiple of every intrinsic's k.
    assert names - set(refused) <= {"intrinsic_sm", "fragments_k"}
    for rule, reason in refused.items():
        assert len(reason) > 20 and "\n" not in reason, rule


def test_the_documents_pads_suit_wmma_and_ldmatrix() -> None:
    """The tile is the 128x64 f16 tile of A in problem 1 of TVM's document on auto memory planning."""
    wmma, mma = intrinsic("wmma_m16n16k16_f16"), intrinsic("mma_m16n8k16_f16")

    def answer(row: object, text: str) -> str | None:
        result = row.requirement("a", SharedLayout.parse(text, (128, 64)), 2)  # type: ignore[attr-defined]
        return result.reason if isinstance(result, Refusal) else None

    assert "one leading dimension" in str(answer(wmma, "pad(4,2)"))
    assert "not 16-byte aligned" in str(answer(mma, "pad(4,2)"))
    assert "one leading dimension" in str(answer(wmma, "pad(8,2)"))
    assert answer(mma, "pad(8,2)") is None
    assert answer(wmma, "pad(8,1)") is None and answer(mma, "pad(8,1)") is None
    layout_rule = next(rule for rule in validity_constraints(LARGE, H200) if rule.name == "layout_a")
    values = {"layout_a": "pad(4,2)", "tile_m": 128, "tile_k": 64, "intrinsic": "wmma_m16n16k16_f16"}
    assert "one leading dimension" in layout_rule.why_not(values)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p.m}x{p.n}x{p.k}-{p.a}")
def test_configs_describe_a_partition_of_the_work(problem: Matmul) -> None:
    problem_space = space(problem, H200)
    for config in problem_space.configs(problem_space.sample(25, seed=1)):
        tile_m, tile_n, tile_k = tile(config)
        threads = config.integer("threads")
        a, b, out = wg_maps(config)
        assert not check_mma(a, b, out, tile_m, tile_n, tile_k)
        assert not any(out.wraps((tile_m, tile_n)))
        assert out.subgroups * 32 == threads
        row = intrinsic(config.text("intrinsic"))
        owned = [rounds * data for rounds, data in zip(out.rounds((tile_m, tile_n)), out.sg_data, strict=True)]
        assert owned == [config.integer("fragments_m") * row.m, config.integer("fragments_n") * row.n]
        assert config.integer("accumulators") * threads == tile_m * tile_n
        for side in SIDES:
            moved = copy(problem, config, side)
            assert not any(moved.map.wraps((moved.region.lines, moved.region.line)))
            assert moved.map.subgroups == moved.threads == threads
            assert moved.region.alignment % moved.vector == 0
            assert config.integer(f"stage_bytes_{side}") >= moved.layout.size * problem.input_dtype.bytes
        assert config.integer("shared_bytes") <= H200.shared_per_block


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p.m}x{p.n}x{p.k}-{p.a}")
def test_blocks_and_splits_cover_out_and_k_once(problem: Matmul) -> None:
    problem_space = space(problem, H200)
    for config in problem_space.configs(problem_space.sample(25, seed=6)):
        for axis, extent, size in zip("mnk", (problem.m, problem.n, problem.k), tile(config), strict=True):
            assert len(range(0, extent, size)) == config[f"tiles_{axis}"]
        tiles_m, tiles_n, tiles_k, split_k = config.integers("tiles_m", "tiles_n", "tiles_k", "split_k")
        splits = list(range(0, tiles_k, config.integer("tiles_of_split")))
        assert len(splits) == split_k
        assert config["blocks"] == problem.batch * tiles_m * tiles_n * split_k
        assert config["stream_k"] or config["launched_blocks"] == config["blocks"]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p.m}x{p.n}x{p.k}-{p.a}")
def test_a_cut_problem_is_small_and_has_the_same_remainders(problem: Matmul) -> None:
    for schedule in space(problem, H200).sample(25, seed=2):
        small = proxy(problem, schedule)
        tiles = {axis: schedule.integer(f"tile_{axis}") for axis in "mnk"}
        for axis, size in tiles.items():
            full_size, cut = getattr(problem, axis), getattr(small, axis)
            assert cut <= full_size
            assert cut % size == full_size % size
        most = MOST_TILES if schedule["stream_k"] else 2
        assert small.m <= most * tiles["m"] and small.n <= most * tiles["n"]
        assert schedule["stream_k"] or small.m < 2 * tiles["m"]
        assert not space(small, H200).valid.explain(schedule)
        splits = schedule.integer("split_k")
        per_split, original = (math.ceil(math.ceil(p.k / tiles["k"]) / splits) for p in (small, problem))
        assert per_split == min(original, schedule.integer("stages") + 1)
        assert proxy(small, schedule) == small


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p.m}x{p.n}x{p.k}-{p.a}")
def test_a_copy_is_valid_exactly_if_the_data_movement_has_a_plan(problem: Matmul) -> None:
    valid = space(problem, H200).valid
    rng = np.random.default_rng(3)
    verdicts = {True: 0, False: 0}
    for _ in range(300):
        values = {p.name: p.random(rng) for p in valid.parameters}
        broken = {violation.rule for violation in valid.explain(values)}
        threads = int(values["subgroups_m"]) * int(values["subgroups_n"]) * 32
        m, n, k = (int(values[f"tile_{axis}"]) for axis in "mnk")
        for operand in ("a", "b"):
            layout = parse_layout(str(values[f"layout_{operand}"]), *tile_shape(operand, m, n, k))
            if isinstance(layout, str):
                continue
            axis = "cols" if row_major(problem, operand) else "rows"
            region = Region(layout.shape, axis, contiguous_extent(problem, operand), problem.input_dtype.bytes)
            chosen = [values[f"{name}_{operand}"] for name in ("vector", "copy_columns", "copy")]
            plan = copy_plan(region, layout, threads, *chosen)
            rules_of_copy = {f"{name}_{operand}" for name in ("copy_alignment", "copy_map", "copy_async")}
            assert isinstance(plan, Refusal) == bool(broken & rules_of_copy), (values, plan)
            verdicts[isinstance(plan, Refusal)] += 1
    assert min(verdicts.values()) > 5


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: f"{p.m}x{p.n}x{p.k}-{p.a}")
def test_sampled_copies_have_few_sectors_and_conflicts(problem: Matmul) -> None:
    """Sampled copies access few sectors, and have as few bank conflicts as the layout allows, over the whole tile."""
    problem_space = space(problem, H200)
    for config in problem_space.configs(problem_space.sample(25, seed=4)):
        for side in SIDES:
            moved = copy(problem, config, side)
            region = moved.region
            choices = copy_choices(region, moved.layout, moved.threads)
            assert moved.sectors <= MOST_SECTORS * choices[0].sectors
            least = min(c.stores.conflict_degree for c in choices if c.vector == moved.vector)
            assert moved.stores.conflict_degree <= max(MOST_CONFLICTS, least) + 0.01


def test_counts_match_the_work_of_a_tile() -> None:
    rounded = 1 - 1e-12  # allows for rounding, since counts are averages over persistent blocks
    for schedule in space(LARGE, H200).sample(25, seed=3):
        counted = counts(LARGE, MATMUL.config(LARGE, schedule, H200), H200)
        tile = schedule.integer("tile_m") * schedule.integer("tile_n")
        assert counted.blocks * counted.flops >= LARGE.flops * rounded
        assert counted.dram_bytes >= LARGE.min_bytes
        element_loads = 2 * (schedule.integer("tile_m") + schedule.integer("tile_n"))
        k_of_block = counted.flops / (2.0 * tile)  # k summed over all tiles of a block
        assert counted.load_bytes >= element_loads * k_of_block * rounded
        assert counted.shared_wavefronts * 128 >= counted.load_bytes / 2
        assert counted.store_bytes >= tile * 2 / schedule.integer("split_k")
