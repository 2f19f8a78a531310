"""Break kernels by one edit of one header, and see whether the emulator or the reference notices."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from kernels import generate

from measurements.emulator import emulate
from measurements.verification import check
from search_spaces.catalogue import problem_from_json
from search_spaces.hardware.devices import device
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.device_source import include_dir
from search_spaces.templates.headers import Headers

GOLDEN = Path(__file__).parents[1] / "golden"


@dataclass(frozen=True)
class Mutation:
    """Replace ``old``, which occurs once in ``header`` (below include/autosched), by ``new``, and run ``case``, a
    golden case whose schedule reaches the edited line. An edit that does not compile proves nothing about the emulator,
    so only one that ``breaks_a_type`` on purpose may be refused by the compiler."""

    name: str
    case: str
    header: str
    old: str
    new: str
    breaks_a_type: bool = False


def found_in(case: str, include: str | None = None) -> str:
    """ "ok", or what was found when the golden case ``case`` was emulated, with the headers of ``include``."""
    data = json.loads((GOLDEN / f"{case}.json").read_text())
    problem = problem_from_json(data["problem"])
    kernel = generate(problem, Schedule.from_json(data["template"], data["schedule"]), device(data["device"]))
    if include is not None:
        kernel = dataclasses.replace(kernel, headers=Headers.from_folder(include))
    inputs = problem.random_inputs(3)
    result = emulate(kernel, inputs, time_limit=30)
    if result.status != "ok":
        return f"{result.status}: {result.reason}"
    outcome = check(problem, inputs, result.outputs)
    return "ok" if outcome.ok else f"wrong_result: {outcome.reason}"


def found_with(mutation: Mutation, folder: Path) -> str:
    """``found_in`` with the mutated headers, which are written below ``folder``."""
    include = folder / "include"
    shutil.copytree(include_dir(), include)
    header = include / "autosched" / mutation.header
    text = header.read_text()
    assert text.count(mutation.old) == 1, f"the edit must fit one place of {mutation.header}"
    header.write_text(text.replace(mutation.old, mutation.new))
    return found_in(mutation.case, str(include))


def mutation_tests(
    mutations: tuple[Mutation, ...], *more_cases: str
) -> tuple[Callable[[str], None], Callable[[Mutation, Path], None]]:
    """Two tests: the cases are clean as long as nothing is broken (``more_cases`` too), and each mutation is found."""

    @pytest.mark.parametrize("case", sorted({m.case for m in mutations} | set(more_cases)))
    def unbroken(case: str) -> None:
        found = found_in(case)
        assert found == "ok", found

    @pytest.mark.parametrize("mutation", mutations, ids=lambda m: m.name)
    def broken(mutation: Mutation, tmp_path: Path) -> None:
        found = found_with(mutation, tmp_path)
        assert found != "ok", f"nobody noticed: {mutation.name}"
        assert mutation.breaks_a_type or not found.startswith("compile_error"), found

    return unbroken, broken
