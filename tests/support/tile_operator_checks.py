"""Check operators with tile programs: sampled schedules in the emulator, and faults planted in the program."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import cast

import numpy as np

from benchmarks.emulator.planted_fault import with_faulty_program
from measurements.emulator import emulate
from measurements.trials.comparison import check
from search_spaces.arrays import Array
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.spaces.ranks import draw_ranks
from search_spaces.spaces.schedule import Schedule
from search_spaces.tile_operators.tile_problem import TileOperator
from search_spaces.tile_operators.tile_template import tile_template


def outcome(problem: TileOperator, kernel: GeneratedKernel, inputs: Mapping[str, Array] | None = None) -> str:
    """Return "ok", the status of a failed emulation, or "wrong" if a result exceeds the operator's tolerance."""
    inputs = problem.random_inputs(1) if inputs is None else inputs
    run = emulate(kernel, inputs, time_limit=60.0)
    if run.status != "ok":
        return str(run.status)
    return "ok" if check(problem, inputs, run.outputs).ok else "wrong"


def sampled(problem: TileOperator, gpu: str, count: int, seed: int = 1) -> list[Schedule]:
    """Return some schedules of a problem on a device."""
    template, chip = tile_template(type(problem)), device(gpu)
    assert template.why_not(problem, chip) is None
    return template.space(problem, chip).sample(count, seed)


def sampled_with(problem: TileOperator, gpu: str, count: int, **values: str) -> list[Schedule]:
    """Return some schedules of the stratum in which parameters such as ``intrinsic`` have the given values."""
    space = tile_template(type(problem)).space(problem, device(gpu))
    stratum_values = tuple(values[name] for name in space.stratifying)
    ranks = next(stratum.ranks for stratum in space.strata if stratum.values == stratum_values)
    drawn = draw_ranks(len(ranks), count, 1, False)
    return space.schedules(space.unrank([ranks[int(at)] for at in drawn]))


def sampled_persistent(problem: TileOperator, gpu: str, count: int, intrinsic: str, **values: str) -> list[Schedule]:
    """Return some schedules with persistent blocks, which pruning rejects for problems with few tiles.

    The schedules have the given values and multiply with ``intrinsic``. The result may have fewer than ``count``.
    """
    drawn = (s for s in sampled_with(problem, gpu, 500, intrinsic=intrinsic) if values.items() <= s.values.items())
    return [schedule.replace(persistent=1) for schedule in islice(drawn, count)]


def kernel_of(problem: TileOperator, gpu: str, schedule: Schedule) -> GeneratedKernel:
    return tile_template(type(problem)).kernel(problem, schedule, device(gpu))


def interpreted(problem: TileOperator, seed: int) -> bool:
    """Return True if the tile-program interpreter's result is within its error bounds of the reference."""
    inputs = problem.random_inputs(seed)
    reference = problem.reference(inputs)
    values, bounds = problem.interpreted(inputs)
    for name, value in reference.items():
        actual, bound = values[name].reshape(value.shape), bounds[name].reshape(value.shape)
        with np.errstate(invalid="ignore"):
            near = np.abs(actual - value) <= bound
        if not np.all(near | (np.isnan(actual) & np.isnan(value))):
            return False
    return True


def is_found(problem: TileOperator, old: str, new: str, gpu: str = "a100", seed: int = 1, **values: str | int) -> bool:
    """Return True if a planted fault is rejected, or detected with random inputs or edge cases.

    The schedule is the first sampled one that has ``values``.
    """
    faulty = cast(TileOperator, with_faulty_program(problem, old, new))
    if tile_template(type(faulty)).why_not(faulty, device(gpu)) is not None:
        return True
    drawn = sampled(problem, gpu, 1000 if values else 1, seed)
    schedule = next(s for s in drawn if values.items() <= s.values.items())
    try:
        kernel = kernel_of(faulty, gpu, schedule)
    except ValueError:  # the fault has changed the space, so this schedule is not legal
        kernel = kernel_of(faulty, gpu, sampled(faulty, gpu, 1, seed)[0])
    if outcome(problem, kernel) != "ok":
        return True
    return any(outcome(problem, kernel, input_set.inputs) != "ok" for input_set in problem.stress_inputs(1))
