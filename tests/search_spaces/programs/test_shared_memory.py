"""The shared-memory plan of tile programs agrees with brute force.

The planned size is the largest sum of simultaneously live tiles, and live tiles do not overlap. A launch with less
memory is reported.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from cases import spread
from random_programs import random_program, random_tiles
from random_schedules import random_schedule, random_start

from autosched.programs.loading import load_program, problem
from autosched.tile import Builder, Input, Output, program
from benchmarks.search.tile_programs import SPACES
from measurements.emulator import emulate
from search_spaces.hardware.devices import Device, device
from search_spaces.hardware.dtypes import F16
from search_spaces.programs.language.ir import Array
from search_spaces.programs.lowering.emit import Emitter
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.planning.instructions import wgmma_name
from search_spaces.programs.planning.memory import (
    ALIGNMENT,
    EARLY_COPIES,
    Exchange,
    OuterLoop,
    SharedMemoryPlan,
    barrier_bytes,
    shared_tile_bytes,
)
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.template import template
from search_spaces.spaces.schedule import Schedule

EXAMPLES = Path(__file__).parents[3] / "examples"
A100, H100 = device("a100"), device("h100")
FEW = dataclasses.replace(A100, sm_count=2)
OUTSIDE = None  # key of the buffers that are live outside of loops


@dataclasses.dataclass(frozen=True)
class Buffer:
    name: str
    begin: int
    size: int

    @property
    def end(self) -> int:
        return self.begin + self.size


def moments(p: ProgramProblem, schedule: Schedule, where: Device) -> Iterator[list[Buffer]]:
    """Yield the live buffers at each moment: outside of loops, in each loop, and at each exchange of a kernel."""
    own = template(p.program)
    config = own.space(p, where).config(schedule)
    inference = choices_of(p).inference(config)
    used: list[tuple[int | None, Buffer]] = []

    class LoggedPlan(SharedMemoryPlan):
        def exchange(self, outer_loop: OuterLoop, which: Exchange) -> int:
            begin = super().exchange(outer_loop, which)
            used.append((outer_loop, Buffer(f"exchange {len(used)}", begin, self.exchanges[outer_loop][which])))
            return begin

    emitter = Emitter(inference, config, where)
    emitter.memory = LoggedPlan(**vars(emitter.memory))
    emitter.run()
    staged = list(emitter.staged.values())
    always = [
        Buffer(n.staged.name, emitter.memory.resident[n.staged.name], n.bytes) for n in staged if n.staged.loop is None
    ]
    for array in inference.trace.shared:
        size = shared_tile_bytes(array, config.text(f"layout_{array.name}"))
        always.append(Buffer(array.name, emitter.memory.shared[array.name], size))
    rings: dict[int | None, list[Buffer]] = {OUTSIDE: []}
    for loop in inference.loops:
        stage = sum(n.bytes for n in staged if n.staged.loop == loop)
        slots = range(emitter.stages.get(loop, 0))
        rings[loop] = [Buffer(f"slot {i}", emitter.memory.rings[loop] + i * stage, stage) for i in slots]
        if config.get(EARLY_COPIES, 0):
            rings[OUTSIDE] = rings[loop][:-1]  # early copies fill all slots except the last
    yield from ([*always, *ring] for ring in rings.values())
    yield from ([*always, *rings[loop], buffer] for loop, buffer in used)


def check(p: ProgramProblem, schedule: Schedule, where: Device) -> int:
    """Compare the plan with the live tiles at each moment, and return the number of exchanges."""
    config = template(p.program).space(p, where).config(schedule)
    choices = choices_of(p)
    barriers = barrier_bytes(choices.first) if choices.boxed_instructions(where) else 0
    planned, context = config.integer("shared_bytes") - barriers, (p, where.name, dict(schedule.items))
    living = list(moments(p, schedule, where))
    assert planned == max(sum(b.size for b in live) for live in living), context
    for live in living:
        assert max((b.end for b in live), default=0) <= planned, context
        for a, b in itertools.combinations(live, 2):
            assert a.end <= b.begin or b.end <= a.begin, (a, b, context)
    return sum(live[-1].name.startswith("exchange") for live in living if live)


@pytest.mark.parametrize(
    ("name", "where"),
    spread([(name, where) for name in SPACES for where in (A100, H100)], 10),
    ids=lambda x: getattr(x, "name", x),
)
def test_examples(name: str, where: Device) -> None:
    p = problem(load_program(str(EXAMPLES / name)), **SPACES[name])
    space = template(p.program).space(p, where)
    for seed in range(8):
        check(p, random_schedule(space, seed), where)


def test_random_programs() -> None:
    """The programs have loops with and without rings, sums combined in or after loops, and many exchanges."""
    exchanges = 0
    for seed in range(25):
        p = problem(random_program(seed), m=100, n=72, k=80)
        exchanges += check(p, random_schedule(template(p.program).space(p, A100), seed), A100)
        p = problem(random_tiles(seed), m=192, n=768)
        exchanges += check(p, random_schedule(template(p.program).space(p, A100), seed), A100)
    assert exchanges > 40


def test_barriers_of_many_rings() -> None:
    """Four rings of five stages need more mbarriers than fit into 256 bytes."""

    @program(x=Input("m k", "f16"), y=Input("k n", "f16"), out=Output("m n", "f32"))
    def powers(p: Builder, x: Array, y: Array, out: Array) -> None:
        i, j = p.blocks(out.shape, (64, 64))
        total = p.zeros((64, 64))
        for _ in range(4):
            acc = p.state(p.zeros((64, 64)))
            for at in p.steps(x.shape[1], 64):
                left, right = p.load(p.window(x, (i, at), (64, 64))), p.load(p.window(y, (at, j), (64, 64)))
                acc.set(p.mma(left, right, acc))
            total = total + acc
        p.store(total, p.window(out, (i, j), (64, 64)))

    p = problem(powers, m=64, n=64, k=512)
    space = template(p.program).space(p, H100)
    values = {f"stages_{i + 1}": 5 for i in range(4)} | {"intrinsic": wgmma_name(F16), "filled_by": "warp"}
    values |= {"subgroups_m": 4, "subgroups_n": 1}
    schedule = random_start(space, 1, values)
    assert schedule is not None
    config = space.config(schedule)
    emitter = Emitter(choices_of(p).inference(config), config, H100)
    emitter.run()
    assert 256 < emitter.barriers <= barrier_bytes(emitter.inference)
    assert emitter.memory.barriers + emitter.barriers <= config.integer("shared_bytes")


def test_rings_that_are_filled_early() -> None:
    """The copies for a block's next range of k do not overlap the exchange of the block's results."""
    early = 0
    for seed in range(16):
        p = problem(load_program(str(EXAMPLES / "programs/gemm_relu.py")), m=700, n=640, k=512)
        values = {"stream_k": 1, "store_1": "turned", "bm": 64, "bn": 64}
        schedule = random_start(template(p.program).space(p, FEW), seed, values)
        if schedule is not None:
            check(p, schedule, FEW)
            early += template(p.program).space(p, FEW).config(schedule).integer(EARLY_COPIES)
    assert early >= 3


@pytest.mark.parametrize(
    ("name", "sizes"),
    spread(
        [
            ("programs/gemm_relu.py", {"m": 67, "n": 75, "k": 640}),
            ("programs/layernorm_matmul.py", {"m": 70, "n": 72, "k": 360}),
            ("programs/attention.py:causal_attention", {"h": 2, "g": 2, "s": 96, "d": 32}),
            ("seeds/gemm_shared.py", {"m": 130, "n": 132, "k": 136}),
            ("seeds/gemm_reduction.py", {"m": 150, "n": 264, "k": 72}),
            ("seeds/nested_layout.py:through_shared_memory", {"m": 66, "n": 60}),
            ("programs/cross_entropy.py", {"m": 6, "n": 1100}),
        ],
        3,
    ),
)
def test_one_unit_less_of_shared_memory_is_out_of_bounds(name: str, sizes: dict[str, int]) -> None:
    """If shared memory is one allocation unit smaller, the emulator reports an access beyond its end."""
    p = problem(load_program(str(EXAMPLES / name)), **sizes)
    kernel = template(p.program).kernel(p, random_schedule(template(p.program).space(p, A100), 1), A100)
    planned, inputs = kernel.dynamic_shared_bytes, p.random_inputs(1)
    assert emulate(kernel, inputs, time_limit=60.0).status == "ok"
    short = emulate(dataclasses.replace(kernel, dynamic_shared_bytes=planned - ALIGNMENT), inputs, time_limit=60.0)
    assert "out_of_bounds_shared" in short.reason
