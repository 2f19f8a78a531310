"""The row that makes matmul a family of autosched."""

from __future__ import annotations

from search_spaces.catalogue import Family, Option
from search_spaces.hardware.devices import Device
from search_spaces.hardware.dtypes import FLOAT_DTYPES
from search_spaces.operators.matmul import EPILOGUES, ORDERS, PRECISIONS, REDUCTIONS, Matmul
from search_spaces.pictures import Drawing
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.matmul.counts import counts
from search_spaces.templates.matmul.lowering import config, plan
from search_spaces.templates.matmul.proxy import proxy
from search_spaces.templates.matmul.space import space

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
    Option("reduction", ("--reduction",), str, "second output: each row's or column's sum or max", "none", REDUCTIONS),
    Option("precision", ("--precision",), str, "what f32 inputs may be rounded to", "tf32", PRECISIONS),
)


def _drawings(problem: Matmul, schedule: Schedule, device: Device) -> tuple[Drawing, ...]:
    p = plan(problem, schedule, device)
    element = p.problem.input_dtype.bytes
    return (
        Drawing("subgroups of the tile of out", p.wg_map, p.tile[:2]),
        Drawing("a in shared memory", p.a.layout, element_bytes=element),
        Drawing("b in shared memory", p.b.layout, element_bytes=element),
    )


FAMILY = Family(
    name="matmul",
    summary="out = epilogue(a @ b), batched",
    header="autosched/kernels/matmul.cuh",
    entry="autosched::matmul",
    options=_OPTIONS,
    problem_from_options=Matmul.from_options,
    problem_from_json=Matmul.from_json,
    space=space,
    config=config,
    counts=counts,
    proxy=proxy,
    drawings=_drawings,
)
