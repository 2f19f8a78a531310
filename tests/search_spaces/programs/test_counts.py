"""What the time model counts of a tile program, beside what the emulator counts."""

from __future__ import annotations

import pytest

from autosched.programs.loading import load_program, problem
from measurements.emulator import emulate
from search_spaces.hardware.devices import device
from search_spaces.programs.planning.choices import choices
from search_spaces.programs.planning.numbers import numbers
from search_spaces.programs.schedules.counts import counts, work_of_values
from search_spaces.programs.template import template

A100 = device("a100")
CONVERTED = "../seeds/gemm_reduction.py"  # with a conversion that it asks for
CASES = [
    ("gemm_relu.py", {"m": 256, "n": 256, "k": 128}),
    ("rope_matmul.py", {"m": 128, "n": 128, "k": 128, "half": 64}),
    ("attention.py:attention", {"h": 2, "g": 2, "s": 256, "d": 64}),
    (CONVERTED, {"m": 256, "n": 512, "k": 64}),
]


@pytest.mark.parametrize(("place", "sizes"), CASES)
def test_tiles_change_hands_and_bytes_move_as_counted(place: str, sizes: dict[str, int]) -> None:
    made = load_program(f"examples/programs/{place}")
    p, own, found = problem(made, **sizes), template(made), 0
    for schedule in own.space(p, A100).sample(12, 3):
        if schedule.values.get("split_k", 1) != 1 or schedule.values.get("stream_k", 0):
            continue
        config = own.config(p, schedule, A100)
        run = emulate(own.kernel(p, schedule, A100), p.random_inputs(0))
        assert run.status == "ok", run.reason
        inferred, counted = choices(p).inference(config), counts(p, config, A100)
        exchanged = work_of_values(inferred, config, numbers(inferred, config)).exchanged(schedule.text("exchange"))
        words = sum(s.wavefronts for s in run.shared_sites if s.file == "autosched/tile/values.cuh")
        assert words == exchanged * counted.blocks, schedule
        moved = 32 * sum(s.sectors for s in run.global_sites)
        if place != CONVERTED:  # there a row that warps hold copies of is counted once
            assert moved == pytest.approx((counted.load_bytes + counted.store_bytes) * counted.blocks, rel=0.02)
        assert sum(s.wavefronts for s in run.shared_sites) <= counted.shared_wavefronts * counted.blocks
        found += words > 0
    assert found
