"""The kernel template of matmuls by tcgen05."""

from __future__ import annotations

from search_spaces.hardware.devices import Device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.config import Config
from search_spaces.templates.common.boxes import SIDES
from search_spaces.templates.drawing import Drawing
from search_spaces.templates.tcgen05_matmul.counts import counts
from search_spaces.templates.tcgen05_matmul.lowering import SOURCE, WALK, box, lower
from search_spaces.templates.tcgen05_matmul.problem import supports
from search_spaces.templates.tcgen05_matmul.proxy import proxy
from search_spaces.templates.tcgen05_matmul.space import space
from search_spaces.templates.template import KernelTemplate


def _drawings(problem: Matmul, config: Config, device: Device) -> tuple[Drawing, ...]:
    element = problem.input_dtype.bytes
    return tuple(Drawing(f"a box of {side}", box(problem, config, side), element_bytes=element) for side in SIDES)


TCGEN05_MATMUL = KernelTemplate(
    name="tcgen05_matmul",
    summary="TMA fills a ring of stages; one thread issues tcgen05, which accumulates in tensor memory (Blackwell)",
    operators=("matmul",),
    source=SOURCE,
    space=space,
    lower=lower,
    supports=supports,
    counts=counts,
    proxy=proxy,
    drawings=_drawings,
    walk=WALK,
)
