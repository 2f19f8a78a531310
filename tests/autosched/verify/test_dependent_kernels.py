"""Kernels that may start before the preceding kernel has ended: verification and machine code."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from cases import representative
from needs import needs_compiler, needs_nvrtc
from random_programs import random_program

from autosched.programs.loading import problem as problem_of
from autosched.verify.schedules import verify_kernel
from measurements.compiler.disassembly import DisassemblerMissing, disassemble, nvdisasm
from measurements.compiler.nvrtc import compile_source
from measurements.emulator import FindingKind
from search_spaces.catalogue import template, templates_for
from search_spaces.hardware.devices import Device, device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import RmsNorm, Softmax
from search_spaces.operators.transpose import Transpose
from search_spaces.templates.dependent import LAUNCH, WAIT, made_dependent

pytestmark = [needs_nvrtc, needs_compiler]

H100 = device("h100")
PROBLEMS: tuple[Problem, ...] = (
    RmsNorm(9, 130, "bf16"),
    Softmax(7, 300, "f16"),
    Matmul(16, 64, 96, a="bf16", b="bf16", out="bf16"),
    Matvec(1, 40, 96),
    Transpose(33, 50, dtype="u16"),
)


def kernels(problem: Problem, count: int, seed: int, row: Device = H100) -> list[GeneratedKernel]:
    space = templates_for(problem, row).space(problem, row)
    schedules = itertools.islice(space.sample(count, seed), count)
    return [template(s.template).kernel(problem, s, row) for s in schedules]


def kinds(problem: Problem, kernel: GeneratedKernel) -> set[FindingKind]:
    reported = set[FindingKind]()
    for run in verify_kernel(problem, kernel):
        reported |= {f.kind for f in run.emulation.faults}
        if not reported:
            assert run.status == "ok", run.reason
    return reported


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.operator)
def test_sampled_schedules_wait_for_the_previous_kernel(problem: Problem) -> None:
    for kernel in kernels(problem, 1, 3):
        assert kinds(problem, made_dependent(kernel, H100)) == set()


@pytest.mark.nightly
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.operator)
def test_many_schedules_wait_for_the_previous_kernel(problem: Problem) -> None:
    for kernel in kernels(problem, 40, 11):
        assert kinds(problem, made_dependent(kernel, H100)) == set()


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.operator)
def test_a_dependent_launch_without_its_wait_is_found(problem: Problem) -> None:
    (kernel,) = kernels(problem, 1, 5)
    dependent_kernel = made_dependent(kernel, H100)
    faulty = replace(dependent_kernel, source=dependent_kernel.source.replace(WAIT, ""))
    assert faulty.source != dependent_kernel.source
    assert kinds(problem, faulty) == {FindingKind.GLOBAL_RACE}


def test_an_ordinary_launch_of_a_dependent_kernel_computes_the_same() -> None:
    problem = PROBLEMS[0]
    (kernel,) = kernels(problem, 1, 7)
    ordinary = replace(made_dependent(kernel, H100), dependent=False)
    assert kinds(problem, ordinary) == set()
    assert made_dependent(kernel, H100).digest != kernel.digest


def test_every_launch_of_a_pipeline_depends_on_the_previous_one() -> None:
    problem = Softmax(2, 40_000, "f16")
    space = templates_for(problem, H100).space(problem, H100)
    split = next(s for s in space.sample(4000, 0) if s["finish"] == "second_launch" and s.integer("split_k") > 1)
    dependent_kernel = made_dependent(template(split.template).kernel(problem, split, H100), H100)
    assert dependent_kernel.launches == 2 and dependent_kernel.dependent
    assert kinds(problem, dependent_kernel) == set()


@pytest.mark.parametrize("seed", [0, 1])
def test_tile_programs(seed: int) -> None:
    problem = problem_of(random_program(seed), m=40, n=70, k=33)
    (kernel,) = kernels(problem, 1, seed)
    dependent_kernel = made_dependent(kernel, H100)
    assert kinds(problem, dependent_kernel) == set()
    assert kinds(problem, replace(dependent_kernel, source=dependent_kernel.source.replace(WAIT, ""))) == {
        FindingKind.GLOBAL_RACE
    }


def test_unsupported_dependent_kernels_are_rejected() -> None:
    problem = PROBLEMS[1]
    (kernel,) = kernels(problem, 1, 0)
    with pytest.raises(ValueError, match="a100"):
        made_dependent(kernel, device("a100"))
    with pytest.raises(ValueError, match="generated"):
        made_dependent(replace(kernel, source='extern "C" __global__ void f() {}'), H100)


def _id_of_gpu(case: tuple[str, Problem]) -> str:
    name, problem = case
    return f"{name}-{problem.operator}"


def has_disassembler() -> bool:
    try:
        nvdisasm()
    except DisassemblerMissing:
        return False
    return True


@pytest.mark.skipif(not has_disassembler(), reason="needs nvdisasm")
@pytest.mark.parametrize(
    ("name", "problem"),
    representative(itertools.product(("h100", "b200"), PROBLEMS), "h100-matmul", "b200-softmax", ids=_id_of_gpu),
    ids=lambda value: getattr(value, "operator", value),
)
def test_the_machine_code_waits_before_it_touches_memory(problem: Problem, name: str) -> None:
    row = device(name)
    (plain,) = kernels(problem, 1, 2, row)
    opcodes = {}
    for kind, kernel in (("plain", plain), ("dependent", made_dependent(plain, row))):
        compiled = compile_source(kernel.source, kernel.entry, row.arch, kernel.headers)
        assert compiled.cubin is not None, compiled.log
        opcodes[kind] = [i.opcode.partition(".")[0] for i in disassemble(compiled.cubin, compiled.entry)]
    wait, launch = "ACQBULK", "PREEXIT"
    assert not {wait, launch} & set(opcodes["plain"])
    code = opcodes["dependent"]
    assert code.count(wait) == code.count(launch) == 1 and code.index(wait) < code.index(launch)
    memory = ("LD", "LDG", "LDGSTS", "UTMALDG", "UBLKCP", "ST", "STG", "RED", "REDG", "ATOM", "ATOMG", "UTMASTG")
    assert code.index(launch) < min(code.index(opcode) for opcode in memory if opcode in code)


def test_the_source_waits_and_launches_once() -> None:
    (kernel,) = kernels(PROBLEMS[2], 1, 0)
    dependent_kernel = made_dependent(kernel, H100)
    assert dependent_kernel.source.count(WAIT) == dependent_kernel.source.count(LAUNCH) == 1
