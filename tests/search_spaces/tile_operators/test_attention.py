"""Attention of whole sequences is correct with every option, and planted faults are reported."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tile_operator_checks import interpreted, is_found, kernel_of, outcome, sampled, sampled_with

from autosched.verify.schedules import verify_one
from cost_models.analytic import predict
from search_spaces.catalogue import problem_from_json
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.planning.splits import combining_loop
from search_spaces.spaces.schedule import Schedule
from search_spaces.tile_operators.attention import Attention
from search_spaces.tile_operators.tile_template import tile_template

SMALL = Attention(batch=2, heads=4, kv_heads=2, queries=100, head_size=32, dtype="f16")
CASES = {
    "plain": SMALL,
    "causal, sums": replace(SMALL, causal=1, log_sum_exp=1),
    "window after a prefix": replace(SMALL, causal=1, window=50, keys=130),
    "heads of 40, capped": replace(SMALL, head_size=40, value_size=40, soft_cap=2.0),
    "biased, with sinks": replace(SMALL, causal=1, alibi=1, sinks=1, log_sum_exp=1),
    "packed": replace(SMALL, causal=1, packed=1, batch=3, queries=150, keys=150, log_sum_exp=1),
    "packed, everything": replace(
        SMALL, causal=1, packed=1, batch=3, queries=150, keys=150, window=33, sinks=1, alibi=1, soft_cap=4.0
    ),
    "more queries than keys": replace(SMALL, causal=1, keys=60),
}
MODELS = {  # shapes of models, reduced to one group of heads and few positions
    "llama 3 8B": Attention(batch=1, heads=4, kv_heads=1, queries=200, causal=1),
    "deepseek v3, 192 and 128": Attention(
        batch=1, heads=1, kv_heads=1, queries=150, head_size=192, value_size=128, causal=1
    ),
    "gemma 2, capped window": Attention(
        batch=1, heads=2, kv_heads=1, queries=200, head_size=256, causal=1, window=128, soft_cap=50.0
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_interpreter_agrees_with_numpy(name: str) -> None:
    assert interpreted(CASES[name], 2)


@pytest.mark.parametrize(("name", "gpu"), [("packed, everything", "h100"), ("window after a prefix", "a100")])
def test_some_sampled_schedules(name: str, gpu: str) -> None:
    problem = replace(CASES[name], heads=2, kv_heads=1)
    for schedule in sampled(problem, gpu, 4):
        assert outcome(problem, kernel_of(problem, gpu, schedule)) == "ok", schedule


@pytest.mark.nightly
@pytest.mark.parametrize("gpu", ["a100", "h100"])
@pytest.mark.parametrize("name", [*CASES, *MODELS])
def test_sampled_schedules(name: str, gpu: str) -> None:
    problem = (CASES | MODELS)[name]
    for schedule in sampled(problem, gpu, 10):
        assert outcome(problem, kernel_of(problem, gpu, schedule)) == "ok", schedule


def test_tiles_that_tma_copies() -> None:
    problem = CASES["causal, sums"]
    schedule = next(
        s for s in sampled_with(problem, "h100", 1000, intrinsic="wgmma_m64k16_f16") if s.values["filled_by"] == "tma"
    )
    assert outcome(problem, kernel_of(problem, "h100", schedule)) == "ok"


def test_queries_without_keys_are_zero() -> None:
    problem = replace(SMALL, causal=1, keys=60, log_sum_exp=1)
    outputs = problem.reference(problem.random_inputs(1))
    assert not outputs["out"][:, :, :40].any() and np.all(outputs["lse"][:, :, :40] == -np.inf)
    assert np.all(np.isfinite(outputs["lse"][:, :, 40:]))


FAULTS = {
    "queries see the next key": ("<= p.rows(i + offset, bm)", "<= p.rows(i + offset + 1, bm)", "causal, sums"),
    "the window is one too long": ("offset - o.window), bm)", "offset - o.window - 1), bm)", "window after a prefix"),
    "values are not rescaled": ("values, acc * fade", "values, acc", "plain"),
    "sinks are not in the sums": ("total * fade + more_total", "total * fade", "biased, with sinks"),
    "slopes of the first head": ("more[name], (0, head)", "more[name], (0, 0)", "biased, with sinks"),
    "the next sequence is overwritten": ('{"rows_below": last} if o.packed', '{} if o.packed', "packed"),
    "keys of another group": ("group = head // (h // g)", "group = head // h", "plain"),
    "the cap is left out": ("p.tanh(z * (scale / o.soft_cap)) * o.soft_cap", "z * scale", "heads of 40, capped"),
    "logarithms to another base": ("* (1.0 / LOG2_E)", "* 1.0", "causal, sums"),
    "sums are not rescaled": ("total * fade + p.reduction", "total + p.reduction", "plain"),
    "the largest score is forgotten": ("            top.set(peak)\n        if", "        if", "plain"),
    "another scale": ("o.scale or d**-0.5", "o.scale or d**-0.4", "plain"),
    "the first keys are left out": ("start = begin\n", "start = begin + bn\n", "plain"),
    "the first keys of a window are left out": ("o.window + 1), 0) // bn * bn)", "o.window + 1), 0) // bn * bn + bn)",
                                                "window after a prefix"),
    "the last keys are left out": ("i + (bm + offset)) if o.causal", "i + offset) if o.causal", "causal, sums"),
    "queries of the first head": ("p.window(q[sequence][head], (i, 0)", "p.window(q[sequence][0], (i, 0)", "plain"),
    "keys and values are shifted by one": ("p.window(array, (j, column)", "p.window(array, (j + 1, column)", "plain"),
    "keys of the first sequence": ("(k[sequence][group], v[sequence][group])", "(k[0][group], v[0][group])", "plain"),
    "results of the first head": ("p.window(out[sequence][head], (i, 0)", "p.window(out[sequence][0], (i, 0)", "plain"),
    "logarithms without the largest score": ("(top * factor + p.log2(total))", "p.log2(total)", "causal, sums"),
    "weights do not add up to 1": ("acc * (1.0 / p.where(total == 0.0, 1.0, total))", "acc * 1.0", "plain"),
    "division by no keys": (
        "acc * (1.0 / p.where(total == 0.0, 1.0, total))",
        "acc * (1.0 / total)",
        "more queries than keys",
    ),
    "slopes twice as steep": ('.cast("f32") * slope', '.cast("f32") * (slope + slope)', "biased, with sinks"),
    "sinks to another base": ('of_head("sinks") * (LOG2_E / factor)', 'of_head("sinks") * LOG2_E',
                              "biased, with sinks"),
    "packed queries see the next key": ("begin + tile, s), end, 0", "begin + tile, s), end, 1", "packed"),
    "packed heads overlap": ("(i, head * d), (bm, wide)", "(i, head), (bm, wide)", "packed"),
    "scores are not divided by the cap": ("p.tanh(z * (scale / o.soft_cap))", "p.tanh(z * scale)",
                                            "heads of 40, capped"),
}  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str) -> None:
    old, new, case = FAULTS[fault]
    assert is_found(CASES[case], old, new)


@pytest.mark.parametrize("fault", ["slopes of the first head", "sums are not rescaled", "packed heads overlap"])
def test_some_planted_faults_are_found(fault: str) -> None:
    old, new, case = FAULTS[fault]
    assert is_found(CASES[case], old, new)


SHARED = replace(SMALL, heads=2, kv_heads=1, queries=70, keys=290, causal=1, log_sum_exp=1, sinks=1)


def sharing(problem: Attention, gpu: str, **values: str | int) -> Schedule:
    """Return a schedule that has ``values``, and in which several blocks share the keys of a tile."""
    way = values.get("intrinsic")
    drawn = sampled(problem, gpu, 3000) if way is None else sampled_with(problem, gpu, 3000, intrinsic=str(way))
    return next(s for s in drawn if s.integer("parts") > 1 and values.items() <= s.values.items())


@pytest.mark.parametrize(
    ("gpu", "values"),
    [
        ("a100", {"parts": 4, "split_launches": 1}),
        ("h100", {"parts": 2, "split_launches": 2, "intrinsic": "wgmma_m64k16_f16", "filled_by": "warp"}),
        ("b200", {"parts": 2, "split_launches": 1, "intrinsic": "tcgen05_m64k16_f16"}),
    ],
)
def test_blocks_share_keys(gpu: str, values: dict[str, str | int]) -> None:
    schedule = sharing(SHARED, gpu, **values)
    assert outcome(SHARED, kernel_of(SHARED, gpu, schedule)) == "ok"


def test_blocks_without_keys_leave_neutral_parts() -> None:
    problem = replace(SHARED, queries=300, keys=140, sinks=0)
    schedule = sharing(problem, "a100", parts=2, bm=64, bn=32)
    assert outcome(problem, kernel_of(problem, "a100", schedule)) == "ok"


def test_sharing_keys_is_predicted_to_pay_for_few_queries() -> None:
    problem, chip = Attention(1, 8, 8, 256, 16384, causal=1), device("h100")
    template = tile_template(Attention)
    schedule = sharing(problem, "h100", parts=8, bm=128, bn=64, min_blocks=1)
    assert template.counts is not None
    shared, alone = (
        predict(template.counts(problem, template.config(problem, s, chip), chip), chip)
        for s in (schedule, schedule.replace(parts=1, split_launches=1, unroll=1))
    )
    assert 4 * shared < alone


def test_tiles_do_not_depend_on_the_number_of_blocks_that_share_keys() -> None:
    choices = choices_of(SHARED.tile_problem())
    assert (tuple(choices.domains), choices.shaping) == (("bm", "bn", "parts"), ("bm", "bn"))


def test_a_reduced_problem_has_keys_for_each_part() -> None:
    problem = Attention(1, 8, 8, 256, 16384, causal=1)
    schedule = sharing(problem, "a100", parts=8, bm=64)
    small = tile_template(Attention).proxy(problem, schedule)  # type: ignore[misc]
    iterations = -(-small.keys // schedule.integer("bn"))
    assert 8 * schedule.integer("stages") < iterations < 8 * schedule.integer("stages") + 8


SQUARE = Attention(1, 8, 8, 4096, causal=1)


def test_reduced_problems_of_many_parts_have_no_more_work_than_those_of_two() -> None:
    """If both queries and keys were long enough for all parts, work would be quadratic in the number of parts."""
    template = tile_template(Attention)
    assert template.proxy is not None and template.long_proxy is not None
    for parts, most in ((2, 0.5e9), (8, 1e9), (16, 1e9)):
        schedule = sharing(SQUARE, "h100", parts=parts, bm=64, bn=64, stages=3)
        small, long = template.proxy(SQUARE, schedule), template.long_proxy(SQUARE, schedule)
        assert small.queries == small.keys and small.flops + (long.flops if long else 0.0) < most
        assert (long is None) == (parts == 2)
        if long:
            assert parts * 3 < long.keys // 64 < parts * 4 and long.queries == 128
            template.config(long, schedule, device("h100"))  # raises ValueError if the schedule is invalid


def test_a_fault_of_the_last_of_many_parts_is_found_on_the_longer_reduced_problem() -> None:
    problem = replace(SQUARE, queries=2048, keys=2048, heads=2, kv_heads=1, head_size=32, value_size=32)
    template, schedule = tile_template(Attention), sharing(problem, "h100", parts=8, bm=64, bn=32, stages=2)

    def faulty(problem: Any, config: Any, chip: Any) -> GeneratedKernel:
        kernel = template.lower(problem, config, chip)
        source = re.sub(r"(turn_\d+ < )7;", r"\g<1>6;", kernel.source)
        source = re.sub(r"(turn_\d+) < parts_of_tile - 1;", r"\1 < min(parts_of_tile - 1, 6);", source)
        assert source != kernel.source
        return replace(kernel, source=source)

    verdict = verify_one(replace(template, lower=faulty), problem, schedule, device("h100"))
    assert verdict.status == "wrong_result" and verdict.runs[-1].problem != verdict.problem


COMBINING_FAULTS = {
    "both parts are rescaled like the first": ("other[n] * second", "other[n] * first"),
    "parts are relative to the first one's maximum": ("peak = p.maximum(one[0], other[0])", "peak = one[0]"),
    "the first part's maximum is kept": ("return peak, *(", "return one[0], *("),
    "the first parts are forgotten": ("one[n] * first + other", "other"),
    "parts are not rescaled": ("one[n] * first + other[n] * second", "one[n] + other[n]"),
    "only the first part's sum of exponentials is kept": (
        "peak, *(one[n] * first + other[n] * second for n in (1, 2))",
        "peak, one[1], one[2] * first + other[2] * second",
    ),
    "sinks are relative to the largest score": ("fades(peak, top, sink)", "fades(top, top, sink)"),
}
PART_FAULTS = {  # text of the generated code
    "parts overlap": ("first_turn = split * all_turns / 4;", "first_turn = max(split * all_turns / 4 - 1, 0);"),
    "the last iteration is left out": ("(split + 1) * all_turns / 4", "(split + 1) * (all_turns - 1) / 4"),
    "the last part is left out": ("turn_{loop} < 3;", "turn_{loop} < 2;"),
    "parts are read before they are all there": ("if (!is_last_block", "if (split != 3 && !is_last_block"),
    "part 1 twice": ("parts + ((turn_{loop} + 1))", "parts + ((1))"),
}


@pytest.mark.nightly
@pytest.mark.parametrize("fault", COMBINING_FAULTS)
def test_faults_of_combining_are_found(fault: str) -> None:
    assert is_found(SHARED, *COMBINING_FAULTS[fault], parts=4, split_launches=1)


@pytest.mark.parametrize("fault", ["both parts are rescaled like the first", "the first part's maximum is kept"])
def test_some_faults_of_combining_are_found(fault: str) -> None:
    assert is_found(SHARED, *COMBINING_FAULTS[fault], parts=4, split_launches=1)


@pytest.mark.parametrize("fault", PART_FAULTS)
def test_faults_of_parts_are_found(fault: str) -> None:
    kernel = kernel_of(SHARED, "a100", sharing(SHARED, "a100", parts=4, split_launches=1, split_tiles="all"))
    loop = combining_loop(choices_of(SHARED.tile_problem()).first)
    old, new = (text.replace("{loop}", str(loop)) for text in PART_FAULTS[fault])
    assert old in kernel.source
    assert outcome(SHARED, replace(kernel, source=kernel.source.replace(old, new))) != "ok"


LONG = Attention(batch=1, heads=2, kv_heads=1, queries=300, head_size=32, dtype="f16", causal=1, log_sum_exp=1)
LONG_CASES = {
    "square": LONG,
    "after a prefix": replace(LONG, queries=170, keys=290, sinks=1),
    "more queries than keys": replace(LONG, keys=140),
    "window": replace(LONG, queries=260, keys=260, window=150, alibi=1),
}


def sharing_long_tiles(problem: Attention, gpu: str, **values: str | int) -> Schedule:
    return sharing(problem, gpu, split_tiles="long", **values)


@pytest.mark.parametrize(
    ("gpu", "values"),
    [
        ("a100", {"parts": 4, "block_order": "backward"}),
        ("h100", {"parts": 4, "intrinsic": "wgmma_m64k16_f16", "filled_by": "tma", "block_order": "zigzag"}),
        ("h100", {"parts": 2, "intrinsic": "wgmma_m64k16_f16", "filled_by": "warp"}),
        ("b200", {"parts": 2, "intrinsic": "tcgen05_m64k16_f16"}),
    ],
)
def test_more_blocks_share_the_keys_of_long_tiles(gpu: str, values: dict[str, str | int]) -> None:
    schedule = sharing_long_tiles(LONG, gpu, **values)
    assert outcome(LONG, kernel_of(LONG, gpu, schedule)) == "ok"


@pytest.mark.nightly
@pytest.mark.parametrize("gpu", ["t4", "a100", "h100", "b200"])
@pytest.mark.parametrize("name", LONG_CASES)
def test_sampled_schedules_that_share_long_tiles(name: str, gpu: str) -> None:
    problem = LONG_CASES[name]
    drawn = [s for s in sampled(problem, gpu, 300) if s.values["split_tiles"] == "long"]
    for schedule in drawn[:10]:
        assert outcome(problem, kernel_of(problem, gpu, schedule)) == "ok", schedule


def test_long_tiles_are_shared_by_several_blocks_in_one_launch() -> None:
    space = tile_template(Attention).space(LONG, device("a100")).valid
    schedule = sharing_long_tiles(LONG, "a100")
    space.validate(schedule)
    for change in ({"parts": 1}, {"split_launches": 2}):
        with pytest.raises(ValueError, match="split_tiles"):
            space.validate(schedule.replace(unroll=1, **change))


@pytest.mark.parametrize("options", [{"causal": 0}, {"packed": 1, "batch": 2}])
def test_tiles_of_one_or_an_unknown_length_are_shared_equally(options: dict[str, Any]) -> None:
    problem = replace(LONG, **options)
    names = [p.name for p in tile_template(Attention).space(problem, device("a100")).parameters]
    assert ("parts" in names, "split_tiles" in names) == (True, False)


LONG_FAULTS = {  # regular expressions that match the generated code
    "the last part is lost": (r"if \(split >= parts_of_tile\)", "if (split >= max(parts_of_tile - 1, 1))"),
    "parts overlap": (r"first_turn = (split \* all_turns / parts_of_tile)", r"first_turn = max(\1 - 1, 0)"),
    "the last iteration is left out": (r"\(split \+ 1\) \* all_turns /", "(split + 1) * (all_turns - 1) /"),
    "parts of short tiles start as if there were four parts": (
        r"split \* all_turns / parts_of_tile",
        "split * all_turns / 4",
    ),
    "the last part is not combined": (r"< parts_of_tile - 1;", "< parts_of_tile - 2;"),
    "parts are read before they are stored": ("if \\(!is_last_of", "if (split + 1 != parts_of_tile && !is_last_of"),
    "all tiles wait for four parts": (r"is_last_of(<\d+>)?\(parts_of_tile,", r"is_last_of\1(4,"),
    "masks of the first part": (r"= first_turn \+ own_turn;", "= own_turn;"),
    "keys of the first part": (r"\+ first_turn \* ", "+ 0 * "),
    "parts are stored in one place": (r"parts \+ split \* ", "parts + 0 * "),
    "a tile is left out": (r"(block_2 = .*\d+ - [^;]*);", r"\1 + (split == 1);"),
}


def long_fault_is_found(fault: str) -> bool:
    kernel = kernel_of(LONG, "a100", sharing_long_tiles(LONG, "a100", parts=4, bn=32, block_order="backward"))
    source, count = re.subn(*LONG_FAULTS[fault], kernel.source)
    assert count
    return outcome(LONG, replace(kernel, source=source)) != "ok"


@pytest.mark.nightly
@pytest.mark.parametrize("fault", LONG_FAULTS)
def test_faults_of_sharing_long_tiles_are_found(fault: str) -> None:
    assert long_fault_is_found(fault)


@pytest.mark.parametrize("fault", ["the last part is lost", "masks of the first part"])
def test_some_faults_of_sharing_long_tiles_are_found(fault: str) -> None:
    assert long_fault_is_found(fault)


def test_sharing_long_tiles_is_predicted_to_pay_if_sms_have_few_blocks() -> None:
    problem, chip = Attention(1, 8, 8, 2048, causal=1), device("h100")
    template = tile_template(Attention)
    way = {"intrinsic": "wgmma_m64k16_bf16", "filled_by": "tma", "home_q": "registers"}
    schedule = sharing_long_tiles(problem, "h100", parts=2, bm=64, bn=32, **way)
    schedule = schedule.replace(stages=4, min_blocks=3, raster="column", block_order="zigzag")
    assert template.counts is not None
    of_long, of_all, alone = (
        template.counts(problem, template.config(problem, s, chip), chip)
        for s in (schedule, schedule.replace(split_tiles="all"), schedule.replace(parts=1, split_tiles="all"))
    )
    assert (of_long.blocks, of_all.blocks, alone.blocks) == (384, 512, 256)  # 16 of 32 tiles are shared
    assert of_long.blocks * of_long.flops == pytest.approx(alone.blocks * alone.flops, rel=0.1)
    assert predict(of_long, chip) < 0.9 * min(predict(of_all, chip), predict(alone, chip))


@pytest.mark.parametrize("name", CASES)
def test_json_and_calls(name: str) -> None:
    problem = CASES[name]
    assert problem_from_json(problem.to_json()) == problem
    inputs = [o for o in problem.operands() if o.role == "input"]
    options = {name: getattr(problem, name) for name in (*Attention.call_options, "log_sum_exp")}
    shapes, types = {o.name: o.shape for o in inputs}, {o.name: o.dtype.name for o in inputs}
    assert Attention.of_arrays(shapes, types, **options) == problem


def test_invalid_problems_are_rejected() -> None:
    for wrong in (
        {"kv_heads": 3},
        {"head_size": 260},
        {"dtype": "f32"},
        {"window": 3},
        {"soft_cap": -1.0},
        {"sinks": 2},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            replace(SMALL, **wrong)


TURNS = Attention(batch=1, heads=2, kv_heads=1, queries=200, head_size=64, causal=1, log_sum_exp=1, dtype="f16")


def ping_pong(problem: Attention, count: int) -> list[Schedule]:
    """Return some schedules in which two warpgroups alternate (ping-pong)."""
    schedules = sampled_with(problem, "h100", 2000, intrinsic=f"wgmma_m64k16_{problem.dtype}")
    chosen = [s for s in schedules if s.values["ping_pong"]][:count]
    assert len(chosen) == count
    return chosen


def test_warpgroups_alternate_with_ping_pong() -> None:
    """Loops have 0, 1 or several iterations. In the second problem, some blocks of queries have no keys."""
    for problem in (TURNS, replace(TURNS, queries=300, keys=60)):
        for schedule in ping_pong(problem, 2):
            kernel = kernel_of(problem, "h100", schedule)
            assert {"tile::wait_for_turn(warp / 4);", "tile::pass_turn(warp / 4);"} <= {
                line.strip() for line in kernel.source.splitlines()
            }
            assert outcome(problem, kernel) == "ok", schedule


def test_warpgroups_alternate_over_a_part_of_the_keys() -> None:
    schedule = next(s for s in ping_pong(TURNS, 20) if s.integer("parts") > 1)
    assert outcome(TURNS, kernel_of(TURNS, "h100", schedule)) == "ok"


@pytest.mark.parametrize("left_out", ["tile::wait_for_turn(warp / 4);", "tile::end_turns(warp / 4);"])
def test_a_missing_ping_pong_barrier_is_reported(left_out: str) -> None:
    kernel = kernel_of(TURNS, "h100", ping_pong(TURNS, 1)[0])
    assert kernel.source.count(left_out) == 1
    assert outcome(TURNS, replace(kernel, source=kernel.source.replace(left_out, ""))) != "ok"


def test_ping_pong_requires_two_warpgroups_and_a_copying_warp() -> None:
    (schedule,) = ping_pong(TURNS, 1)
    space = tile_template(Attention).space(TURNS, device("h100")).valid
    space.validate(schedule)
    for change in ({"filled_by": "tma"}, {"subgroups_m_1": 4, "subgroups_m_2": 4}):
        with pytest.raises(ValueError, match="ping_pong"):
            space.validate(schedule.replace(**change))


def test_ping_pong_is_predicted_faster_for_large_tiles() -> None:
    sizes = {"heads": 64, "kv_heads": 64, "queries": 2048, "keys": 2048, "head_size": 128, "value_size": 128}
    chip, problem = device("h100"), replace(TURNS, **sizes)
    template = tile_template(Attention)
    schedules = [s for s in ping_pong(problem, 40) if s.values["bn"] == 128]
    assert template.counts is not None
    apart, together = (
        min(predict(template.counts(problem, template.config(problem, s, chip), chip), chip) for s in of)
        for of in (schedules, [s.replace(ping_pong=0) for s in schedules])
    )
    assert apart < together
