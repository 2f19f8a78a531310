"""hold_register keeps the compiler from writing a wgmma's registers after the fence or reading them before the wait."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import pytest
from random_programs import random_loops, random_program
from random_schedules import random_start
from wgmma_schedules import ATTENTION, CAUSAL, GEMM, H100, attention, boxes, gemm, legal, program_at, scaled_rows

from autosched.programs.loading import problem
from measurements.emulator import emulate
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.template import template

CALL = re.compile(r"tile::multiply_(boxes|registers)<[^;]*>\((\w+), (\w+), .*?(true|false)\);")
HOLD = re.compile(r"^.*ptx::hold_register\((\w+)\[r\]\);\n", re.MULTILINE)
KERNELS = {
    "gemm": (GEMM, {"m": 136, "n": 72, "k": 200}, gemm()),
    "gemm in flight": (GEMM, {"m": 136, "n": 72, "k": 200}, gemm(in_flight=1, subgroups_m=8)),
    "causal attention": (CAUSAL, {"h": 2, "g": 1, "s": 100, "d": 64}, attention()),
    "attention": (ATTENTION, {"h": 1, "g": 1, "s": 200, "d": 64}, attention(home_q="registers", filled_by="tma")),
    "scaled rows": (
        scaled_rows, {"m": 72, "n": 72, "k": 136},
        {**gemm(), **boxes("x", "swizzle(3,3,3)"), **boxes("w", "swizzle(3,3,3)")},
    ),
}  # fmt: skip


def kernel_of(name: str) -> tuple[ProgramProblem, GeneratedKernel]:
    source, sizes, values = KERNELS[name]
    p = problem(program_at(source), **sizes)
    return p, template(p.program).kernel(p, legal(p, values), H100)


def unheld(source: str) -> Iterator[str]:
    """Yield the register arrays that the compiler may write after a wgmma's fence, or read before the wgmma's wait."""
    for call in CALL.finditer(source):
        kind, sums, factors, adds = call.groups()
        fence = source.rindex("ptx::wgmma_fence();", 0, call.start())
        read = source.find(f"{sums}[", source.index("ptx::wgmma_commit_group();", call.end()))
        if read >= 0 and not _is_held(source, read):
            yield f"{sums} after the wait"
        for array, written in ((sums, adds == "true"), (factors, kind == "registers")):
            last = source.rfind(f"{array}[", 0, fence)
            if written and not _is_held(source, last):
                yield f"{array} before the fence"


def _is_held(source: str, at: int) -> bool:
    """Return True if the line at offset ``at`` calls hold_register, or is a copy that the compiler does not move."""
    line = source[source.rindex("\n", 0, at) : source.index("\n", at)]
    return "hold_register(" in line or "copy_for_one(" in line


@pytest.mark.parametrize("name", KERNELS)
def test_each_missing_register_hold_is_reported(name: str) -> None:
    _, kernel = kernel_of(name)
    holds = list(HOLD.finditer(kernel.source))
    assert holds and not list(unheld(kernel.source))
    for hold in holds:
        without = kernel.source[: hold.start()] + kernel.source[hold.end() :]
        assert any(finding.startswith(f"{hold[1]} ") for finding in unheld(without)), hold[1]


def test_registers_of_random_programs_are_held() -> None:
    multiplied = 0
    for seed in range(12):
        sizes = {"m": 64, "n": 64, "k": 64} | ({"q": 64, "fixed": 64} if seed % 2 else {})
        p = problem(random_loops(seed) if seed % 2 else random_program(seed), **sizes)
        space = template(p.program).space(p, H100)
        intrinsics = next(q.values for q in space.parameters if q.name == "intrinsic")
        for intrinsic in (intrinsic for intrinsic in intrinsics if str(intrinsic).startswith("wgmma")):
            schedule = random_start(space, seed, {"intrinsic": intrinsic})
            if schedule is not None:
                source = template(p.program).kernel(p, schedule, H100).source
                assert not list(unheld(source)), (seed, schedule)
                multiplied += len(CALL.findall(source))
    assert multiplied >= 5


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        (r"(float v23\[64\];\n)(.*?)(ptx::wgmma_fence\(\);\n)", r"\1\3\2", "missing_wgmma_fence"),
        (r"(unsigned w21\[32\];\n)(.*?)(ptx::wgmma_fence\(\);\n)", r"\1\3\2", "missing_wgmma_fence"),
        (r"(wgmma_commit_group\(\);\n.*?)ptx::wgmma_wait_group<0>\(\);\n", r"\1", "wgmma_in_flight"),
    ],
    ids=["addend", "factor", "result"],
)
def test_compiler_reordering_without_holds_is_reported(old: str, new: str, finding: str) -> None:
    p, kernel = kernel_of("causal attention")
    source, count = re.subn(old, new, kernel.source, count=1, flags=re.DOTALL)
    assert count == 1
    run = emulate(dataclasses.replace(kernel, source=source), p.random_inputs(1), time_limit=60.0)
    assert finding in str(run.reason), run.status
