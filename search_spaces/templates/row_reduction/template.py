"""The kernel template of reductions and normalizations of rows and columns."""

from __future__ import annotations

from search_spaces.templates.row_reduction.counts import counts
from search_spaces.templates.row_reduction.lowering import SOURCE, lower
from search_spaces.templates.row_reduction.proxy import proxy
from search_spaces.templates.row_reduction.space import space
from search_spaces.templates.template import KernelTemplate

ROW_REDUCTION = KernelTemplate(
    name="row_reduction",
    summary="lanes, subgroups and blocks share a row, or hold rows of their own",
    operators=("reduce", "softmax", "rmsnorm", "layernorm"),
    source=SOURCE,
    space=space,
    lower=lower,
    counts=counts,
    proxy=proxy,
)
