"""What the k-tile loop of wgmma_matmul compiles to: no fence of the whole GPU, few instructions beside wgmma."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from benchmarks.search.first_choices import first_choice
from measurements.compiler.disassembly import DisassemblerMissing, Instruction, disassemble, main_loop, nvdisasm
from measurements.compiler.nvrtc import NvrtcMissing, compile_source, toolchain_version
from search_spaces.catalogue import problem_from_json, template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.kernel import Kernel

try:
    toolchain_version()
    nvdisasm()
except (NvrtcMissing, DisassemblerMissing) as missing:
    pytestmark = pytest.mark.skip(reason=str(missing))

FOLDER = Path(__file__).parent
CASES = (*sorted((FOLDER / "wgmma").glob("*.json")), *sorted((FOLDER / "eight_bit").glob("*.json")))
LONGEST = {4096: 53, 8192: 44}  # instructions of the loop of a first choice, beside its 8 or 4 multiplications


def machine_code(kernel: Kernel) -> tuple[Instruction, ...]:
    compiled = compile_source(kernel.source, kernel.entry, "sm_90a", kernel.headers)
    assert compiled.cubin is not None, compiled.log
    return disassemble(compiled.cubin, compiled.entry)


@cache
def chosen(size: int) -> tuple[Instruction, ...]:
    """The first choice for a square matmul of this size on an H200."""
    problem, on = Matmul(m=size, n=size, k=size, a="bf16", b="bf16", out="bf16"), device("h200")
    schedule, _ = first_choice(problem, on)
    return machine_code(template(schedule.template).kernel(problem, schedule, on))


def between_wait_and_multiplications(body: tuple[Instruction, ...]) -> list[Instruction]:
    """From the first wait for a barrier in memory, or the first multiplication, to the last multiplication."""
    at = [i.address for i in body if i.opcode.startswith(("HGMMA", "IGMMA", "QGMMA", "BGMMA"))]
    first = min([i.address for i in body if i.opcode.startswith("SYNCS.PHASECHK") and i.address < at[0]] or at)
    return [i for i in body if first <= i.address <= at[-1]]


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_no_fence_of_the_gpu_between_the_first_wait_and_the_last_multiplication(case: Path) -> None:
    document = json.loads(case.read_text())
    problem, name = problem_from_json(document["problem"]), document["template"]
    if "wgmma" not in name:
        pytest.skip("another template")
    schedule = Schedule.from_json(name, document["schedule"])
    body = machine_code(template(name).kernel(problem, schedule, device(document["device"])))
    loop = main_loop(body)
    assert any(i.kind == "tensor" for i in loop)
    for i in (*between_wait_and_multiplications(body), *loop):
        assert not ("GPU" in i.opcode and i.opcode.startswith("MEMBAR")), i
        assert not i.opcode.startswith(("CCTL", "ERRBAR")), i


@pytest.mark.parametrize("size", [4096, 8192])
def test_the_loop_of_a_first_choice_is_short(size: int) -> None:
    loop = main_loop(chosen(size))
    beside = [i for i in loop if i.kind != "tensor"]
    assert len(beside) <= LONGEST[size], [i.opcode for i in beside]
    assert sum(i.opcode.startswith("R2UR") for i in loop) <= 1
    assert not any(i.opcode.startswith(("MEMBAR", "CCTL", "ERRBAR", "ELECT")) for i in loop)
    assert sum(i.opcode.startswith("SYNCS.PHASECHK") for i in loop) == 1
    assert sum(i.opcode.startswith("SYNCS.ARRIVE") for i in loop) == 1


@pytest.mark.parametrize("size", [4096, 8192])
def test_one_lane_sends_tma_instructions_without_a_loop_over_lanes(size: int) -> None:
    """ptxas sends what it does not know to be of one lane in a loop that elects one after another."""
    assert any(i.opcode.startswith("UTMALDG") for i in chosen(size))
    assert not any("BRA.U.ANY" in i.opcode for i in chosen(size))
