"""The row that makes matvec a family of autosched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from search_spaces.devices import Device
from search_spaces.dtypes import FLOAT_DTYPES
from search_spaces.family import Family, KernelConfig, Option
from search_spaces.matvec.config import config
from search_spaces.matvec.problem import INPUTS, Matvec
from search_spaces.matvec.shrink import shrink
from search_spaces.matvec.space import space
from search_spaces.matvec.work import work
from search_spaces.problem import Problem
from search_spaces.schedule import Schedule
from search_spaces.space import Space
from search_spaces.work import Work

_OPTIONS = (
    Option("m", ("-m",), int, "rows of x and out, at most 16"),
    Option("n", ("-n",), int, "rows of w, columns of out"),
    Option("k", ("-k",), int, "columns of x and w"),
    Option("dtype", ("--dtype",), str, "type of x and w", "f16", INPUTS),
    Option("out", ("--out",), str, "type of out; by default that of x", "", ("", *FLOAT_DTYPES)),
)


def _matvec(problem: Problem) -> Matvec:
    if not isinstance(problem, Matvec):
        raise TypeError(f"expected a matvec problem, not {type(problem).__name__}")
    return problem


def _from_json(data: Mapping[str, Any]) -> Problem:
    return Matvec.from_json(data)


def _from_options(options: Mapping[str, Any]) -> Problem:
    return Matvec.from_options(options)


def _space(problem: Problem, device: Device) -> Space:
    return space(_matvec(problem), device)


def _config(problem: Problem, schedule: Schedule, device: Device) -> KernelConfig:
    return config(_matvec(problem), schedule, device)


def _work(problem: Problem, schedule: Schedule, device: Device) -> Work:
    return work(_matvec(problem), schedule, device)


def _shrink(problem: Problem, schedule: Schedule) -> Problem:
    return shrink(_matvec(problem), schedule)


FAMILY = Family(
    name="matvec",
    summary="out = x @ w.T for up to 16 rows of x",
    header="autosched/kernels/matvec.cuh",
    entry="autosched::matvec",
    options=_OPTIONS,
    problem_from_options=_from_options,
    problem_from_json=_from_json,
    space=_space,
    config=_config,
    work=_work,
    shrink=_shrink,
)
