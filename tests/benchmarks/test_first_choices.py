"""The first choices of the time model, and NVIDIA's mapped into our space."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

from benchmarks.first_choices import first_choice, nearest
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul

H200 = device("h200")
PROBLEM = Matmul(4096, 4096, 4096, a="bf16", order_b="col")
THEIRS = SimpleNamespace(cta_tile_m=128, cta_tile_n=256, cta_tile_k=64, cluster_m=2, cluster_n=1, stages=4, split_k=1)


def test_the_first_choice_on_hopper_is_a_legal_schedule_of_wgmma() -> None:
    schedule, seconds = first_choice(PROBLEM, H200)
    assert schedule.template == "wgmma_matmul" and not list(
        template(schedule.template).space(PROBLEM, H200).explain(schedule)
    )
    assert PROBLEM.flops / H200.tensor_peak("bf16") < seconds < 2 * PROBLEM.flops / H200.tensor_peak("bf16")
    few = dataclasses.replace(PROBLEM, m=8)
    assert first_choice(few, H200)[1] > few.min_bytes / H200.dram_bandwidth


def test_a_configuration_of_cutlass_becomes_the_nearest_schedule() -> None:
    found = nearest(PROBLEM, THEIRS, H200)
    assert found is not None
    values = dict(found[0].items)
    assert {name: values[name] for name in ("tile_m", "tile_n", "tile_k", "cluster_m", "cluster_n", "split_k")} == {
        **{"tile_m": 128, "tile_n": 256, "tile_k": 64, "cluster_m": 2, "cluster_n": 1, "split_k": 1}
    }
    assert values["stages"] in (3, 4) and not list(template("wgmma_matmul").space(PROBLEM, H200).explain(found[0]))
    assert nearest(PROBLEM, SimpleNamespace(**{**vars(THEIRS), "cta_tile_m": 96}), H200) is None
    assert nearest(dataclasses.replace(PROBLEM, k=4099), THEIRS, H200) is None
