"""The disassembler finds loops and kinds of instructions in real cubins and in handwritten code."""

from __future__ import annotations

from pathlib import Path

import pytest

from measurements.compiler import disassembly
from measurements.compiler.disassembly import (
    DisassemblerMissing,
    NotDisassembled,
    SassInstruction,
    disassemble,
    loops,
    main_loop,
    mix,
    nvdisasm,
)
from measurements.compiler.nvrtc import OPTIONS, NvrtcMissing, compile_source, toolchain_version
from search_spaces.launches.headers import Headers

try:
    toolchain_version()
    nvdisasm()
except (NvrtcMissing, DisassemblerMissing) as missing:
    pytestmark = pytest.mark.skip(reason=str(missing))

STREAM = """
extern "C" __global__ void stream(const float4* in, float* out, int n) {
  __shared__ float sums[32];
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 32) {
    float4 v = __ldg(in + i);
    sum += v.x * v.y + v.z * v.w;
    sums[threadIdx.x] = sum;
    __syncthreads();
    sum += sums[31 - threadIdx.x];
    __syncthreads();
  }
  out[threadIdx.x] = sum;
}
"""


def code(*rows: str) -> tuple[SassInstruction, ...]:
    """Return instructions at consecutive addresses, 16 bytes apart. A row is "opcode operands"."""
    instructions = []
    for i, row in enumerate(rows):
        opcode, _, operands = row.partition(" ")
        instructions.append(SassInstruction(16 * i, "", opcode, operands))
    return tuple(instructions)


def test_the_main_loop_of_a_compiled_kernel() -> None:
    built = compile_source(STREAM, "stream", "sm_80", Headers(()))
    assert built.cubin is not None
    body = disassemble(built.cubin, "stream")
    assert body[-1].kind == "control"
    loop = mix(main_loop(body))
    assert 10 < loop.instructions < len(body) * 2 // 3 + 60
    assert loop.loaded_bytes and loop.loaded_bytes % 16 == 0, "a float4 must be loaded by one instruction"
    turns = loop.loaded_bytes // 16  # the compiler unrolls the loop
    assert loop.count("barrier") >= 2 * turns
    assert loop.count("float") >= 2 * turns
    assert loop.after_barrier is not None and loop.after_barrier < loop.instructions


def test_missing_functions_and_invalid_cubins_are_rejected() -> None:
    built = compile_source(STREAM, "stream", "sm_80", Headers(()))
    assert built.cubin is not None
    with pytest.raises(NotDisassembled, match="no function other"):
        disassemble(built.cubin, "other")
    with pytest.raises(NotDisassembled) as error:
        disassemble(b"no cubin", "stream")
    assert "\n" not in str(error.value)


def test_instructions_have_source_lines_if_the_cubin_has_lineinfo() -> None:
    plain = compile_source(STREAM, "stream", "sm_80", Headers(()))
    lined = compile_source(STREAM, "stream", "sm_80", Headers(()), (*OPTIONS, "-lineinfo"))
    assert plain.cubin is not None and lined.cubin is not None
    without, body = disassemble(plain.cubin, "stream"), disassemble(lined.cubin, "stream")
    assert {i.line for i in without} == {("", 0)}
    assert [(i.opcode, i.operands) for i in body] == [(i.opcode, i.operands) for i in without]
    text = STREAM.splitlines()
    barriers = {text[i.line[1] - 1].strip() for i in body if i.opcode.startswith("BAR")}
    assert barriers == {"__syncthreads();"} and body[-1].line[0] == "kernel.cu"


def test_a_failing_disassembler_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(disassembly, "nvdisasm", lambda: tmp_path / "nvdisasm")
    with pytest.raises(NotDisassembled, match=r"^nvdisasm: ") as error:
        disassemble(b"", "stream")
    assert "\n" not in str(error.value)


def test_a_listing_is_cached_for_its_disassembler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program, log = tmp_path / "nvdisasm", tmp_path / "log"
    rows = '[0, [{"function-name": "f", "sass-instructions": [{"opcode": "OPCODE"}]}]]'

    def install(opcode: str) -> None:
        program.write_text(f"#!/bin/sh\necho >> {log}\necho '{rows.replace('OPCODE', opcode)}'\n")
        program.chmod(0o755)

    def opcode_of(cubin: bytes) -> str:
        (instruction,) = disassemble(cubin, "f")
        return instruction.opcode

    def runs() -> int:
        return len(log.read_text().splitlines())

    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(disassembly, "nvdisasm", lambda: program)
    install("FADD")
    assert [opcode_of(b"a"), opcode_of(b"a")] == ["FADD", "FADD"] and runs() == 1
    assert opcode_of(b"b") == "FADD" and runs() == 2
    for listing in (tmp_path / "cache").rglob("*.json"):
        listing.write_text("[damaged")
    assert opcode_of(b"a") == "FADD" and runs() == 3
    install("EXIT.OTHER")
    assert opcode_of(b"a") == "EXIT.OTHER" and runs() == 4


def test_without_a_cache_that_can_be_written_it_is_disassembled_each_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "file" / "cache"))
    built = compile_source(STREAM, "stream", "sm_80", Headers(()))
    assert built.cubin is not None and disassemble(built.cubin, "stream") == disassemble(built.cubin, "stream")


def test_targets_are_addresses_that_are_jumped_to_or_called() -> None:
    body = code("BRA 0x10", "BRA P0, 0x30", "CALL.REL.NOINC 0x20", "IMAD.MOV.U32 R1, 0x10", "BRX R2", "EXIT")
    assert [i.target for i in body] == [0x10, 0x30, 0x20, None, None, None]


def test_loops_are_backward_branches_to_other_instructions() -> None:
    body = code("MOV R1, R2", "FADD R1, R1", "@P0", "BRA 0x10", "BRA 0x60", "EXIT", "BRA 0x60")
    assert [(b[0].address, b[-1].address) for b in loops(body)] == [(0x10, 0x30)]


def test_the_main_loop_is_the_inner_one_that_does_the_work() -> None:
    inner = ["HMMA.16816.F32 R1", "HMMA.16816.F32 R2", "BRA 0x10"]
    body = code("S2R R0", *inner, "STG.E [R1]", "BRA 0x0", "EXIT")
    assert [i.opcode for i in main_loop(body)] == [row.partition(" ")[0] for row in inner]
    body = code(*["FFMA R0"] * 3, *["FFMA R1"] * 4, "BRA 0x30", *["FFMA R2"] * 5, "BRA 0x0", "EXIT")
    assert main_loop(body) == body[3:8], "the inner loop has over half of the outer loop's work"
    assert main_loop(code("MOV R1", "EXIT")) == code("MOV R1", "EXIT"), (
        "without loops, the main loop is the whole kernel"
    )


def test_kinds_widths_and_the_way_from_the_barrier_to_the_arithmetic() -> None:
    body = code(
        *("LDSM.16.M88.4 R4, [R0]", "HMMA.16816.F32 R8, R4", "BAR.SYNC 0x0", "LDGSTS.E.BYPASS.128 [R1], [R2]"),
        *("LDG.E.U16 R1, [R2]", "LDG.E R1, [R2]", "IMAD.MOV.U32 R3, R4", "BRA 0x0"),
    )
    instruction_mix = mix(body)
    assert [i.kind for i in body] == ["shared", "tensor", "barrier", "load", "load", "load", "integer", "control"]
    assert instruction_mix.loaded_bytes == 16 + 2 + 4
    assert instruction_mix.after_barrier == 6, "counted across the end of the loop: five instructions, then LDSM"
    assert sum(count for _, count in instruction_mix.kinds) == instruction_mix.instructions == 8
