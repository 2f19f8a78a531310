"""Rules for vector accesses to the contiguous lines of a matrix in global memory, the same for every template.

Lines have ``extent`` elements. The arguments of these functions name the parameters that the rules restrict.
"""

from __future__ import annotations

from math import gcd

from search_spaces.hardware.costs.data_movement import Region, few_sectors, wide_enough
from search_spaces.hardware.costs.transactions import WIDEST_BYTES
from search_spaces.hardware.fragments import WARP
from search_spaces.spaces.each import each
from search_spaces.spaces.rules import Rule


def alignment_rule(name: str, vector: str, lines: str, extent: int, element_bytes: int) -> Rule:
    """Return the validity constraint that every line begins at a multiple of the vector's size.

    Args:
        name: Name of the rule.
        vector: Column with the elements of a vector.
        lines: Name of the lines, for the rule's message.
        extent: Elements of a line.
        element_bytes: Bytes per element.
    """
    return Rule(
        name,
        lambda elements: extent % elements == 0,
        f"{vector} is {{elements}}, but {lines} have {extent} elements: only vectors of up to "
        f"{gcd(extent, WIDEST_BYTES // element_bytes)} elements are aligned",
        names={"elements": vector},
    )


def width_rule(name: str, vector: str, extent: int, element_bytes: int) -> Rule:
    """Return the pruning rule that vectors are wide, so that a search only tries wide accesses.

    Args:
        name: Name of the rule.
        vector: Column with the number of elements per vector.
        extent: Elements of a line.
        element_bytes: Bytes per element.
    """
    return Rule(
        name,
        each(lambda elements: wide_enough(Region((WARP, 1), "cols", extent, element_bytes), elements)),
        f"{vector} is {{elements}}, but {gcd(extent, WIDEST_BYTES // element_bytes)} elements could be copied at a "
        "time",
        names={"elements": vector},
    )


def sectors_rule(name: str, line: str, vector: str, columns: str, extent: int, element_bytes: int) -> Rule:
    """Return the pruning rule that requires the accesses of a warp to touch few sectors.

    Args:
        name: Name of the rule.
        line: Column with the number of elements of each line that are in a tile.
        vector: Column with the number of elements per vector.
        columns: Column with the number of adjacent threads on a line.
        extent: Elements of a line.
        element_bytes: Bytes per element.
    """

    def few(length: int, elements: int, threads: int) -> bool:
        return few_sectors(Region((WARP, length), "cols", extent, element_bytes), elements, threads)

    return Rule(
        name,
        each(few),
        "in a line of {length} elements, {threads} adjacent threads access {elements} elements each: other mappings of "
        "threads access fewer 32-byte sectors",
        names={"length": line, "elements": vector, "threads": columns},
    )
