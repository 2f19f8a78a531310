"""The kernel template of transposes."""

from __future__ import annotations

from search_spaces.hardware.devices import Device
from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.config import Config
from search_spaces.templates.drawing import Drawing
from search_spaces.templates.template import KernelTemplate
from search_spaces.templates.transpose.counts import counts
from search_spaces.templates.transpose.lowering import SOURCE, load_map, lower, shared_layout, store_map
from search_spaces.templates.transpose.proxy import proxy
from search_spaces.templates.transpose.space import space


def _drawings(problem: Transpose, config: Config, device: Device) -> tuple[Drawing, ...]:
    rows, columns = config.integers("tile_m", "tile_n")
    maps = (Drawing("threads that load the elements of the tile of x", load_map(config), (rows, columns)),)
    layout = shared_layout(config)
    if layout is None:
        return maps
    return (
        *maps,
        Drawing("threads that store the elements of the tile of out", store_map(config), (columns, rows)),
        Drawing("the tile of x in shared memory", layout, element_bytes=problem.element_bytes),
    )


TRANSPOSE = KernelTemplate(
    name="transpose",
    summary="tiles of x are transposed in registers or shared memory",
    operators=("transpose",),
    source=SOURCE,
    space=space,
    lower=lower,
    counts=counts,
    proxy=proxy,
    drawings=_drawings,
)
