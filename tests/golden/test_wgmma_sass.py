"""Machine code of the k-tile loop of the wgmma templates.

It has no fence of the whole GPU, moves no register for a descriptor, and has few instructions other than wgmma.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
from cases import representative, spread
from needs import needs_recorded_lengths

from benchmarks.search.first_choices import first_choice
from measurements.compiler.disassembly import (
    DisassemblerMissing,
    SassInstruction,
    disassemble,
    loops,
    main_loop,
    nvdisasm,
)
from measurements.compiler.nvrtc import NvrtcMissing, compile_source, toolchain_version
from search_spaces.catalogue import problem_from_json, template
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

try:
    toolchain_version()
    nvdisasm()
except (NvrtcMissing, DisassemblerMissing) as missing:
    pytestmark = pytest.mark.skip(reason=str(missing))

FOLDER = Path(__file__).parent
CASES = [
    path
    for folder in ("wgmma", "eight_bit")
    for path in sorted((FOLDER / folder).glob("*.json"))
    if "wgmma" in json.loads(path.read_text())["template"]
]
H200 = device("h200")
SAMPLED = {
    "square": ("wgmma_matmul", Matmul(4096, 4096, 4096, a="bf16")),
    "odd": ("wgmma_matmul", Matmul(1000, 1016, 1024, order_b="col", epilogue="bias+gelu")),
    "narrow": ("wgmma_matmul_transposed", Matmul(64, 4096, 4096, a="bf16")),
    "8 bits": ("wgmma_matmul", Matmul(2048, 2048, 2048, a="e4m3", b="e4m3", out="bf16", order_b="col")),
}
MULTIPLICATIONS = ("HGMMA", "IGMMA", "QGMMA", "BGMMA")
SHORT = {4: 35, 8: 45}  # maximum instructions of a loop with stream-K, by number of multiplications in the loop
WHOLE = 1  # additional instructions of such a loop without stream-K, where blocks only compute whole tiles
DEALT: dict[str, int | str] = {
    "tile_m": 128, "tile_n": 256, "tile_k": 64, "consumer_warpgroups": 2, "swizzle_a": 128, "swizzle_b": 128,
    "stages": 4,
    "in_flight": 1, "a_operand_source": "shared", "copy_a": "tma", "copy_b": "tma", "producer_registers": 40,
    "min_blocks": 1,
    "split_k": 1, "raster": "hilbert", "store_buffers": 2, "tiles_per_block": 4, "ping_pong": 0, "stream_k": 1,
    "cluster_m": 2, "cluster_n": 1, "l2_promotion": 128, "l2_evict_last": "none",
}  # fmt: skip
EIGHT: dict[str, int | str] = {
    "tile_m": 256, "tile_n": 160, "tile_k": 64, "consumer_warpgroups": 2, "swizzle_a": 128, "swizzle_b": 64,
    "stages": 4,
    "in_flight": 1, "a_operand_source": "shared", "copy_a": "tma", "copy_b": "tma", "producer_registers": 40,
    "min_blocks": 1,
    "split_k": 1, "raster": "row", "store_buffers": 2, "tiles_per_block": 4, "ping_pong": 0, "stream_k": 1,
    "cluster_m": 1, "cluster_n": 2, "l2_promotion": 128, "l2_evict_last": "none",
}  # fmt: skip
# Maximum instructions of a loop: OVERHEAD, plus OF_MULTIPLICATION for each multiplication. The latter are the
# multiplication and instructions that advance its two descriptors along k.
OVERHEAD, OF_MULTIPLICATION = 36, 4


def multiplications(body: Iterable[SassInstruction]) -> int:
    return sum(i.opcode.startswith(MULTIPLICATIONS) for i in body)


def moved_descriptors(body: Iterable[SassInstruction]) -> int:
    return sum(i.opcode.startswith("R2UR") for i in body)


def machine_code(kernel: GeneratedKernel) -> tuple[SassInstruction, ...]:
    compiled = compile_source(kernel.source, kernel.entry, "sm_90a", kernel.headers)
    assert compiled.cubin is not None, compiled.log
    return disassemble(compiled.cubin, compiled.entry)


@cache
def chosen(size: int) -> tuple[SassInstruction, ...]:
    """Return the first choice for a square matmul of this size on an H200."""
    problem, on = Matmul(m=size, n=size, k=size, a="bf16", b="bf16", out="bf16"), H200
    schedule, _ = first_choice(problem, on)
    return machine_code(template(schedule.template).kernel(problem, schedule, on))


def between_wait_and_multiplications(body: tuple[SassInstruction, ...]) -> list[SassInstruction]:
    """Return the code from the first mbarrier wait, or the first multiplication, to the last multiplication."""
    at = [i.address for i in body if i.opcode.startswith(MULTIPLICATIONS)]
    first = min([i.address for i in body if i.opcode.startswith("SYNCS.PHASECHK") and i.address < at[0]] or at)
    return [i for i in body if first <= i.address <= at[-1]]


@pytest.mark.parametrize(
    "case",
    representative(CASES, "bf16_stream_k", "f16_ping_pong", ids=lambda path: path.stem),
    ids=lambda path: path.stem,
)
def test_no_fence_of_the_gpu_between_the_first_wait_and_the_last_multiplication(case: Path) -> None:
    document = json.loads(case.read_text())
    problem, name = problem_from_json(document["problem"]), document["template"]
    schedule = Schedule.from_json(name, document["schedule"])
    body = machine_code(template(name).kernel(problem, schedule, device(document["device"])))
    assert multiplications(main_loop(body))
    assert_no_fence_of_the_gpu(body)


def assert_no_fence_of_the_gpu(body: tuple[SassInstruction, ...]) -> None:
    for i in (*between_wait_and_multiplications(body), *main_loop(body)):
        assert not ("GPU" in i.opcode and i.opcode.startswith("MEMBAR")), i
        assert not i.opcode.startswith(("CCTL", "ERRBAR")), i


@pytest.mark.parametrize(("tiles_per_block", "barriers"), representative([(1, 1), (4, 2)], "4-"))
def test_a_tile_that_is_staged_whole_needs_few_barriers(tiles_per_block: int, barriers: int) -> None:
    """Each consumer warpgroup stages the four boxes of a tile at once.

    It needs one barrier before TMA stores the boxes. If a block computes several tiles, it also needs one barrier after
    TMA has read the boxes of the previous tile.
    """
    changes = {"store_buffers": 4, "stream_k": 0, "stages": 3, "tiles_per_block": tiles_per_block, "cluster_m": 1}
    problem = Matmul(4096, 4096, 4096, a="bf16", epilogue="bias")
    schedule = Schedule.from_json("wgmma_matmul", DEALT | changes | {"raster": "row"})
    body = machine_code(template("wgmma_matmul").kernel(problem, schedule, H200))
    named = [i for i in body if i.opcode.startswith("BAR.SYNC") and "0x80" in i.operands]  # barriers of 128 threads
    assert len(named) == barriers


@pytest.mark.parametrize("kind", representative(["tma", "cp.async"], "tma"))
def test_a_cluster_ends_without_a_fence_of_the_gpu(kind: str) -> None:
    """A GPU-wide fence is only needed with stream-K or split-K, which exchange partial sums between blocks."""
    schedule = Schedule.from_json("wgmma_matmul", DEALT | {"stream_k": 0, "copy_a": kind, "producer_registers": 0})
    body = machine_code(template("wgmma_matmul").kernel(SAMPLED["square"][1], schedule, H200))
    assert sum(i.opcode == "UCGABAR_WAIT" for i in body) == 1  # the only cluster barrier is at the start
    assert not any("MEMBAR" in i.opcode and "GPU" in i.opcode for i in body)
    assert not any(i.opcode.startswith(("ERRBAR", "CGAERRBAR")) for i in body)


@pytest.mark.parametrize("which", representative(SAMPLED, "8 bits"))
def test_sampled_schedules_neither_fence_the_gpu_nor_move_descriptors(which: str, nightly: bool) -> None:
    name, problem = SAMPLED[which]
    for schedule in template(name).space(problem, H200).sample(6 if nightly else 1, seed=0):
        body = machine_code(template(name).kernel(problem, schedule, H200))
        assert_no_fence_of_the_gpu(body)
        turns = [loop for loop in loops(body) if multiplications(loop)]
        if not turns:  # no loop: the problem has one k-tile
            continue
        loop = min(turns, key=len)
        threads_move = "cp.async" in (schedule["copy_a"], schedule["copy_b"])
        if schedule["a_operand_source"] == "shared":
            assert not moved_descriptors(loop), schedule
            if not threads_move:
                assert len(loop) <= OVERHEAD + OF_MULTIPLICATION * multiplications(loop), schedule


def of_schedule(values: dict[str, int | str]) -> tuple[SassInstruction, ...]:
    problem, wgmma = Matmul(m=4096, n=4096, k=4096, a="bf16", b="bf16", out="bf16"), template("wgmma_matmul")
    return machine_code(wgmma.kernel(problem, Schedule(wgmma.name, tuple(values.items())), H200))


@needs_recorded_lengths
@pytest.mark.parametrize("which", spread(["whole tiles", 8192, "dealt", "eight a turn"], 2))
def test_the_loop_of_a_good_schedule_is_short(which: int | str) -> None:
    fixed = {"whole tiles": {**DEALT, "stream_k": 0}, "dealt": DEALT, "eight a turn": EIGHT}
    loop = main_loop(chosen(which) if isinstance(which, int) else of_schedule(fixed[which]))
    assert len(loop) <= SHORT[multiplications(loop)] + WHOLE * (which == "whole tiles"), [i.opcode for i in loop]
    assert not moved_descriptors(loop)
    assert not any(i.opcode.startswith(("MEMBAR", "CCTL", "ERRBAR", "ELECT")) for i in loop)
    assert sum(i.opcode.startswith("SYNCS.PHASECHK") for i in loop) == 1
    assert sum(i.opcode.startswith("SYNCS.ARRIVE") for i in loop) == 1


@pytest.mark.parametrize("size", spread([4096, 8192], 1))
def test_a_cluster_begins_without_a_fence_of_the_gpu(size: int) -> None:
    """The first cluster barrier has relaxed semantics, and a fence that only covers the initialisation of mbarriers."""
    body = chosen(size)
    start = [i for i in body if i.address < between_wait_and_multiplications(body)[0].address]
    assert any(i.opcode.startswith("UCGABAR_ARV") for i in start), "a first choice has a cluster"
    assert not any(i.opcode.startswith("MEMBAR") and "GPU" in i.opcode for i in start)


@pytest.mark.parametrize("size", spread([4096, 8192], 1))
def test_one_lane_sends_tma_instructions_without_a_loop_over_lanes(size: int) -> None:
    """If ptxas does not know that a copy is issued by one lane, it emits a loop that elects one lane after another."""
    assert any(i.opcode.startswith("UTMALDG") for i in chosen(size))
    assert not any("BRA.U.ANY" in i.opcode for i in chosen(size))
