"""The row that makes matmul a family of autosched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from search_spaces.devices import Device
from search_spaces.dtypes import FLOAT_DTYPES
from search_spaces.family import Family, KernelConfig, Option
from search_spaces.matmul.config import config, plan
from search_spaces.matmul.problem import EPILOGUES, ORDERS, PRECISIONS, Matmul
from search_spaces.matmul.shrink import shrink
from search_spaces.matmul.space import space
from search_spaces.matmul.work import work
from search_spaces.pictures import Drawing
from search_spaces.problem import Problem
from search_spaces.schedule import Schedule
from search_spaces.space import Space
from search_spaces.work import Work

_TYPES = tuple(FLOAT_DTYPES)

_OPTIONS = (
    Option("m", ("-m",), int, "rows of a and out"),
    Option("n", ("-n",), int, "columns of b and out"),
    Option("k", ("-k",), int, "columns of a, rows of b"),
    Option("batch", ("--batch",), int, "number of matrices", 1),
    Option("dtype", ("--dtype",), str, "type of a and b", "f16", _TYPES),
    Option("acc", ("--acc",), str, "type of the accumulator", "f32", ("f32",)),
    Option("out", ("--out",), str, "type of out; by default that of a and b", "", ("", *_TYPES)),
    Option("order_a", ("--order-a",), str, "storage order of a", "row", ORDERS),
    Option("order_b", ("--order-b",), str, "storage order of b", "row", ORDERS),
    Option("epilogue", ("--epilogue",), str, "what follows the product", "none", EPILOGUES),
    Option("precision", ("--precision",), str, "what f32 inputs may be rounded to", "tf32", PRECISIONS),
)


def _matmul(problem: Problem) -> Matmul:
    if not isinstance(problem, Matmul):
        raise TypeError(f"expected a matmul problem, not {type(problem).__name__}")
    return problem


def _from_json(data: Mapping[str, Any]) -> Problem:
    return Matmul.from_json(data)


def _from_options(options: Mapping[str, Any]) -> Problem:
    return Matmul.from_options(options)


def _space(problem: Problem, device: Device) -> Space:
    return space(_matmul(problem), device)


def _config(problem: Problem, schedule: Schedule, device: Device) -> KernelConfig:
    return config(_matmul(problem), schedule, device)


def _work(problem: Problem, schedule: Schedule, device: Device) -> Work:
    return work(_matmul(problem), schedule, device)


def _drawings(problem: Problem, schedule: Schedule, device: Device) -> tuple[Drawing, ...]:
    p = plan(_matmul(problem), schedule, device)
    element = p.problem.input_dtype.bytes
    return (
        Drawing("subgroups of the tile of out", p.wg_map, p.tile[:2]),
        Drawing("a in shared memory", p.a.layout, element_bytes=element),
        Drawing("b in shared memory", p.b.layout, element_bytes=element),
    )


def _shrink(problem: Problem, schedule: Schedule) -> Problem:
    return shrink(_matmul(problem), schedule)


FAMILY = Family(
    name="matmul",
    summary="out = epilogue(a @ b), batched",
    header="autosched/kernels/matmul.cuh",
    entry="autosched::matmul",
    options=_OPTIONS,
    problem_from_options=_from_options,
    problem_from_json=_from_json,
    space=_space,
    config=_config,
    work=_work,
    shrink=_shrink,
    drawings=_drawings,
)
