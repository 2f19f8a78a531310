"""The row that makes copy a family of autosched."""

from __future__ import annotations

from search_spaces.catalogue import Family
from search_spaces.operators.copy import Copy
from search_spaces.templates.copy.counts import counts
from search_spaces.templates.copy.lowering import config, proxy
from search_spaces.templates.copy.space import space
from search_spaces.templates.transpose.template import OPTIONS

FAMILY = Family(
    name="copy",
    summary="out = x, batched, elements of 1 to 16 bytes",
    header="autosched/kernels/copy.cuh",
    entry="autosched::copy",
    options=OPTIONS,
    problem_from_options=Copy.from_options,
    problem_from_json=Copy.from_json,
    space=space,
    config=config,
    counts=counts,
    proxy=proxy,
)
