"""The kernel template of matmuls that use mma.sync, and TMA to copy operands."""

from __future__ import annotations

from search_spaces.hardware.devices import Device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.config import Config
from search_spaces.templates.common.boxes import SIDES
from search_spaces.templates.drawing import Drawing
from search_spaces.templates.matmul.lowering import tile, wg_maps
from search_spaces.templates.template import KernelTemplate
from search_spaces.templates.tma_matmul.counts import counts
from search_spaces.templates.tma_matmul.lowering import SOURCE, WALK, box, lower
from search_spaces.templates.tma_matmul.problem import supports
from search_spaces.templates.tma_matmul.proxy import proxy
from search_spaces.templates.tma_matmul.space import space


def _drawings(problem: Matmul, config: Config, device: Device) -> tuple[Drawing, ...]:
    *_, out = wg_maps(config)
    element = problem.input_dtype.bytes
    return (
        Drawing("subgroups of the tile of out", out, tile(config)[:2]),
        *(Drawing(f"a box of {side}", box(problem, config, side), element_bytes=element) for side in SIDES),
    )


TMA_MATMUL = KernelTemplate(
    name="tma_matmul",
    summary="one warp fills a ring of stages by TMA; the other warps multiply the stages with mma.sync",
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
