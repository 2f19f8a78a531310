"""An operator family, and the one list of them: a family is one package here and one kernel file that meet in a row.

To add a family: write its package with a ``FAMILY`` row, write its ``.cuh`` file, and name the row in ``_load()``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

from search_spaces.hardware.cost_counts import CostCounts
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Operand, Problem
from search_spaces.pictures import Drawing
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space


@dataclass(frozen=True)
class Option:
    """One problem option of the command line: ``flags`` such as ("-m",) or ("--dtype",)."""

    name: str
    flags: tuple[str, ...]
    type: type[int] | type[str]
    help: str
    default: int | str | None = None  # None: required
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class KernelConfig:
    """Everything code generation needs: the constants of the CUDA ``Config`` and the launch.

    ``members`` are lines of the struct's body. ``arguments`` are the kernel's parameters in order, workspaces
    included; ``call`` are the arguments of the entry template, names of parameters or ``nullptr``. There are
    ``launches`` launches, one after another.
    """

    members: tuple[str, ...]
    arguments: tuple[Operand, ...]
    call: tuple[str, ...]
    blocks: int
    threads: int
    min_blocks: int
    dynamic_shared_bytes: int
    launches: int = 1


P = TypeVar("P", bound=Problem)


@dataclass(frozen=True)
class Family(Generic[P]):
    """One operator family. ``header`` is included by the generated source; ``entry`` is a device function template
    over Config in it that takes the arguments in order."""

    name: str
    summary: str
    header: str
    entry: str
    options: tuple[Option, ...]
    problem_from_options: Callable[[Mapping[str, Any]], P]
    problem_from_json: Callable[[Mapping[str, Any]], P]
    space: Callable[[P, Device], Space]
    config: Callable[[P, Schedule, Device], KernelConfig]
    counts: Callable[[P, Schedule, Device], CostCounts]
    proxy: Callable[[P, Schedule], P]  # the smallest problem with the same remainders, for the emulator
    drawings: Callable[[P, Schedule, Device], tuple[Drawing, ...]] = lambda problem, schedule, device: ()


AnyFamily = Family[Any]


@cache
def _load() -> dict[str, AnyFamily]:
    from search_spaces.templates.copy.template import FAMILY as copy
    from search_spaces.templates.matmul.template import FAMILY as matmul
    from search_spaces.templates.matvec.template import FAMILY as matvec
    from search_spaces.templates.row_reduction.template import FAMILIES as row_reductions
    from search_spaces.templates.transpose.template import FAMILY as transpose

    return {f.name: f for f in (matmul, matvec, *row_reductions, transpose, copy)}


def families() -> tuple[AnyFamily, ...]:
    return tuple(_load().values())


def family(name: str) -> AnyFamily:
    """The family called ``name``. Raises ValueError that lists the known ones."""
    if name not in _load():
        raise ValueError(f"unknown family {name!r}: use one of {', '.join(_load())}")
    return _load()[name]


def problem_from_json(data: Mapping[str, Any]) -> Problem:
    """The problem whose ``to_json()`` was ``data``. Raises ValueError for an unknown family or a malformed problem."""
    if not isinstance(data, Mapping):
        raise ValueError(f"the JSON of a problem is an object, not {data!r}")
    problem: Problem = family(str(data.get("family"))).problem_from_json(data)
    return problem
