"""Check whether baselines without times have a legitimate reason."""

from __future__ import annotations

import re
from collections.abc import Sequence

from measurements.runners.base import Entrant
from measurements.runners.cuda.libraries import baselines as cuda_library
from measurements.trials.measurement import Status
from search_spaces.operators.problem import Problem

# Errors that show a mistake in our code. ModuleNotFoundError is not among them, because a package may be missing.
_MISTAKE = re.compile(r"\b(Type|Attribute|Name|Value|Key|Import)Error\b")


def unjustified(problem: Problem, baselines: Sequence[Entrant], *, torch_works: bool) -> list[str]:
    """Return a line for each baseline without times that was expected to have times.

    A baseline must not lack times because of a mistake in autosched, such as a TypeError. Two baselines must be timed:
    cuBLASLt must be timed for every matmul that cuBLAS computes. If torch works, it must be timed for every operator in
    its table.

    Args:
        problem: Problem of the comparison.
        baselines: Baselines of the comparison, each with its times or the reason for having none.
        torch_works: True if torch can compute on this machine.
    """
    able = {entrant.label for entrant in baselines if entrant.status is Status.OK}
    due = set()
    if problem.operator == "matmul" and "library" in able:
        due.add("cublaslt")
    if torch_works and _torch_has(problem):
        due.add("torch")
    return [
        f"{entrant.label}: {entrant.reason}"
        for entrant in baselines
        if entrant.label not in able and (entrant.label in due or _mistaken(entrant, torch_works))
    ]


def _mistaken(entrant: Entrant, torch_works: bool) -> bool:
    match = _MISTAKE.search(entrant.reason)
    broken = entrant.label in ("torch", "triton") and not torch_works  # a broken installation may raise ImportError
    return match is not None and not (broken and match[1] == "Import")


def _torch_has(problem: Problem) -> bool:
    try:
        cuda_library._entry("torch", cuda_library._TORCH, problem)
    except cuda_library.Unable:
        return False
    return True
