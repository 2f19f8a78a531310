"""The kernel template of copies."""

from __future__ import annotations

from search_spaces.templates.copy.counts import counts
from search_spaces.templates.copy.lowering import SOURCE, lower, proxy
from search_spaces.templates.copy.space import space
from search_spaces.templates.template import KernelTemplate

COPY = KernelTemplate(
    name="copy",
    summary="adjacent threads copy adjacent vectors, through registers or shared memory",
    operators=("copy",),
    source=SOURCE,
    space=space,
    lower=lower,
    counts=counts,
    proxy=proxy,
)
