"""The row that makes copy a family of autosched."""

from __future__ import annotations

from search_spaces.copy.config import config, shrink
from search_spaces.copy.problem import Copy
from search_spaces.copy.space import space
from search_spaces.copy.work import work
from search_spaces.family import Family
from search_spaces.transpose.family import OPTIONS

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
    work=work,
    shrink=shrink,
)
