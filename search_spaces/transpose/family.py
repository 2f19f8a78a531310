"""The row that makes transpose a family of autosched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from search_spaces.devices import Device
from search_spaces.family import Family, KernelConfig, Option
from search_spaces.problem import Problem
from search_spaces.schedule import Schedule
from search_spaces.space import Space
from search_spaces.transpose.config import config
from search_spaces.transpose.problem import ELEMENT_BYTES, Transpose
from search_spaces.transpose.shrink import shrink
from search_spaces.transpose.space import space
from search_spaces.transpose.work import work
from search_spaces.work import Work

OPTIONS = (
    Option("rows", ("--rows",), int, "rows of x"),
    Option("columns", ("--columns",), int, "columns of x"),
    Option("batch", ("--batch",), int, "number of matrices", 1),
    Option("dtype", ("--dtype",), str, "size of an element", "u32", tuple(ELEMENT_BYTES)),
)


def _transpose(problem: Problem) -> Transpose:
    if not isinstance(problem, Transpose):
        raise TypeError(f"expected a transpose problem, not {type(problem).__name__}")
    return problem


def _from_json(data: Mapping[str, Any]) -> Problem:
    return Transpose.from_json(data)


def _from_options(options: Mapping[str, Any]) -> Problem:
    return Transpose.from_options(options)


def _space(problem: Problem, device: Device) -> Space:
    return space(_transpose(problem), device)


def _config(problem: Problem, schedule: Schedule, device: Device) -> KernelConfig:
    return config(_transpose(problem), schedule, device)


def _work(problem: Problem, schedule: Schedule, device: Device) -> Work:
    return work(_transpose(problem), schedule, device)


def _shrink(problem: Problem, schedule: Schedule) -> Problem:
    return shrink(_transpose(problem), schedule)


FAMILY = Family(
    name="transpose",
    summary="out = x with rows and columns swapped, batched, elements of 1 to 16 bytes",
    header="autosched/kernels/transpose.cuh",
    entry="autosched::transpose",
    options=OPTIONS,
    problem_from_options=_from_options,
    problem_from_json=_from_json,
    space=_space,
    config=_config,
    work=_work,
    shrink=_shrink,
)
