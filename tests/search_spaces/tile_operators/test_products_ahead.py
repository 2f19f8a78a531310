"""Attention whose first product is computed one iteration ahead is correct. Planted faults are reported."""

from __future__ import annotations

from dataclasses import replace

import pytest
from edited_kernel import edited_kernel
from tile_operator_checks import kernel_of, outcome, sampled_with

from cost_models.analytic import predict
from search_spaces.hardware.devices import device
from search_spaces.spaces.schedule import Schedule
from search_spaces.tile_operators.attention import Attention
from search_spaces.tile_operators.tile_template import tile_template

SMALL = Attention(batch=1, heads=2, kv_heads=1, queries=200, head_size=64, causal=1, log_sum_exp=1, dtype="f16")
RING = "autosched/tile/box_ring.cuh"


def ahead(problem: Attention, count: int, **values: str | int) -> list[Schedule]:
    """Return some schedules that have ``values``, and that compute their first product one iteration ahead."""
    drawn = sampled_with(problem, "h100", 3000, intrinsic=f"wgmma_m64k16_{problem.dtype}")
    schedules = [s for s in drawn if s.values["products_ahead"] and values.items() <= s.values.items()][:count]
    assert len(schedules) == count
    return schedules


@pytest.mark.parametrize("filled_by", ["tma", "warp"])
def test_loops_of_no_one_and_several_iterations(filled_by: str) -> None:
    for problem in (SMALL, replace(SMALL, queries=300, keys=60)):
        (schedule,) = ahead(problem, 1, filled_by=filled_by)
        assert outcome(problem, kernel_of(problem, "h100", schedule)) == "ok", schedule


def test_blocks_that_share_a_tile() -> None:
    (schedule,) = ahead(SMALL, 1, parts=2, split_tiles="long")
    assert outcome(SMALL, kernel_of(SMALL, "h100", schedule)) == "ok"


@pytest.mark.nightly
@pytest.mark.parametrize(
    "problem",
    [
        SMALL,
        replace(SMALL, head_size=128, value_size=128, dtype="bf16"),
        replace(SMALL, causal=0, soft_cap=2.0, sinks=1, alibi=1),
        replace(SMALL, keys=330, window=90),
        replace(SMALL, packed=1, batch=3),
    ],
    ids=["causal", "heads of 128", "capped, with sinks", "window", "packed"],
)
def test_sampled_schedules(problem: Attention) -> None:
    for schedule in ahead(problem, 30):
        assert outcome(problem, kernel_of(problem, "h100", schedule)) == "ok", schedule


FAULTS = {
    "the last product is not awaited": ("warp", RING, "    ptx::wgmma_wait_group<0>();  // the last product", "    //"),
    "the results of the first product are not awaited": ("tma", "", "ptx::wgmma_wait_group<1>();\n", "\n"),
    "a stage is filled while warps read it": ("tma", RING, "if (gives_back) ptx::barrier_sync();", ""),
    "a stage is read before it is filled": ("tma", RING, "fill();\n        wait_phase(stage.full(), stage.parity);",
                                            "fill();"),
    "a stage is read before the copying warp fills it": (
        "warp", RING, "unreleased = stage.empty();\n        wait_phase(stage.full(), stage.parity);",
        "unreleased = stage.empty();"),
    "no stage is released": ("warp", RING, "          if (lane == 0) ptx::mbarrier_arrive(unreleased);\n", ""),
    "the stage in use is released": ("warp", RING, "mbarrier_arrive(unreleased)", "mbarrier_arrive(stage.empty())"),
    "the bytes of both operands are always expected": ("warp", RING, "(t > 0 ? Last::tma_bytes : 0)",
                                                       "Last::tma_bytes"),
    "values are those of the next iteration": ("tma", RING, "    if (t > 0) last.advance();", "    last.advance();"),
    "the last iteration has no values": ("warp", RING, "  for (int t = 0; t <= steps; ++t, stage",
                                         "  for (int t = 0; t < steps; ++t, stage"),
    "the last sums are read in flight": ("tma", RING, "  body(More<false>{}, stage.tile, steps - 1, ready);\n"
                                         "  ptx::wgmma_wait_group<0>();",
                                         "  body(More<false>{}, stage.tile, steps - 1, ready);"),
}  # fmt: skip
QUICK = ("the last product is not awaited", "a stage is filled while warps read it", "no stage is released")


def is_reported(fault: str) -> bool:
    filled_by, header, old, new = FAULTS[fault]
    schedule = ahead(SMALL, 1, filled_by=filled_by, parts=1, subgroups_m_1=8)[0]  # two warpgroups
    kernel = kernel_of(SMALL, "h100", schedule)
    return outcome(SMALL, edited_kernel(kernel, header, old, new)) != "ok"


@pytest.mark.parametrize("fault", QUICK)
def test_some_faults_are_reported(fault: str) -> None:
    assert is_reported(fault)


@pytest.mark.nightly
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_reported(fault: str) -> None:
    assert is_reported(fault)


@pytest.mark.parametrize("change", [{"filled_by": "threads"}, {"stages": 1}])
def test_a_product_cannot_run_ahead_without_tma_and_two_stages(change: dict[str, str | int]) -> None:
    (schedule,) = ahead(SMALL, 1)
    with pytest.raises(ValueError, match="products_ahead"):
        tile_template(Attention).space(SMALL, device("h100")).valid.validate(schedule.replace(**change))


def test_running_ahead_is_predicted_to_pay() -> None:
    problem, chip = Attention(1, 8, 8, 2048, causal=1), device("h100")
    template = tile_template(Attention)
    schedule = ahead(problem, 1, bm=64, bn=32, home_q="registers", filled_by="tma", min_blocks=3)[0]
    assert template.counts is not None
    apart, together = (
        template.counts(problem, template.config(problem, s, chip), chip)
        for s in (schedule, schedule.replace(products_ahead=0))
    )
    assert (apart.exposed_products, together.exposed_products) == (0.5, 1.0)
    assert apart.registers > together.registers
    assert predict(apart, chip) < predict(together, chip)
