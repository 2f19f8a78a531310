"""The kernel template of matrix multiplication."""

from __future__ import annotations

from search_spaces.hardware.architectures import FEATURES
from search_spaces.hardware.devices import Device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.config import Config
from search_spaces.templates.drawing import Drawing
from search_spaces.templates.matmul.counts import counts
from search_spaces.templates.matmul.lowering import SIDES, SOURCE, WALK, layout, lower, tile, wg_maps
from search_spaces.templates.matmul.proxy import proxy
from search_spaces.templates.matmul.space import space
from search_spaces.templates.template import KernelTemplate


def _drawings(problem: Matmul, config: Config, device: Device) -> tuple[Drawing, ...]:
    *_, out = wg_maps(config)
    element = problem.input_dtype.bytes
    return (
        Drawing("subgroups of the tile of out", out, tile(config)[:2]),
        *(Drawing(f"{side} in shared memory", layout(config, side), element_bytes=element) for side in SIDES),
    )


def _supports(problem: Matmul, device: Device) -> str | None:
    if problem.scale == "block":
        return "block scales need a separate sum for every 128 products along k: use wgmma_matmul"
    if problem.blocks and not device.has("block_scale_mma"):
        since = FEATURES["block_scale_mma"].since
        return f"mma.sync of {problem.a} with block scales needs {since}, but {device.name} is {device.arch}"
    return None


MATMUL = KernelTemplate(
    name="matmul",
    summary="tiles are copied to shared memory and multiplied by CUDA cores, wmma or mma.sync",
    operators=("matmul",),
    source=SOURCE,
    space=space,
    lower=lower,
    supports=_supports,
    counts=counts,
    proxy=proxy,
    drawings=_drawings,
    walk=WALK,
)
