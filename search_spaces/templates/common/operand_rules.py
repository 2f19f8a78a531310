"""Rules for operands of products that are staged through shared memory, the same for every template."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.hardware import intrinsics
from search_spaces.hardware.requirements import Access, OperandSide, Refusal
from search_spaces.layouts.shared_layout import Axis, parse_layout
from search_spaces.spaces.columns import TextColumn
from search_spaces.spaces.each import each
from search_spaces.spaces.rules import Rule
from search_spaces.templates.common.line_access import alignment_rule
from search_spaces.templates.common.shared_tiles import contiguity


def operand_rules(
    side: OperandSide | None, name: str, names: Mapping[str, str], axis: Axis, extent: int, element_bytes: int
) -> tuple[Rule, ...]:
    """Return the validity constraints of an operand.

    Args:
        side: Operand of the products, "a" or "b"; None for a tile that no intrinsic reads from shared memory.
        name: Name of the operand.
        names: Names of the operand's columns, by the keys layout, copy, vector, columns, rows, cols, major and minor.
        axis: Axis of the operand's tile that is contiguous in memory.
        extent: Elements of a contiguous line.
        element_bytes: Bytes per element.
    """

    def access(layout: str, rows: int, cols: int, intrinsic: str) -> Access | Refusal | None:
        parsed = parse_layout(layout, rows, cols)
        if isinstance(parsed, str):
            return Refusal(parsed)
        return None if side is None else intrinsics.intrinsic(intrinsic).requirement(side, parsed, element_bytes)

    def why_not(layout: str, rows: int, cols: int, intrinsic: str) -> str | None:
        answer = access(layout, rows, cols, intrinsic)
        return answer.reason if isinstance(answer, Refusal) else None

    def together(layout: str, rows: int, cols: int) -> int:
        return contiguity(layout, rows, cols, axis)

    def copy_async(copy: TextColumn, vector: IntArray, layout: TextColumn, rows: IntArray, cols: IntArray) -> BoolArray:
        contiguous = each(together)(layout, rows, cols)
        moved: BoolArray = (vector * element_bytes >= 4) & np.equal(contiguous % vector, 0) & (contiguous > 0)
        return (copy == "ld.global") | moved

    def copy_divides(
        major: IntArray, minor: IntArray, threads: IntArray, vector: IntArray, columns: IntArray
    ) -> BoolArray:
        lines = threads // columns
        divided: BoolArray = np.equal(major % np.maximum(lines, 1), 0) & np.equal(minor % (columns * vector), 0)
        return (lines > 0) & divided

    return (
        Rule(
            f"layout_{name}",
            each(lambda layout, rows, cols, intrinsic: not isinstance(access(layout, rows, cols, intrinsic), Refusal)),
            why_not,
            f"the layout of {name} is injective, stays inside the tile's memory, and the intrinsic can read it",
            names=names,
        ),
        alignment_rule(
            f"copy_alignment_{name}",
            f"vector_{name}",
            f"lines of {name} in memory",
            extent,
            element_bytes,
        ),
        Rule(
            f"copy_map_{name}",
            copy_divides,
            "{threads} threads in {columns} columns of {vector} elements do not divide the {major}x{minor} tile of "
            f"{name} (lines x contiguous elements)",
            names=names,
        ),
        Rule(
            f"copy_async_{name}",
            copy_async,
            lambda vector, layout, rows, cols: (
                f"cp.async copies 4, 8 or 16 contiguous bytes, but vector_{name} = {vector} is "
                f"{vector * element_bytes} bytes and layout {layout} keeps only {together(layout, rows, cols)} "
                "elements "
                f"of {name} contiguous"
            ),
            names=names,
        ),
    )
