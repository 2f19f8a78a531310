"""The kernel template of products of a matrix with a few vectors."""

from __future__ import annotations

from search_spaces.hardware.devices import Device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.spaces.config import Config
from search_spaces.templates.drawing import Drawing
from search_spaces.templates.matvec.counts import counts
from search_spaces.templates.matvec.lowering import SOURCE, lower, lowering_config
from search_spaces.templates.matvec.problem import supports
from search_spaces.templates.matvec.proxy import proxy
from search_spaces.templates.matvec.space import space
from search_spaces.templates.template import KernelTemplate


def _drawings(problem: Matvec | Matmul, config: Config, device: Device) -> tuple[Drawing, ...]:
    step = lowering_config(config, expand=False)  # the tile of a step, without splitting k into two dimensions
    return (Drawing("threads that hold the elements of w in one step (rows x k)", step.to_nested(dims=(1, 2))),)


MATVEC = KernelTemplate(
    name="matvec",
    summary="rows of w are divided among lanes and subgroups; CUDA cores or mma.sync multiply them",
    operators=("matvec", "matmul"),
    source=SOURCE,
    space=space,
    lower=lower,
    supports=supports,
    counts=counts,
    proxy=proxy,
    drawings=_drawings,
)
