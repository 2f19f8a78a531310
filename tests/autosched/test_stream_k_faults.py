"""Stream-K of mma.sync matmuls: the kernel is right, and every fault planted in it is found by emulating one case."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from header_edits import edited
from kernels import generate
from needs import needs_compiler, needs_nvrtc

from measurements.emulator import FindingKind, emulate
from measurements.emulator.order import Order, OrderKind
from measurements.verification import check
from search_spaces.catalogue import problem_from_json
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.kernel import Kernel

pytestmark = [needs_compiler, needs_nvrtc]

GOLDEN = Path(__file__).parents[1] / "golden" / "mma_f16_stream_k.json"
K = FindingKind
WRONG = "wrong numbers"
KERNEL, COMMON = "autosched/kernels/matmul.cuh", "autosched/common/stream_k.cuh"


@cache
def small_kernel(several: bool = False, fragment_buffers: int = 2, epilogue: str = "shared") -> tuple[Matmul, Kernel]:
    """Five tiles for two blocks: three that are dealt out, of which one is shared, and a whole one of each block. With
    ``several``, twelve tiles for five blocks, of which four pairs share one."""
    data = json.loads(GOLDEN.read_text())
    problem = problem_from_json(data["problem"])
    changes = {"fragment_buffers": fragment_buffers, "epilogue": epilogue}
    schedule = Schedule.from_json("matmul", {**data["schedule"], **changes})
    assert isinstance(problem, Matmul)
    if several:
        problem = dataclasses.replace(problem, m=192, n=200, k=264)
    return problem, generate(problem, schedule, device(data["device"]))


@dataclass(frozen=True)
class Fault:
    """``old`` becomes ``new`` in a header; emulation must find one of ``found``, with the blocks in the order
    ``blocks``."""

    name: str
    old: str
    new: str
    found: tuple[str, ...]
    header: str = KERNEL
    blocks: OrderKind = "ascending"
    several: bool = False
    fragment_buffers: int = 2
    epilogue: str = "shared"

    def kernel(self) -> tuple[Matmul, Kernel]:
        problem, kernel = small_kernel(self.several, self.fragment_buffers, self.epilogue)
        headers = edited(kernel.headers, self.header, self.old, self.new)
        return problem, dataclasses.replace(kernel, headers=headers)


FAULTS = (
    Fault("the next tile is not waited for",
          "ptx::barrier_sync();  // everybody has read what the next tile overwrites",
          "", (K.SHARED_RACE,), epilogue="registers"),
    Fault("the part is not waited for", "ptx::barrier_sync();  // the part is kept", "", (K.SHARED_RACE,)),
    Fault("no fence before the sums are told to be stored",
          "ptx::fence_gpu();  // cumulative: orders what the barrier has ordered before it, too (PTX ISA 8.9)", "",
          (K.GLOBAL_RACE,), COMMON),
    Fault("the flag is in a k-tile that is read",
          "      if (work.count < C::tiles_k) {\n        ptx::barrier_sync();  // everybody has read the last k-tile",
          "      if (work.count < C::tiles_k) {",
          (K.SHARED_RACE,), several=True, fragment_buffers=1),
    Fault("every part begins with the start of its tile", "k0 = work.first * C::tile_k",
          "k0 = 0 * C::tile_k", (WRONG,)),
    Fault("a part has all k-tiles", "work.count = int(kept.word[2]);", "", (WRONG, K.LOST_WRITE, K.GLOBAL_RACE)),
    Fault("whole tiles are shared", "if (work.count < C::tiles_k) {", "if (true) {",
          (K.WORKSPACE_NOT_ZERO, K.UNWRITTEN_OUTPUT, K.OUT_OF_BOUNDS_GLOBAL, WRONG)),
    Fault("parts of tiles are stored alone", "if (work.count < C::tiles_k) {", "if (false) {",
          (WRONG, K.LOST_WRITE, K.GLOBAL_RACE)),
    Fault("all pairs have one place", "const int cut = part.cut(int(blockIdx.x));", "const int cut = 0;",
          (WRONG, K.UNWRITTEN_OUTPUT, K.GLOBAL_RACE), blocks="descending", several=True),
    Fault("all pairs share their counters", "counters + 2 * cut", "counters",
          (WRONG, K.UNWRITTEN_OUTPUT, K.GLOBAL_RACE, K.WORKSPACE_NOT_ZERO), blocks="descending", several=True),
    Fault("the thread of another", "int(threadIdx.x) + int(kept.word[3])", "int(threadIdx.x) + int(kept.word[1])",
          (WRONG, K.OUT_OF_BOUNDS_SHARED, K.OUT_OF_BOUNDS_GLOBAL, K.SHARED_RACE)),
    Fault("what is left overlaps the part", "walk_at = C::shared_bytes - 16", "walk_at = C::shared_bytes - 20",
          (WRONG, K.MISALIGNED_ACCESS, K.UNWRITTEN_OUTPUT)),
    Fault("the part overlaps a k-tile", "part_at = C::shared_bytes - 32", "part_at = C::shared_bytes - 48",
          (WRONG, K.OUT_OF_BOUNDS_SHARED, K.UNWRITTEN_OUTPUT)),
    Fault("a whole tile is left out", "dealt_tiles + worker};", "dealt_tiles + worker + 1};", (K.UNWRITTEN_OUTPUT,),
          COMMON),
    Fault("whole tiles are the neighbour's, too", "whole += Workers;", "whole += Workers - 1;",
          (K.LOST_WRITE, K.GLOBAL_RACE), COMMON),
    Fault("the tickets are not taken back", "ptx::atomic_add(tickets, -2u);", "", (K.WORKSPACE_NOT_ZERO,), COMMON),
)  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("fragment_buffers", [1, 2])
def test_the_kernel_is_right_in_every_order(fragment_buffers: int) -> None:
    problem, kernel = small_kernel(True, fragment_buffers)
    inputs = problem.random_inputs(0)
    for order in (Order("ascending", 0), Order("descending", 1)):
        run = emulate(kernel, inputs, order=order)
        assert run.ok, (run.status, run.reason)
        assert check(problem, inputs, run.outputs).ok


@pytest.mark.parametrize(
    "fault", [pytest.param(f, id=f.name, marks=() if i < 1 else pytest.mark.nightly) for i, f in enumerate(FAULTS)]
)
def test_a_planted_fault_is_found(fault: Fault) -> None:
    problem, kernel = fault.kernel()
    inputs = problem.random_inputs(0)
    run = emulate(kernel, inputs, order=Order(fault.blocks, 0))
    found = {f.kind for f in run.findings}
    if WRONG in fault.found and run.ok and not check(problem, inputs, run.outputs).ok:
        found.add(WRONG)
    assert found & set(fault.found), (run.status, run.reason, found)
