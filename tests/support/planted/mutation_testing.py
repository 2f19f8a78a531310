"""Mutation testing of kernels: check that the emulator or the reference detects each planted fault."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from cases import spread
from header_edits import edited
from kernels import generate

from autosched.verify.schedules import Depth, verify_kernel
from measurements.emulator import emulate
from measurements.emulator.order import Order
from measurements.trials.comparison import check
from search_spaces.catalogue import problem_from_json
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers, include_dir
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule

GOLDEN = Path(__file__).parents[2] / "golden"
WRONG = "wrong numbers"  # outcome: no finding, but the result differs from the reference


def reported_by_verification(
    problem: Problem, kernel: GeneratedKernel, depths: tuple[Depth, ...] = ("quick", "full")
) -> set[str]:
    """Verify with each of ``depths`` until there are findings, and return the kinds of these findings.

    The set is empty for a correct kernel.
    """
    for depth in depths:
        *_, last = verify_kernel(problem, kernel, time_limit=30, depth=depth)
        if last.status != "ok":
            return {str(f.kind) for f in last.emulation.findings} | {last.status} - {"findings"}
    return set()


def check_emulation_finds(expected: tuple[str, ...], problem: Problem, kernel: GeneratedKernel, order: Order) -> None:
    """Fail unless one launch on random inputs has one of ``expected``: kinds of findings, or WRONG."""
    inputs = problem.random_inputs(0)
    run = emulate(kernel, inputs, order=order)
    kinds = {str(f.kind) for f in run.findings}
    if run.ok and not check(problem, inputs, run.outputs).ok:
        kinds.add(WRONG)
    assert kinds & set(expected), (run.status, run.reason, kinds)


@dataclass(frozen=True)
class Mutation:
    """A fault, planted by replacing ``old`` with ``new``; ``old`` occurs once in a header or in the header's folder.

    ``header`` is a path below include/autosched. ``case`` is a golden case whose schedule executes the edited line. The
    case runs on its problem, with some ``fields`` replaced. An edit that does not compile does not test the emulator,
    so only edits with ``breaks_a_type`` may fail to compile.
    """

    name: str
    case: str
    header: str
    old: str
    new: str
    breaks_a_type: bool = False
    fields: tuple[tuple[str, str | int | float], ...] = ()


def result_of(case: str, headers: Headers | None = None, **fields: str | int | float) -> str:
    """Verify a golden case and return "ok", or the status and the reason of the failure.

    Args:
        case: Name of the golden case.
        headers: Headers that replace the kernel's; None for the unmodified ones.
        fields: Fields that replace those of the case's problem.
    """
    data = json.loads((GOLDEN / f"{case}.json").read_text())
    problem = dataclasses.replace(problem_from_json(data["problem"]), **fields)
    kernel = generate(problem, Schedule.from_json(data["template"], data["schedule"]), device(data["device"]))
    if headers is not None:
        kernel = dataclasses.replace(kernel, headers=headers)
    *_, last = verify_kernel(problem, kernel, seed=3, time_limit=30)
    return "ok" if last.status == "ok" else f"{last.status}: {last.reason}"


def result_with(mutation: Mutation) -> str:
    """Return the result of ``result_of`` with the mutated headers."""
    right = Headers.from_folder(include_dir())
    headers = edited(right, f"autosched/{mutation.header}", mutation.old, mutation.new)
    return result_of(mutation.case, headers, **dict(mutation.fields))


def mutation_tests(
    mutations: tuple[Mutation, ...], *more_cases: str
) -> tuple[Callable[[str], None], Callable[[Mutation], None]]:
    """Return two tests: unmodified cases (and ``more_cases``) have no findings, and each mutation is detected.

    Every run includes a fifth of the mutations, with their cases.
    """
    count = max(5, len(mutations) // 5)
    by_day = [mutations[part * len(mutations) // count] for part in range(count)]
    quick = {(m.case, m.fields) for m in by_day} | {(case, ()) for case in more_cases}
    cases = [
        pytest.param(*case, marks=[] if case in quick else [pytest.mark.nightly], id=case[0])
        for case in sorted({(m.case, m.fields) for m in mutations} | quick)
    ]

    @pytest.mark.parametrize(("case", "fields"), cases)
    def unbroken(case: str, fields: tuple[tuple[str, str | int | float], ...]) -> None:
        finding = result_of(case, **dict(fields))
        assert finding == "ok", finding

    @pytest.mark.parametrize("mutation", spread(mutations, count), ids=lambda m: m.name)
    def broken(mutation: Mutation) -> None:
        finding = result_with(mutation)
        assert finding != "ok", f"the fault was not detected: {mutation.name}"
        assert mutation.breaks_a_type or not finding.startswith("compile_error"), finding

    return unbroken, broken
