"""The kernel template of reductions and normalisations of rows and columns."""

from __future__ import annotations

from search_spaces.hardware.devices import Device
from search_spaces.operators.row_reduction import RowProblem
from search_spaces.spaces.config import Config
from search_spaces.templates.drawing import Drawing
from search_spaces.templates.row_reduction.counts import counts
from search_spaces.templates.row_reduction.lowering import SOURCE, lower, lowering_config
from search_spaces.templates.row_reduction.proxy import proxy
from search_spaces.templates.row_reduction.space import space
from search_spaces.templates.template import KernelTemplate


def _drawings(problem: RowProblem, config: Config, device: Device) -> tuple[Drawing, ...]:
    step = lowering_config(problem, config.schedule).to_nested()
    return (Drawing("threads that read the elements of one step (parallel x reduced axis)", step),)


ROW_REDUCTION = KernelTemplate(
    name="row_reduction",
    summary="lanes, subgroups and blocks share a row, or process different rows",
    operators=("reduce", "softmax", "rmsnorm", "layernorm"),
    source=SOURCE,
    space=space,
    lower=lower,
    counts=counts,
    proxy=proxy,
    drawings=_drawings,
)
