"""The row that makes matvec a family of autosched."""

from __future__ import annotations

from search_spaces.catalogue import Family, Option
from search_spaces.hardware.devices import Device
from search_spaces.hardware.dtypes import FLOAT_DTYPES
from search_spaces.operators.matvec import INPUTS, Matvec
from search_spaces.pictures import Drawing
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.matvec.counts import counts
from search_spaces.templates.matvec.lowering import config, lowering_config
from search_spaces.templates.matvec.proxy import proxy
from search_spaces.templates.matvec.space import space

_OPTIONS = (
    Option("m", ("-m",), int, "rows of x and out, at most 16"),
    Option("n", ("-n",), int, "rows of w, columns of out"),
    Option("k", ("-k",), int, "columns of x and w"),
    Option("dtype", ("--dtype",), str, "type of x and w", "f16", INPUTS),
    Option("out", ("--out",), str, "type of out; by default that of x", "", ("", *FLOAT_DTYPES)),
)


def _drawings(problem: Matvec, schedule: Schedule, device: Device) -> tuple[Drawing, ...]:
    step = lowering_config(schedule.replace(expand_dims="no"))  # the same tile, its k in one dimension
    return (Drawing("threads of a step of w, rows by k", step.to_nested(dims=(1, 2))),)


FAMILY = Family(
    name="matvec",
    summary="out = x @ w.T for up to 16 rows of x",
    header="autosched/kernels/matvec.cuh",
    entry="autosched::matvec",
    options=_OPTIONS,
    problem_from_options=Matvec.from_options,
    problem_from_json=Matvec.from_json,
    space=space,
    config=config,
    counts=counts,
    proxy=proxy,
    drawings=_drawings,
)
