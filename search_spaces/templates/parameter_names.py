"""Names of schedule parameters: one table for all kernel templates, so that the same names have the same meaning.

A name ends in its axis or operand. Axes are named as in a matmul: m and n span the output, k is reduced. A row
reduction has its parallel axis as m and its reduced axis as k; a transpose has the rows of x as m and the columns of x
as n. A new parameter takes its name from ``SHARED``; only a parameter that no other template has is listed in ``OWN``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

PLACEHOLDERS: Mapping[str, str] = {"axis": "[mnk]", "operand": r"\w+", "number": "[1-9][0-9]*"}
PROGRAM = "tile program"  # key of OWN for all tile programs; names of tile sizes come from the program


class Meaning(NamedTuple):
    """Description of a parameter, and the unit of its values, which is "" if the values are names."""

    text: str
    unit: str = ""


SHARED: Mapping[str, Meaning] = {
    "tile_{axis}": Meaning(
        "size of a block's tile; along k, the extent that one iteration of the main loop processes", "elements"
    ),
    "subgroups_{axis}": Meaning("number of subgroups (warps) of a block along this axis", "subgroups"),
    "sg_data_{axis}": Meaning("size of the part of the tile that one subgroup computes", "elements"),
    "lanes_{axis}": Meaning("number of lanes of a subgroup along this axis", "lanes"),
    "layout_{operand}": Meaning("layout of the operand's tile in shared memory"),
    "swizzle_{operand}": Meaning("width of the swizzle of the operand's TMA boxes", "bytes"),
    "copy_{operand}": Meaning("instruction that copies the operand from global memory"),
    "vector_{operand}": Meaning(
        "contiguous elements of the operand that a thread moves per instruction (for `copy`: bytes)", "elements"
    ),
    "copy_columns_{operand}": Meaning("adjacent threads along the operand's contiguous axis", "threads"),
    "cache_hint_{operand}": Meaning("cache hint of the operand's loads or stores in global memory"),
    "{operand}_operand_source": Meaning("memory from which the tensor instruction reads the operand"),
    "intrinsic": Meaning("multiply instruction"),
    "threads": Meaning("threads of a block", "threads"),
    "min_blocks": Meaning("resident blocks per SM; the compiler limits registers so that they fit", "blocks"),
    "stages": Meaning("iterations of the main loop whose tiles are in shared memory at the same time", "iterations"),
    "unroll": Meaning("unroll factor of the inner loop", "steps"),
    "in_flight": Meaning(
        "iterations whose multiplications may be unfinished when the next iteration begins", "iterations"
    ),
    "fragment_buffers": Meaning("iterations whose fragments a warp holds in registers", "iterations"),
    "epilogue": Meaning("how accumulators are stored: from registers or through shared memory"),
    "store_buffers": Meaning("number of boxes in shared memory from which TMA stores the output", "boxes"),
    "split_k": Meaning("number of blocks that share one reduction along k", "blocks"),
    "stream_k": Meaning("1: the k ranges of the last tiles are distributed over all blocks", "0 or 1"),
    "tiles_per_block": Meaning("tiles that a block computes one after another", "tiles"),
    "raster": Meaning("order of the tiles"),
    "batch_mapping": Meaning("position of the batch in the block index: slowest or fastest"),
    "l2_promotion": Meaning("granularity with which L2 fetches TMA requests from DRAM", "bytes"),
    "l2_evict_last": Meaning("operand whose lines L2 evicts last"),
}

_WGMMA: Mapping[str, Meaning] = {
    "consumer_warpgroups": Meaning("warpgroups that multiply", "warpgroups"),
    "producer_registers": Meaning(
        "registers that a copying thread keeps; 0: registers are not reallocated", "registers"
    ),
    "ping_pong": Meaning("whether two consumer warpgroups alternate between a block's tiles", "0 or 1"),
    "cluster_{axis}": Meaning("blocks of a cluster along an axis", "blocks"),
}
_TCGEN05: Mapping[str, Meaning] = {
    "sum_buffers": Meaning("number of tiles whose accumulators tensor memory holds at the same time", "tiles"),
    "tile_scheduler": Meaning("how tiles are assigned to blocks"),
}

OWN: Mapping[str, Mapping[str, Meaning]] = {
    "matvec": {"expand_dims": Meaning("whether a thread adds up the elements of its vector inside the loop")},
    "row_reduction": {
        "batch": Meaning("rows, or vectors of columns, that a thread reduces at the same time", "rows"),
        "peel": Meaning("whether rows of odd lengths are read in aligned vectors"),
        "finish": Meaning("which blocks finish a row that several blocks share"),
        "row_staging": Meaning("memory in which a row is kept between two passes"),
        "passes": Meaning("number of passes over a row before it is written"),
    },
    "transpose": {
        "block_rows": Meaning("rows of the block of elements that a thread transposes in registers", "elements")
    },
    "copy": {
        "rounds": Meaning("rounds of a block, each of `unroll` vectors per thread", "rounds"),
        "order": Meaning(
            "block: the rounds of a block are adjacent in memory; grid: between two successive rounds of a block, "
            "there is one round of each of the other blocks"
        ),
    },
    "wgmma_matmul": _WGMMA,
    "wgmma_matmul_transposed": _WGMMA,
    "wgmma_matmul_padded": _WGMMA,
    "tcgen05_matmul": _TCGEN05,
    "tcgen05_matmul_transposed": _TCGEN05,
    "tcgen05_matmul_padded": _TCGEN05,
    PROGRAM: {
        "warps": Meaning("warps of a block, in programs without products", "warps"),
        "width_{number}": Meaning("contiguous elements of a tile that a lane holds", "elements"),
        "lanes_{number}": Meaning("adjacent lanes on a line of a tile", "lanes"),
        "home_{operand}": Meaning("memory that holds a tile loaded once, before the loop"),
        "tail": Meaning("whether the last iterations of the loop have separate code"),
        "sum": Meaning("when the partial sums of lanes are combined"),
        "store_{number}": Meaning("whether a tile is stored from registers or through shared memory"),
        "exchange": Meaning("layout of tiles that threads exchange through shared memory"),
        "filled_by": Meaning("which threads copy operands to the shared memory that wgmma or tcgen05 reads"),
        "ping_pong": Meaning("whether two warpgroups use the tensor cores alternately", "0 or 1"),
        "products_ahead": Meaning(
            "whether the first product of an iteration starts before the last product of the previous iteration has "
            "completed",
            "0 or 1",
        ),
    },
}


def meaning(template: str, parameter: str) -> Meaning | None:
    """Return the meaning of a parameter, from the names that all templates share or from the names of ``template``.

    Args:
        template: Name of a kernel template, or PROGRAM.
        parameter: Name of one of its parameters. If a program has several parameters of a kind, their names end in a
            number.

    Returns:
        The meaning, or None for a name that is not in the table.
    """
    names = (parameter, re.sub("_[1-9][0-9]*$", "", parameter)) if template == PROGRAM else (parameter,)
    tables = (OWN.get(template, {}), SHARED)
    meanings = (m for n in names for table in tables for pattern, m in table.items() if matches(pattern, n))
    return next(meanings, None)


def matches(pattern: str, name: str) -> bool:
    """Return True if ``name`` is ``pattern`` with an axis, an operand or a number instead of the placeholder."""
    return re.fullmatch(pattern.format(**PLACEHOLDERS), name) is not None
