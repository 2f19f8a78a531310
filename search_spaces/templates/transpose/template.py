"""The row that makes transpose a family of autosched."""

from __future__ import annotations

from search_spaces.catalogue import Family, Option
from search_spaces.hardware.devices import Device
from search_spaces.operators.transpose import ELEMENT_BYTES, Transpose
from search_spaces.pictures import Drawing
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.transpose.counts import counts
from search_spaces.templates.transpose.lowering import config, plan
from search_spaces.templates.transpose.proxy import proxy
from search_spaces.templates.transpose.space import space

OPTIONS = (
    Option("rows", ("--rows",), int, "rows of x"),
    Option("columns", ("--columns",), int, "columns of x"),
    Option("batch", ("--batch",), int, "number of matrices", 1),
    Option("dtype", ("--dtype",), str, "size of an element", "u32", tuple(ELEMENT_BYTES)),
)


def _drawings(problem: Transpose, schedule: Schedule, device: Device) -> tuple[Drawing, ...]:
    p = plan(problem, schedule, device)
    maps = (Drawing("threads that load the tile of x", p.load_map, p.tile),)
    if p.layout is None:
        return maps
    return (
        *maps,
        Drawing("threads that store the tile of out", p.store_map, p.tile[::-1]),
        Drawing("the tile of x in shared memory", p.layout, element_bytes=problem.element_bytes),
    )


FAMILY = Family(
    name="transpose",
    summary="out = x with rows and columns swapped, batched, elements of 1 to 16 bytes",
    header="autosched/kernels/transpose.cuh",
    entry="autosched::transpose",
    options=OPTIONS,
    problem_from_options=Transpose.from_options,
    problem_from_json=Transpose.from_json,
    space=space,
    config=config,
    counts=counts,
    proxy=proxy,
    drawings=_drawings,
)
