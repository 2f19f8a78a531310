"""Run random schedules of a tile program in the emulator."""

from __future__ import annotations

from collections.abc import Mapping

from random_schedules import random_schedule

from autosched.programs.loading import problem
from measurements.emulator import Order, emulate
from measurements.trials.comparison import check
from search_spaces.arrays import Array as NumpyArray
from search_spaces.hardware.devices import device
from search_spaces.programs.builder import Program
from search_spaces.programs.template import template


def outputs(
    tile_program: Program, where: str, inputs: Mapping[str, NumpyArray], seed: int, **sizes: int
) -> dict[str, NumpyArray]:
    """Return the outputs of a random schedule, after checking that they are within the interpreter's bounds."""
    p, own, gpu = problem(tile_program, **sizes), template(tile_program), device(where)
    assert own.why_not(p, gpu) is None
    schedule = random_schedule(own.space(p, gpu), seed)
    run = emulate(own.kernel(p, schedule, gpu), inputs, time_limit=60.0, order=Order("random", seed=seed))
    assert run.status == "ok", (run.reason, schedule)
    judged = check(p, inputs, run.outputs)
    assert judged.ok, (judged.reason, schedule)
    return dict(run.outputs)
