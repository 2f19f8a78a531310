"""An operator family, and the one list of them: a family is one package here and one kernel file that meet in a row.

To add a family: write its package with a ``FAMILY`` row, write its ``.cuh`` file, and name the row in ``_load()``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from search_spaces.devices import Device
from search_spaces.pictures import Drawing
from search_spaces.problem import Operand, Problem
from search_spaces.schedule import Schedule
from search_spaces.space import Space
from search_spaces.work import Work


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
    included; ``call`` are the arguments of the entry template, names of parameters or ``nullptr``.
    """

    members: tuple[str, ...]
    arguments: tuple[Operand, ...]
    call: tuple[str, ...]
    blocks: int
    threads: int
    min_blocks: int
    dynamic_shared_bytes: int


@dataclass(frozen=True)
class Family:
    """One operator family. ``header`` is included by the generated source; ``entry`` is a device function template
    over Config in it that takes the arguments in order."""

    name: str
    summary: str
    header: str
    entry: str
    options: tuple[Option, ...]
    problem_from_options: Callable[[Mapping[str, Any]], Problem]
    problem_from_json: Callable[[Mapping[str, Any]], Problem]
    space: Callable[[Problem, Device], Space]
    config: Callable[[Problem, Schedule, Device], KernelConfig]
    work: Callable[[Problem, Schedule, Device], Work]
    shrink: Callable[[Problem, Schedule], Problem]  # the smallest problem with the same remainders, for the emulator
    drawings: Callable[[Problem, Schedule, Device], tuple[Drawing, ...]] = lambda problem, schedule, device: ()


@cache
def _load() -> dict[str, Family]:
    from search_spaces.matmul.family import FAMILY as matmul
    from search_spaces.matvec.family import FAMILY as matvec

    return {f.name: f for f in (matmul, matvec)}


def families() -> tuple[Family, ...]:
    return tuple(_load().values())


def family(name: str) -> Family:
    """The family called ``name``. Raises ValueError that lists the known ones."""
    if name not in _load():
        raise ValueError(f"unknown family {name!r}: use one of {', '.join(_load())}")
    return _load()[name]


def problem_from_json(data: Mapping[str, Any]) -> Problem:
    """The problem whose ``to_json()`` was ``data``. Raises ValueError for an unknown family or a malformed problem."""
    return family(str(data.get("family"))).problem_from_json(data)
