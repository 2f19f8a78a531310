"""Break kernels on purpose, and see whether the emulator or the reference notices: the runner of all fault tables."""

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
WRONG = "wrong numbers"  # beside the kinds of findings: nothing is found, and the reference disagrees


def reported_by_verification(
    problem: Problem, kernel: GeneratedKernel, depths: tuple[Depth, ...] = ("quick", "full")
) -> set[str]:
    """Return the kinds of what a verification finds, of the first of ``depths`` that finds anything; nothing for a
    right kernel.
    """
    for depth in depths:
        *_, last = verify_kernel(problem, kernel, time_limit=30, depth=depth)
        if last.status != "ok":
            return {str(f.kind) for f in last.emulation.findings} | {last.status} - {"findings"}
    return set()


def check_emulation_finds(found: tuple[str, ...], problem: Problem, kernel: GeneratedKernel, order: Order) -> None:
    """Fail unless one launch on random inputs has one of ``found``, kinds of findings or WRONG."""
    inputs = problem.random_inputs(0)
    run = emulate(kernel, inputs, order=order)
    kinds = {str(f.kind) for f in run.findings}
    if run.ok and not check(problem, inputs, run.outputs).ok:
        kinds.add(WRONG)
    assert kinds & set(found), (run.status, run.reason, kinds)


@dataclass(frozen=True)
class Mutation:
    """Replace ``old``, which occurs once in ``header`` (below include/autosched) or its folder, by ``new``, and run
    ``case``, a golden case whose schedule reaches the edited line, on its problem with some ``fields`` replaced. An
    edit that does not compile says nothing about the emulator, so only one that ``breaks_a_type`` on purpose may be
    refused by the compiler.
    """

    name: str
    case: str
    header: str
    old: str
    new: str
    breaks_a_type: bool = False
    fields: tuple[tuple[str, str | int | float], ...] = ()


def found_in(case: str, headers: Headers | None = None, **fields: str | int | float) -> str:
    """Return "ok", or the finding of golden case ``case``, with other ``headers`` and ``fields`` of its problem."""
    data = json.loads((GOLDEN / f"{case}.json").read_text())
    problem = dataclasses.replace(problem_from_json(data["problem"]), **fields)
    kernel = generate(problem, Schedule.from_json(data["template"], data["schedule"]), device(data["device"]))
    if headers is not None:
        kernel = dataclasses.replace(kernel, headers=headers)
    *_, last = verify_kernel(problem, kernel, seed=3, time_limit=30)
    return "ok" if last.status == "ok" else f"{last.status}: {last.reason}"


def found_with(mutation: Mutation) -> str:
    """``found_in`` with the mutated headers."""
    right = Headers.from_folder(include_dir())
    headers = edited(right, f"autosched/{mutation.header}", mutation.old, mutation.new)
    return found_in(mutation.case, headers, **dict(mutation.fields))


def mutation_tests(
    mutations: tuple[Mutation, ...], *more_cases: str
) -> tuple[Callable[[str], None], Callable[[Mutation], None]]:
    """Two tests: the cases are clean as long as nothing is broken (``more_cases`` too), and each mutation is found.

    A fifth of the mutations runs by default, with their cases.
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
        found = found_in(case, **dict(fields))
        assert found == "ok", found

    @pytest.mark.parametrize("mutation", spread(mutations, count), ids=lambda m: m.name)
    def broken(mutation: Mutation) -> None:
        found = found_with(mutation)
        assert found != "ok", f"nobody noticed: {mutation.name}"
        assert mutation.breaks_a_type or not found.startswith("compile_error"), found

    return unbroken, broken
