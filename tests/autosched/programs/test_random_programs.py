"""Random tile programs and schedules: emulation has no findings, and results are within the interpreter's bounds."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from random_carried import random_carried
from random_programs import random_loops, random_program, random_tiles
from random_schedules import random_schedule, random_start

from autosched.programs.loading import problem
from measurements.emulator import ASCENDING, Order, emulate
from measurements.trials.comparison import check as check_outputs
from search_spaces.hardware.devices import Device, device
from search_spaces.programs.language import ir
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.template import template
from search_spaces.spaces.schedule import Schedule

A100 = device("a100")
# for each unit that multiplies swizzled boxes in shared memory, a device that has the unit
BOXED = {"wgmma": device("h100"), "tcgen05": device("b200")}
FEW = dataclasses.replace(A100, sm_count=2)


LOWERED, MOST_LOWERED = 20, 50  # number of lowered schedules per program, by default and nightly


def check_tiles(seed: int, orders: int = 1, lowered: int = LOWERED) -> None:
    rng = random.Random(-seed)
    program = random_tiles(seed)
    p = problem(program, m=rng.randint(1, 130), n=rng.choice((8, 24, 96, 130, 77)))
    if "outside of the array" in (template(program).why_not(p, A100) or ""):
        p = problem(program, m=192, n=768)  # multiples of all tile shapes, so that no access is outside
    lower(p, seed, lowered)
    verify(p, seed, orders)


def check(seed: int, orders: int = 1, lowered: int = LOWERED) -> None:
    rng = random.Random(-seed)
    p = problem(random_program(seed), **{name: rng.randint(1, 130) for name in "mnk"})
    lower(p, seed, lowered)
    verify(p, seed, orders)


def lower(p: ProgramProblem, seed: int, schedules: int) -> None:
    """Lower random schedules of a program, without compiling them."""
    kernel_template = template(p.program)
    assert kernel_template.why_not(p, A100) is None
    space = kernel_template.space(p, A100)
    for number in range(schedules):
        kernel_template.kernel(p, random_schedule(space, seed + number), A100)


def loops(seed: int) -> ProgramProblem:
    """Return a program with random loops, and sizes for it."""
    rng, program = random.Random(-seed), random_loops(seed)
    sizes = {"m": rng.choice((40, 64, 77, 128)), "n": rng.choice((16, 32, 50, 64, 96))}
    p = problem(program, **sizes, k=rng.choice((16, 48, 64, 96)), q=rng.choice((32, 40, 64)), fixed=64)
    if "outside of the array" in (template(program).why_not(p, A100) or ""):
        p = problem(program, m=128, n=rng.choice((64, 128)), k=rng.choice((64, 96)), q=64, fixed=64)
    return p


def check_loops(seed: int, orders: int = 1, lowered: int = LOWERED) -> None:
    lower(loops(seed), seed, lowered)
    verify(loops(seed), seed, orders)


def carried(seed: int) -> ProgramProblem:
    """Return a problem whose program has loops that carry states of every shape."""
    rng, program = random.Random(-seed), random_carried(seed)
    p = problem(program, m=rng.choice((40, 77, 96, 130)), n=rng.choice((24, 40, 66, 96)), k=rng.choice((32, 40)))
    if "outside of the array" in (template(program).why_not(p, A100) or ""):
        trace = p.usual_trace()
        step = next(o.step for o, _ in trace.walk() if isinstance(o, ir.Loop))
        p = problem(program, m=2 * trace.tile[0], n=2 * step, k=32)
    return p


def check_carried(seed: int, schedules: int, orders: int = 1) -> None:
    """Lower some schedules of a program, and verify the first schedule."""
    p = carried(seed)
    kernel_template = template(p.program)
    for schedule in kernel_template.space(p, A100).sample(schedules, seed):
        kernel_template.kernel(p, schedule, A100)
    verify(p, seed, orders)


def by_boxes(p: ProgramProblem, seed: int, unit: str) -> Schedule | None:
    """Return a schedule that multiplies with ``unit`` (wgmma or tcgen05), or None if the program has none."""
    space = template(p.program).space(p, BOXED[unit])
    intrinsics = next(q for q in space.parameters if q.name == "intrinsic").values
    candidates = (
        random_start(space, seed, {"intrinsic": intrinsic})
        for intrinsic in intrinsics
        if str(intrinsic).startswith(unit)
    )
    return next((schedule for schedule in candidates if schedule is not None), None)


def check_loops_by_boxes(seed: int, unit: str, orders: int = 1) -> bool:
    """Run ``check_loops`` with ``unit`` (wgmma or tcgen05). Return False if the program cannot use the unit."""
    p = loops(seed)
    schedule = by_boxes(p, seed, unit)
    if schedule is not None:
        verify(p, seed, orders, BOXED[unit], schedule)
    return schedule is not None


def check_boxes(seed: int, unit: str, orders: int = 1) -> None:
    """Run ``check`` with ``unit`` (wgmma or tcgen05) if the program can use the unit."""
    rng = random.Random(-seed)
    p = problem(random_program(seed), **{name: rng.choice((8, 16, 40, 64, 72, 130)) for name in "mnk"})
    schedule = by_boxes(p, seed, unit)
    if schedule is not None:
        verify(p, seed, orders, BOXED[unit], schedule)


def check_buffered(seed: int, orders: int = 1) -> bool:
    """Run ``check`` with two fragment buffers. Return False if the program's steps do not allow them."""
    rng = random.Random(-seed)
    p = problem(random_program(seed), **{name: rng.choice((8, 16, 40, 64, 72, 128)) for name in "mnk"})
    space = template(p.program).space(p, A100)
    copies: dict[str, int | str] = {q.name: "cp.async" for q in space.parameters if "cp.async" in q.values}
    schedule = random_start(space, seed, {**copies, "fragment_buffers": 2})
    if schedule is not None:
        verify(p, seed, orders, schedule=schedule)
    return schedule is not None


def check_streamed(seed: int, orders: int = 1) -> str:
    """Run ``check`` with stream-K on few SMs. Return the source, or "" if the program cannot use stream-K."""
    rng = random.Random(-seed)
    p = problem(random_program(seed), **{name: rng.randint(60, 130) for name in "mnk"})
    schedule = random_start(template(p.program).space(p, FEW), seed, {"stream_k": 1})
    if schedule is None:
        return ""
    verify(p, seed, orders, FEW, schedule)
    return template(p.program).kernel(p, schedule, FEW).source


def verify(p: ProgramProblem, seed: int, orders: int, where: Device = A100, schedule: Schedule | None = None) -> None:
    """Verify that a schedule (by default a random one) gives the interpreter's results within their bounds."""
    kernel_template = template(p.program)
    reason = kernel_template.why_not(p, where)
    assert reason is None, reason
    inputs = p.random_inputs(seed)
    reference, tolerance = p.expected(inputs)
    schedule = schedule or random_schedule(kernel_template.space(p, where), seed)
    kernel, case = kernel_template.kernel(p, schedule, where), f"seed {seed}, {p.sizes}, {schedule}"
    for order in (ASCENDING, Order("random", seed=seed))[:orders]:
        run = emulate(kernel, inputs, time_limit=60.0, order=order)
        assert run.status == "ok", (run.reason, case)
        if any(np.isinf(bounds).any() for bounds in tolerance.values()):
            continue  # no finite bounds, since sums over iterations amplify rounding errors
        result = check_outputs(p, inputs, run.outputs, reference=reference, tolerance=tolerance)
        assert result.ok, (result.reason, case)


# By default, 180 random programs run in this file and 20 in ``test_joins``. Nightly, over 10,000 programs run, also in
# random thread order.


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", range(60))
def test_random_tiles(seed: int) -> None:
    check_tiles(seed)


@pytest.mark.parametrize("seed", range(24))
def test_random_loops(seed: int) -> None:
    check_loops(seed)


@pytest.mark.parametrize("seed", range(16))
def test_random_carried_states(seed: int) -> None:
    check_carried(seed, LOWERED)


@pytest.mark.parametrize("unit", BOXED)
def test_random_loops_by_boxes(unit: str) -> None:
    assert sum(check_loops_by_boxes(seed, unit) for seed in range(5)) >= 1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("unit", BOXED)
def test_random_programs_by_boxes(unit: str, seed: int) -> None:
    check_boxes(seed, unit)


def test_random_programs_with_two_buffers_of_fragments() -> None:
    assert sum(check_buffered(seed, orders=2) for seed in range(16)) >= 2


def test_random_programs_with_stream_k() -> None:
    """Some programs copy the operands of a block's next range of k in advance; others do not."""
    sources = [check_streamed(seed, orders=2) for seed in range(8)]
    early = ["start(next);" in source for source in sources if source]
    assert any(early) and not all(early)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1000, 1500))
def test_many_random_programs_with_stream_k(seed: int) -> None:
    check_streamed(seed, orders=2)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(1000, 1500, 20))
def test_many_random_programs_with_two_buffers_of_fragments(first: int) -> None:
    assert any([check_buffered(seed, orders=2) for seed in range(first, first + 20)])


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1000, 1500))
@pytest.mark.parametrize("unit", BOXED)
def test_many_random_programs_by_boxes(unit: str, seed: int) -> None:
    check_boxes(seed, unit, orders=2)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1000, 6000))
def test_many_random_carried_states(seed: int) -> None:
    check_carried(seed, MOST_LOWERED, orders=2)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1000, 2000))
def test_many_random_loops(seed: int) -> None:
    check_loops(seed, orders=2, lowered=MOST_LOWERED)


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(1000, 1500, 20))
@pytest.mark.parametrize("unit", BOXED)
def test_many_random_loops_by_boxes(unit: str, first: int) -> None:
    assert any([check_loops_by_boxes(seed, unit, orders=2) for seed in range(first, first + 20)])


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1000, 3000))
def test_many_random_programs(seed: int) -> None:
    check(seed, orders=2, lowered=MOST_LOWERED)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1000, 4000))
def test_many_random_tiles(seed: int) -> None:
    check_tiles(seed, orders=2, lowered=MOST_LOWERED)
