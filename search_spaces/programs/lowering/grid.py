"""Generate the coordinates of a block: the tile that the block computes, and the iterations of a split loop."""

from __future__ import annotations

from collections.abc import Mapping

from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.planning.block_order import FORWARD, order_code, order_of, uneven
from search_spaces.programs.planning.persistent import launched_blocks
from search_spaces.programs.planning.splits import PARTS_OF_TILE, Split, count_code
from search_spaces.spaces.parameters import Value


def tile_loop(inference: Inference) -> list[str]:
    """Return the head of a persistent block's loop over tiles."""
    stop = inference.trace.block_count
    return [
        "#pragma unroll 1",
        f"for (int tile_place = int(blockIdx.x); tile_place < {stop}; tile_place += int(gridDim.x)) {{",
    ]


def grid_code(inference: Inference, values: Mapping[str, Value], split: Split | None = None) -> list[str]:
    """Return code that declares the block's coordinates and ends blocks that have no iterations of a split loop."""
    lines = _coordinates(inference, values, split)
    if split is None or not split.only_long:
        return lines
    return [
        *lines,
        f"const int all_turns = max({count_code(split.loop)}, 0);",
        f"const int {PARTS_OF_TILE} = max((all_turns + {split.each - 1}) / {split.each}, 1);",
        f"if (split >= {PARTS_OF_TILE}) return;",
    ]


def _coordinates(inference: Inference, values: Mapping[str, Value], split: Split | None) -> list[str]:
    trace, of = inference.trace, uneven(inference)

    def at(axis: int, index: str) -> str:
        in_order = order_of(values) if of is not None and of.axis == axis else FORWARD
        return f"const int block_{axis} = {order_code(in_order, index, trace.blocks[axis])};"

    index, lines = "int(blockIdx.x)", list[str]()
    sizes = trace.dynamic or (None,) * len(trace.tile)
    blocks = [
        str(count) if size is None else f"(({size.code} - 1) / {tile} + 1)"
        for count, size, tile in zip(trace.blocks, sizes, trace.tile, strict=True)
    ]
    if launched_blocks(values):
        index = "tile_place"
    elif split is not None and split.launched:
        lines, index = ["const int tile_place = part.tile, first_turn = part.first;"], "tile_place"
    elif split is not None:
        tiles = f"({' * '.join(blocks)})" if any(sizes) else str(trace.block_count)
        lines = [
            f"const int tile_place = int(blockIdx.x) % {tiles};",
            f"const int split = int(blockIdx.x) / {tiles}"
            f"{';' if split.combined else f', first_turn = split * {split.each};'}",
        ]
        index = "tile_place"
    if len(blocks) == 1:
        return [*lines, at(0, index)]
    rows, columns = blocks[-2:]
    is_constant = not any(sizes[-2:])
    area = str(trace.blocks[-2] * trace.blocks[-1]) if is_constant else f"({rows} * {columns})"
    tile = index if len(blocks) == 2 else f"{index} % {area}"
    first = len(blocks) - 2
    if len(blocks) > 2:
        lines.append(at(0, f"{index} / {area}"))
    return [
        *lines,
        f'constexpr Choice order = "{values["raster"]}";',
        f"const TileIndex block = raster<raster_order(order), raster_group(order), {rows}, {columns}>({tile});"
        if is_constant
        else f"const TileIndex block = raster<raster_order(order), raster_group(order)>({tile}, {rows}, {columns});",
        at(first, "block.m"),
        at(first + 1, "block.n"),
    ]
