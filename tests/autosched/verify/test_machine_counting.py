"""Emulating PTX gives execution counts of machine instructions, for handwritten code and for real cubins."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from autosched import KernelSpec
from autosched.verify import machine_counting
from autosched.verify.launch_counting import CountedLaunch, counted
from autosched.verify.machine_counting import (
    NotMatched,
    basic_blocks,
    counted_in,
    executed_in,
    in_machine_code,
    in_program,
    pipe_of,
    with_pipes,
)
from measurements.compiler.cubin_cache import CompileCache, Compiled, CompiledStep
from measurements.compiler.disassembly import DisassemblerMissing, NotDisassembled, SassInstruction, nvdisasm
from measurements.compiler.nvrtc import NvrtcMissing, toolchain_version
from measurements.compiler.pool import CompilePool
from measurements.emulator.findings import ExecutedLine
from measurements.trials.measurement import Resources
from search_spaces.hardware.costs.launch_counts import LaunchCounts
from search_spaces.hardware.costs.ptx_costs import Pipe, by_pipe
from search_spaces.hardware.devices import device
from search_spaces.spaces.schedule import Schedule


def code(*rows: str) -> tuple[SassInstruction, ...]:
    """Return the instructions of rows such as "line opcode operands" or "line @predicate opcode operands".

    Their addresses are 16 bytes apart.
    """
    instructions = []
    for i, row in enumerate(rows):
        line, opcode, *operands = row.split(None, 2)
        predicate = opcode if opcode.startswith("@") else ""
        if predicate:
            opcode, *operands = operands[0].split(None, 1)
        instructions.append(SassInstruction(16 * i, predicate, opcode, "".join(operands), ("a.cu", int(line))))
    return tuple(instructions)


def ran(*rows: tuple[int, str, int, int]) -> list[ExecutedLine]:
    return [ExecutedLine("a.cu", *row) for row in rows]


def pipes(instructions: Sequence[SassInstruction], lines: Sequence[ExecutedLine]) -> dict[Pipe, float]:
    counts: Counter[Pipe] = Counter()
    for opcode, times in executed_in(instructions, lines).items():
        counts[pipe_of(opcode)] += round(times)
        assert times == round(times)
    return dict(counts)


LOOP = code(
    "1 MOV R0,RZ",
    "2 LDS R1,[R0]",
    "2 FADD R2,R1,R2",
    "3 IADD3 R0,R0,0x1,RZ",
    "3 ISETP.GE.AND P0,PT,R0,0x40,PT",
    "3 @!P0 BRA 0x10",
    "4 STG.E [R4],R2",
    "4 EXIT",
)
RAN_LOOP = ran(
    (1, "mov.u32", 2, 2), (2, "ld.shared.f32", 1, 64), (2, "add.f32", 1, 64), (3, "add.s32", 3, 192),
    (3, "setp.lt.s32", 1, 64), (3, "bra", 1, 64), (4, "st.global.f32", 1, 1), (4, "ret", 1, 1),
)  # fmt: skip


def test_a_basic_block_executes_as_often_as_its_lines() -> None:
    assert pipes(LOOP, RAN_LOOP) == {"alu": 2 * 64, "control": 64 + 1, "fma": 64, "memory": 64 + 1}


def test_unrolled_code_executes_less_often() -> None:
    unrolled = code(
        "1 MOV R0,RZ", *["2 LDS R1,[R0]", "2 FADD R2,R1,R2"] * 4, "3 IADD3 R0,R0,0x4,RZ", "3 @!P0 BRA 0x10",
        "4 STG.E [R4],R2", "4 EXIT",
    )  # fmt: skip
    assert pipes(unrolled, RAN_LOOP) == {"alu": 16, "control": 16 + 1, "fma": 64, "memory": 64 + 1}


def test_loads_that_ptxas_joins_are_fewer() -> None:
    joined = code("2 LDS.128 R4,[R0]", *["2 FADD R2,R4,R2"] * 4, "3 @!P0 BRA 0x0", "4 EXIT")
    lines = ran((2, "ld.shared.f32", 4, 64), (2, "add.f32", 4, 64), (3, "bra", 1, 16), (4, "ret", 1, 1))
    counts = pipes(joined, lines)
    assert (counts["memory"], counts["fma"]) == (16, 64)


def test_loads_that_ptxas_joins_and_unrolls_are_matched_by_their_words() -> None:
    joined = code(*["2 LDS.128 R4,[R0]", *["2 FADD R2,R4,R2"] * 4] * 4, "3 @!P0 BRA 0x0", "4 EXIT")
    lines = ran((2, "ld.shared.f32", 4, 64), (2, "add.f32", 4, 64), (3, "bra", 1, 16), (4, "ret", 1, 1))
    counts = pipes(joined, lines)
    assert (counts["memory"], counts["fma"], counts["control"]) == (16, 64, 4 + 1)


def test_code_of_removed_branches_executes_in_each_iteration() -> None:
    """In PTX, half of the iterations skip line 5. ptxas removes the branch, so all iterations execute the line."""
    inside = ran((5, "add.f32", 4, 4 * 32), (2, "ld.shared.f32", 1, 64), (2, "add.f32", 1, 64))
    converted = code("2 LDS R1,[R0]", *["5 FADD R3,R3,R1"] * 4, "2 FADD R2,R1,R2", "3 @!P0 BRA 0x0", "4 EXIT")
    assert pipes(converted, inside)["fma"] == 5 * 64


def test_unskipped_blocks_of_a_loop_execute_in_each_iteration() -> None:
    split = code(
        "2 LDS R1,[R0]", "2 FADD R2,R1,R2", "7 @!P1 BRA 0x40", "7 IADD3 R5,R5,0x1,RZ", *["5 FADD R3,R3,R1"] * 4,
        "3 @!P0 BRA 0x0", "4 EXIT",
    )  # fmt: skip
    lines = ran((5, "add.f32", 4, 4 * 32), (7, "add.s32", 1, 8), (2, "ld.shared.f32", 1, 64), (2, "add.f32", 1, 64))
    counts = pipes(split, lines)
    assert (counts["fma"], counts["alu"]) == (5 * 64, 8 / 2)


def test_a_division_is_counted_without_its_slow_path() -> None:
    divided = code(
        "1 LDG.E R0,[R2]",
        "2 MUFU.RCP R1,R0",
        *["2 FFMA R3,R1,R0,R3"] * 5,
        "2 FCHK P0,R0,R1",
        "2 @!P0 BRA 0xb0",
        "2 IADD3 R4,R4,0xb0,RZ",
        "2 CALL.REL.NOINC 0xd0",
        "3 STG.E [R2],R3",
        "3 EXIT",
        *["3 FFMA R3,R1,R0,R3"] * 9,  # the body of the called function
        "3 RET.REL.NODEC R4,0x0",
    )
    lines = ran((1, "ld.global.f32", 1, 8), (2, "div.rn.f32", 1, 8), (3, "st.global.f32", 1, 8), (3, "ret", 1, 8))
    counts = pipes(divided, lines)
    assert (counts["special"], counts["memory"], counts["fma"]) == (2 * 8, 2 * 8, 5 * 8)
    assert not counts.get("alu")


def test_the_rest_of_a_kernel_that_is_called_and_exits_executes() -> None:
    instructions = code("2 BSSY B0,0x30", "2 @P0 BRA 0x30", "2 CALL.REL.NOINC 0x50", "3 NOP", "3 BRA 0x40")
    epilogue = [
        SassInstruction(i.address + 80, i.predicate, i.opcode, i.operands.replace("0x10", "0x60"), i.line) for i in LOOP
    ]
    assert pipes([*instructions, *epilogue], RAN_LOOP)["fma"] == 64


def test_a_block_of_shared_lines_executes_no_more_often_than_its_surroundings() -> None:
    """Line 9, of an inlined function, occurs both before a loop and inside the loop."""
    inlined = code("9 IADD3 R7,R7,0x1,RZ", "9 IADD3 R7,R7,R8,RZ", "9 @P1 BRA 0x40", "1 MOV R0,RZ") + tuple(
        SassInstruction(i.address + 64, i.predicate, i.opcode, i.operands.replace("0x10", "0x50"), i.line) for i in LOOP
    )
    assert pipes(inlined, [*RAN_LOOP, *ran((9, "add.s32", 1, 640))])["alu"] == 2 + 2 * 64


@pytest.mark.parametrize(
    ("instructions", "lines"),
    [
        (LOOP, []),
        (LOOP, ran((7, "add.f32", 1, 64))),
        (LOOP, [*RAN_LOOP, *ran((5, "call.uni", 1, 1))]),
        (code("2 LDS R1,[R0]", "4 EXIT"), RAN_LOOP),
    ],
    ids=["nothing ran", "other lines", "a function is called", "no arithmetic"],
)
def test_counts_that_cannot_be_derived_are_absent(
    instructions: Sequence[SassInstruction], lines: Sequence[ExecutedLine]
) -> None:
    with pytest.raises(NotMatched):
        executed_in(instructions, lines)


def test_basic_blocks_begin_at_jump_targets_and_end_at_jumps() -> None:
    assert [len(block) for block in basic_blocks(LOOP)] == [1, 5, 2]


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        ("FFMA.FTZ", "fma"), ("IMAD.WIDE", "imad"), ("IMAD.MOV.U32", "control"), ("LOP3.LUT", "alu"),
        ("FSETP.GT.AND", "alu"), ("MUFU.RCP", "special"), ("DFMA", "f64"), ("HMMA.16816.F32", "tensor"),
        ("LDS.128", "memory"), ("LDC.64", "constant"), ("UIADD3", "control"), ("BAR.SYNC.DEFER_BLOCKING", "control"),
        ("F2F.F64.F32", "f64"), ("I2F.U32.RP", "special"),
    ],
)  # fmt: skip
def test_pipes(opcode: str, expected: str) -> None:
    assert pipe_of(opcode) == expected


EXECUTED = (
    ("add.s64", 50.0), ("bra", 7.0), ("div.rn.f32", 1.0), ("fma.rn.f32", 64.0), ("ld.const.f32", 8.0),
    ("ld.local.v2.f32", 3.0), ("ld.shared.f32", 64.0),
)  # fmt: skip
COUNTS = LaunchCounts(64, 128, 1, 10, EXECUTED, 1e4, *[100.0] * 7, 0.0, 1e6, 0, 10**6)


def test_counts_keep_accesses_branches_and_fma_and_have_the_rest_of_machine_code() -> None:
    counts = with_pipes(COUNTS, {"fma": 60.0, "alu": 20.0, "imad": 5.0, "special": 2.0, "control": 3.0, "memory": 16.0})
    assert by_pipe(dict(counts.executed)) == {
        "fma": 64 + 6, "alu": 20, "imad": 5, "special": 2, "control": 7 + 1, "memory": 64 + 3, "constant": 8
    }  # fmt: skip
    assert dict(counts.executed)["ld.shared.f32"] == 64
    assert by_pipe(dict(with_pipes(COUNTS, {}).executed)).keys() == {"fma", "control", "memory", "constant"}


def test_spilled_words_are_counted_per_iteration() -> None:
    """Each of 64 iterations reloads four spilled words. Two words are stored once.

    If the source has local arrays, accesses to them look like spills, so the number of spilled words is unknown.
    """
    spilling = code(
        "1 MOV R0,RZ", "2 LDL.128 R8,[R1]", "2 LDS R1,[R0]", "2 FADD R2,R1,R2", "3 @!P0 BRA 0x10", "4 STL.64 [R1],R2",
        "4 STG.E [R4],R2", "4 EXIT",
    )  # fmt: skip
    lines = ((0.5, tuple(RAN_LOOP)), (0.5, tuple(RAN_LOOP)))
    without = replace(COUNTS, executed=tuple(pair for pair in COUNTS.executed if ".local." not in pair[0]))
    assert without != COUNTS
    assert in_machine_code(CountedLaunch(without, lines), spilling).spilled_words == 64 * 4 + 2
    assert in_machine_code(CountedLaunch(COUNTS, lines), spilling).spilled_words is None


def test_an_access_without_a_known_width_is_not_matched() -> None:
    bulk = [*RAN_LOOP, ExecutedLine("a.cu", 5, "st.bulk.shared::cta", 1, 1)]
    with pytest.raises(NotMatched, match=r"bulk.shared::cta is unknown"):
        executed_in(LOOP, bulk)


def test_counts_are_taken_from_ptx_without_a_disassembler(monkeypatch: pytest.MonkeyPatch, program: Compiled) -> None:
    def missing() -> Path:
        raise DisassemblerMissing("nvdisasm was not found: pip install nvidia-cuda-nvdisasm")

    launch = CountedLaunch(COUNTS, ((1.0, tuple(RAN_LOOP)),))
    monkeypatch.setattr(machine_counting, "nvdisasm", missing)
    assert counted_in() == "PTX"
    assert in_program([launch], program) == [COUNTS]


def test_underivable_counts_are_taken_from_ptx_with_one_note(
    monkeypatch: pytest.MonkeyPatch, program: Compiled, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(cubin: bytes, entry: str) -> Sequence[SassInstruction]:
        raise NotDisassembled(f"the cubin has no function {entry}")

    launch = CountedLaunch(COUNTS, ((1.0, tuple(RAN_LOOP)),))
    monkeypatch.setattr(machine_counting, "nvdisasm", lambda: Path("nvdisasm"))
    monkeypatch.setattr(machine_counting, "disassemble", fails)
    with caplog.at_level(logging.WARNING):
        assert in_program([launch, launch], program) == [COUNTS, COUNTS]
    assert caplog.messages == ["instructions are counted in PTX: the cubin has no function sums"]


@pytest.fixture
def program(tmp_path: Path) -> Compiled:
    cubin = tmp_path / "sums.cubin"
    cubin.write_bytes(b"no cubin")
    allotted = Resources(32, 0, 0, 0, 0, 0)
    steps = (CompiledStep("sums", allotted), CompiledStep("sums", allotted))
    return Compiled(cubin, "0", "sums", allotted, 0.1, "", "sm_90a", "nvrtc", False, None, steps)


def test_a_compiled_kernel_executes_the_arithmetic_that_the_emulator_counts(tmp_path: Path) -> None:
    """The kernels have unrolled loops, a division, nested loops, and a data-dependent branch."""
    try:
        toolchain_version()
        nvdisasm()
    except (NvrtcMissing, DisassemblerMissing) as missing:
        pytest.skip(str(missing))
    source = """
__global__ void sums(float* out, const float* x, int n, int times) {
  float sum = 0.0f, product = 1.0f;
  const float* row = x + (long long)blockIdx.x * n;
  for (int k = 0; k < times; ++k) {
    product = product / (1.0f + row[k]);
    for (int i = threadIdx.x; i < n; i += 32) sum += row[i] * product;
  }
  if (sum > 0.5f) sum *= product;
  out[blockIdx.x * 32 + threadIdx.x] = sum;
}
"""
    kernel = KernelSpec(
        source,
        "sums",
        parameters={"again": [7]},
        sizes={"rows": 64, "n": 1024},
        block=32,
        grid="rows",
        arguments=[
            {"name": "out", "kind": "output", "dtype": "f32", "shape": ["rows", 32]},
            {"name": "x", "kind": "input", "dtype": "f32", "shape": ["rows", "n"]},
            {"name": "n", "kind": "scalar", "value": "n"},
            {"name": "times", "kind": "scalar", "dtype": "i32", "value": "again"},
        ],
    )
    chip, schedule = device("h200"), Schedule(kernel.file.name, (("again", 7),))
    problem = kernel.problem()
    launches = counted(kernel.template, problem, schedule, chip)
    with CompilePool(CompileCache(tmp_path / "cubins"), workers=1) as pool:
        compiled = pool.compile(kernel.template.kernel(problem, schedule, chip), chip.arch)
    assert launches is not None and isinstance(compiled, Compiled)
    (machine_counts,) = in_program(launches, compiled)
    emulator_counts, ptxas_counts = by_pipe(dict(launches[0].counts.executed)), by_pipe(dict(machine_counts.executed))
    assert emulator_counts["fma"] > 7 * 32 and ptxas_counts["fma"] == pytest.approx(emulator_counts["fma"], rel=0.1)
    assert ptxas_counts["special"] == pytest.approx(emulator_counts["special"], rel=0.1)
    assert ptxas_counts["alu"] < emulator_counts["alu"], "ptxas joins additions of addresses"
    assert (ptxas_counts["memory"], machine_counts.spilled_words) == (emulator_counts["memory"], 0)
