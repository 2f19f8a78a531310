"""Matmuls by mma.sync with stream-K are correct, and emulating one small case finds every planted fault."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from cases import spread
from header_edits import edited
from kernels import generate
from mutation_testing import WRONG, check_emulation_finds
from needs import needs_compiler, needs_nvrtc

from measurements.emulator import FindingKind, emulate
from measurements.emulator.order import Order, OrderKind
from measurements.trials.comparison import check
from search_spaces.catalogue import problem_from_json
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

pytestmark = [needs_compiler, needs_nvrtc]

GOLDEN = Path(__file__).parents[3] / "golden" / "mma_f16_stream_k.json"
K = FindingKind
KERNEL, COMMON = "autosched/kernels/matmul.cuh", "autosched/common/stream_k.cuh"
EXCHANGE = "autosched/kernels/matmul/split_k.cuh"


EARLY, LATE = (), (("stages", 1), ("fragment_buffers", 1))  # whether copies for a block's next range of k start early
ONE_BUFFER = (("fragment_buffers", 1),)
REGISTERS = (("epilogue", "registers"),)
THROUGH_REGISTERS = (("copy_a", "ld.global"), ("fragment_buffers", 1))
Changes = tuple[tuple[str, str | int], ...]


@cache
def small_kernel(several: bool = False, changes: Changes = EARLY) -> tuple[Matmul, GeneratedKernel]:
    """Return a problem with five tiles, and its kernel for two blocks.

    Each block computes one whole tile. The two blocks divide the other three tiles evenly, so they share one tile. With
    ``several``, five blocks compute twelve tiles, and each of four pairs of blocks shares a tile. ``changes`` apply to
    the golden schedule.
    """
    data = json.loads(GOLDEN.read_text())
    problem = problem_from_json(data["problem"])
    schedule = Schedule.from_json("matmul", {**data["schedule"], **dict(changes)})
    assert isinstance(problem, Matmul)
    if several:
        problem = dataclasses.replace(problem, m=192, n=200, k=264)
    return problem, generate(problem, schedule, device(data["device"]))


@dataclass(frozen=True)
class Fault:
    """A planted fault: ``new`` replaces ``old`` in ``header``.

    Emulation with block order ``blocks`` must give a finding of one of ``kinds``.
    """

    name: str
    old: str
    new: str
    kinds: tuple[str, ...]
    header: str = KERNEL
    blocks: OrderKind = "ascending"
    several: bool = False
    changes: Changes = EARLY

    def kernel(self) -> tuple[Matmul, GeneratedKernel]:
        problem, kernel = small_kernel(self.several, self.changes)
        headers = edited(kernel.headers, self.header, self.old, self.new)
        return problem, dataclasses.replace(kernel, headers=headers)


FAULTS = (
    Fault("k-tiles are overwritten by a copy while they are still read",
          "ptx::barrier_sync();  // the next part is known, and all threads have read the last k-tile", "",
          (K.SHARED_RACE,), changes=ONE_BUFFER),
    Fault("results are stored through a stage that is being filled",
          "? (C::stages - 1) * C::stage_bytes : 0;", "? 0 : 0;",
          (K.SHARED_RACE, K.ASYNC_READ_BEFORE_WAIT)),
    Fault("copies fill one stage too many", "for (int s = 0; s < ahead; ++s) {", "for (int s = 0; s <= ahead; ++s) {",
          (K.SHARED_RACE, K.ASYNC_READ_BEFORE_WAIT)),
    Fault("the exchange of sums uses a stage that is being filled",
          "Work::now(shared, order), shared + leave_at, partials",
          "Work::now(shared, order), shared, partials", (K.SHARED_RACE, K.ASYNC_READ_BEFORE_WAIT), several=True),
    Fault("the finished part is copied again instead of the next",
          "if constexpr (C::early_copies) start(Work::next(shared, order)",
          "if constexpr (C::early_copies) start(Work::now(shared, order)", (WRONG,)),
    Fault("the first k-tiles are copied twice", "loader_of(work, Loop::ahead, shared, a, b)",
          "loader_of(work, 0, shared, a, b)", (WRONG,)),
    Fault("results are stored to the next tile",
          "store(acc, Work::now(shared, order)", "store(acc, Work::next(shared, order)",
          (WRONG, K.LOST_WRITE, K.GLOBAL_RACE, K.UNWRITTEN_OUTPUT)),
    Fault("sums are exchanged for the next part", "has_all<C>(acc, Work::now(shared, order)",
          "has_all<C>(acc, Work::next(shared, order)",
          (WRONG, K.OUT_OF_BOUNDS_GLOBAL, K.WORKSPACE_NOT_ZERO, K.UNWRITTEN_OUTPUT, K.GLOBAL_RACE)),
    Fault("the only stage is filled while results are still read from it",
          "ptx::barrier_sync();  // all threads have read the data that the next tile overwrites", "", (K.SHARED_RACE,),
          changes=LATE),
    Fault("there is no wait for the first part", "ptx::barrier_sync();  // the first part is known", "",
          (K.SHARED_RACE, K.UNINITIALIZED_SHARED_READ)),
    Fault("there is no fence between the stores of sums and their signal",
          "ptx::fence_gpu();  // cumulative: also orders the stores", "// ",
          (K.GLOBAL_RACE,), COMMON),
    Fault("every part starts at the start of its tile", "k0 = (work.first + skipped) * C::tile_k",
          "k0 = skipped * C::tile_k", (WRONG,)),
    Fault("a part has all k-tiles", "work.count = int(kept.word[2]);",
          "work.count = kept.word[2] > 0 ? C::tiles_k : 0;", (WRONG, K.LOST_WRITE, K.GLOBAL_RACE)),
    Fault("whole tiles are shared", "if (work.count < C::tiles_k) {", "if (true) {",
          (K.WORKSPACE_NOT_ZERO, K.UNWRITTEN_OUTPUT, K.OUT_OF_BOUNDS_GLOBAL, WRONG), EXCHANGE),
    Fault("parts of tiles are stored without the other parts' sums", "if (work.count < C::tiles_k) {", "if (false) {",
          (WRONG, K.LOST_WRITE, K.GLOBAL_RACE), EXCHANGE),
    Fault("all pairs exchange sums at the same address",
          "const int cut = part.cut(int(blockIdx.x));", "const int cut = 0;",
          (WRONG, K.UNWRITTEN_OUTPUT, K.GLOBAL_RACE), EXCHANGE, blocks="descending", several=True),
    Fault("all pairs share their counters", "counters + 2 * cut", "counters",
          (WRONG, K.UNWRITTEN_OUTPUT, K.GLOBAL_RACE, K.WORKSPACE_NOT_ZERO), EXCHANGE, blocks="descending",
          several=True),
    Fault("the number of the thread is wrong",
          "int(threadIdx.x) + int(kept.word[3])", "int(threadIdx.x) + int(kept.word[1])",
          (WRONG, K.OUT_OF_BOUNDS_SHARED, K.OUT_OF_BOUNDS_GLOBAL, K.SHARED_RACE)),
    Fault("the record of the next part overlaps the record of the current part", "next_at = C::shared_bytes - 32",
          "next_at = C::shared_bytes - 48", (WRONG, K.LOST_WRITE, K.UNWRITTEN_OUTPUT, K.GLOBAL_RACE)),
    Fault("the record of the next part overlaps a k-tile",
          "next_at = C::shared_bytes - 32", "next_at = C::shared_bytes - 64",
          (WRONG, K.OUT_OF_BOUNDS_SHARED, K.OUT_OF_BOUNDS_GLOBAL, K.UNWRITTEN_OUTPUT)),
    Fault("a whole tile is left out", "dealt_tiles + worker};", "dealt_tiles + worker + 1};", (K.UNWRITTEN_OUTPUT,),
          COMMON),
    Fault("whole tiles are also computed by the neighbour", "whole += Workers;", "whole += Workers - 1;",
          (K.LOST_WRITE, K.GLOBAL_RACE), COMMON),
    Fault("the tickets are not reset", "ptx::atomic_add(tickets, -2u);", "", (K.WORKSPACE_NOT_ZERO,), COMMON),
)  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize(
    "changes", [EARLY, ONE_BUFFER, REGISTERS, LATE, THROUGH_REGISTERS], ids=lambda c: " ".join(map(str, sum(c, ())))
)
def test_the_kernel_is_right_in_every_order(changes: Changes) -> None:
    problem, kernel = small_kernel(True, changes)
    inputs = problem.random_inputs(0)
    for order in (Order("ascending", 0), Order("descending", 1)):
        run = emulate(kernel, inputs, order=order)
        assert run.ok, (run.status, run.reason)
        assert check(problem, inputs, run.outputs).ok


@pytest.mark.parametrize("fault", spread(FAULTS, 1), ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(fault: Fault) -> None:
    problem, kernel = fault.kernel()
    check_emulation_finds(fault.kinds, problem, kernel, Order(fault.blocks, 0))
