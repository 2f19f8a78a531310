"""The first choices of the time model, and NVIDIA's recommendations mapped into our space."""

from __future__ import annotations

import dataclasses

import pytest
from needs import needs_nvrtc

from autosched.samplers.first_choices.nvidia_heuristics import Configuration
from benchmarks.search.first_choices import compiled, first_choice, nearest_seconds
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul

H200 = device("h200")
PROBLEM = Matmul(4096, 4096, 4096, a="bf16", order_b="col")
THEIRS = Configuration((128, 256, 64), (64, 64, 64), 64, 4, 1, (2, 1), 1, False, 1e-4)


@pytest.mark.nightly
def test_the_first_choice_on_hopper_is_a_legal_schedule_of_wgmma() -> None:
    schedule, seconds = first_choice(PROBLEM, H200)
    assert schedule.template == "wgmma_matmul" and not list(
        template(schedule.template).space(PROBLEM, H200).explain(schedule)
    )
    assert PROBLEM.flops / H200.tensor_peak("bf16") < seconds < 2 * PROBLEM.flops / H200.tensor_peak("bf16")
    few = dataclasses.replace(PROBLEM, m=8)
    assert first_choice(few, H200)[1] > few.min_bytes / H200.dram_bandwidth


def test_a_configuration_of_cutlass_is_judged_as_its_nearest_schedule() -> None:
    small = dataclasses.replace(THEIRS, tile=(64, 64, 64), warp_tile=(64, 16, 64))
    near, far = nearest_seconds(PROBLEM, THEIRS, H200), nearest_seconds(PROBLEM, small, H200)
    assert near is not None and far is not None
    assert 0.9 * first_choice(PROBLEM, H200)[1] < near < far


@needs_nvrtc
def test_the_first_choice_neither_spills_nor_is_serialised() -> None:
    """The first choice used to spill, until rules excluded schedules that ptxas cannot fit into registers."""
    schedule, _ = first_choice(PROBLEM, H200)
    choice = compiled("square", PROBLEM, schedule, H200)
    assert choice.spilled == 0 and not choice.serialised and choice.cpu_seconds > 0
