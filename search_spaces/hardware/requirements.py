"""Requirements of fragment loads on a shared-memory layout, which are checked by evaluating the layout function.

An operand's tile has shape (m, k) for A and (k, n) for B. Each intrinsic has one requirement, which can check any
layout. So combinations of layouts and intrinsics need no special cases (TVM auto memory planning, problems 1 and 2).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import lcm
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from search_spaces.layouts.shared_layout import Axis, SharedLayout

OperandSide = Literal["a", "b"]
Mode = Literal["vector", "row", "col", "rows", "trans", "boxes"]


@dataclass(frozen=True)
class Access:
    """The instructions by which an intrinsic reads an operand from a layout.

    Attributes:
        mode: "vector": each lane loads ``vector`` elements by ld.shared. "row", "col": wmma.load reads a row- or
            column-major fragment with ``leading_dimension``. "rows", "trans": ldmatrix without and with .trans; each
            lane addresses one row of ``vector`` elements. "boxes": the multiplication reads shared memory directly,
            through descriptors; ``vector`` elements are contiguous.
        axis: The axis of the tile along which the elements of one access are adjacent.
    """

    mode: Mode
    axis: Axis
    vector: int
    leading_dimension: int | None = None


@dataclass(frozen=True, eq=False)
class Refusal:
    """The reason why an intrinsic cannot read an operand from a layout.

    A search rejects thousands of layouts but shows few reasons, so the text may be computed on demand.
    """

    said: str | Callable[[], str]

    @cached_property
    def reason(self) -> str:
        """The reason as one sentence."""
        return self.said if isinstance(self.said, str) else self.said()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Refusal) and self.reason == other.reason

    def __hash__(self) -> int:
        return hash(self.reason)


class Requirement(Protocol):
    """Requirement that an instruction for loading fragments has on a layout."""

    def check(
        self, operand: OperandSide, layout: SharedLayout, element_bytes: int, fragment: tuple[int, int]
    ) -> Access | Refusal:
        """Return the access that reads an operand from shared memory, or the reason why none can.

        Args:
            operand: "a" or "b".
            layout: Layout of the whole operand tile, whose first byte is aligned to at least 128 bytes.
            element_bytes: Bytes per element.
            fragment: Shape that one instruction loads; it must divide the tile.
        """
        ...


@dataclass(frozen=True)
class AnyLayout:
    """ld.shared of ``elements`` adjacent elements along m (A) or n (B) by each lane. Every layout is accepted.

    The vector is as wide as the layout's contiguity allows, up to ``elements`` and 16 bytes.
    """

    elements: int

    def check(
        self, operand: OperandSide, layout: SharedLayout, element_bytes: int, fragment: tuple[int, int]
    ) -> Access | Refusal:
        """Return the access with the widest vector."""
        axis: Axis = "rows" if operand == "a" else "cols"
        return Access("vector", axis, min(self.elements, layout.contiguity(axis), 16 // element_bytes))


@dataclass(frozen=True)
class LeadingDimension:
    """wmma.load, which needs the same stride between all lines.

    The stride is a constant of the kernel, and a multiple of ``stride_bytes``. It is the same for all fragments.
    Fragments must start at multiples of ``origin_bytes`` (256 bits), at any distance from each other. PTX ISA,
    "wmma.load"; CUDA C++ Programming Guide, "Warp matrix functions".
    """

    stride_bytes: int = 16
    origin_bytes: int = 32

    def check(
        self, operand: OperandSide, layout: SharedLayout, element_bytes: int, fragment: tuple[int, int]
    ) -> Access | Refusal:
        """Return the wmma.load access, or the reason why the layout has no leading dimension."""
        rows, cols = fragment
        # Check the first row of fragments first, because most unsuitable layouts fail this check. Two periods of the
        # layout are enough to check all fragments and the alignment of their origins.
        seen = layout.first_lines(cols if layout.transposed else rows)
        first = seen.offsets()[:rows, :cols]
        lines = first.T if layout.transposed else first  # axes: (line of the fragment, position in the line)
        leading = int(lines[1, 0]) if len(lines) > 1 else layout.line
        even = np.array_equal(lines, leading * np.arange(len(lines))[:, None] + np.arange(lines.shape[1]))
        if even:
            seen = layout.first_lines(min(layout.lines, 2 * lcm(layout.period[0], len(lines))))
        tiles = seen.offsets().reshape(seen.shape[0] // rows, rows, seen.shape[1] // cols, cols)
        origins = tiles[:, 0, :, 0]
        if not even or (tiles - origins[:, None, :, None] != first[:, None, :]).any():
            return Refusal(
                lambda: (
                    f"wmma.load needs one leading dimension for all fragments of {rows}x{cols}, but "
                    f"{_described(operand, layout)} has none: {_why_uneven(seen, fragment)}"
                )
            )
        if leading * element_bytes % self.stride_bytes:
            return Refusal(
                f"wmma.load needs a leading dimension that is a multiple of {self.stride_bytes} bytes, but lines of "
                f"{_described(operand, layout)} are {leading * element_bytes} bytes apart"
            )
        torn = np.argwhere(origins * element_bytes % self.origin_bytes)
        if torn.size:
            row, col = (int(i) for i in torn[0])
            return Refusal(
                f"wmma.load needs fragments that start at multiples of {self.origin_bytes} bytes, but in "
                f"{_described(operand, layout)} the fragment at ({row * rows}, {col * cols}) starts at byte "
                f"{int(origins[row, col]) * element_bytes}"
            )
        axis = layout.line_axis
        return Access("row" if axis == "cols" else "col", axis, 16 // element_bytes, leading)


@dataclass(frozen=True)
class AlignedRows:
    """ldmatrix, which reads groups of ``row_bytes`` bytes along k. Each group must be contiguous and aligned.

    With .trans, which supports only 16-bit elements, groups are along m or n instead (PTX ISA, "ldmatrix").
    """

    row_bytes: int = 16

    def check(
        self, operand: OperandSide, layout: SharedLayout, element_bytes: int, fragment: tuple[int, int]
    ) -> Access | Refusal:
        """Return the ldmatrix access, or the reason why the layout splits the rows of ldmatrix."""
        along_k: Axis = "cols" if operand == "a" else "rows"
        along_other: Axis = "rows" if operand == "a" else "cols"
        elements = self.row_bytes // element_bytes
        if layout.contiguity(along_k) >= elements:
            return Access("rows", along_k, elements)
        other_name = "m" if operand == "a" else "n"
        if element_bytes == 2 and layout.contiguity(along_other) >= elements:
            return Access("trans", along_other, elements)
        along = f"along k or {other_name}" if element_bytes == 2 else "along k"
        reason = (
            f"ldmatrix needs {elements} contiguous elements {along} that start at a multiple of {self.row_bytes} bytes"
        )
        if element_bytes != 2 and layout.line_axis != along_k:
            return Refusal(
                f"{reason}, but {_described(operand, layout)} is contiguous along {other_name}, and ldmatrix "
                "only transposes 2-byte elements"
            )
        return Refusal(
            lambda: f"{reason}, but {_described(operand, layout)} {_why_not_aligned(layout, elements, element_bytes)}"
        )


def _described(operand: OperandSide, layout: SharedLayout) -> str:
    return f"layout {layout.text} of the {layout.shape[0]}x{layout.shape[1]} tile of {operand.upper()}"


def _lines(layout: SharedLayout) -> npt.NDArray[np.int32]:
    """Return the layout's offsets with axes (line, position in the line)."""
    return layout.offsets().T if layout.transposed else layout.offsets()


def _why_uneven(layout: SharedLayout, fragment: tuple[int, int]) -> str:
    lines, positions = fragment[::-1] if layout.transposed else fragment
    offsets = _lines(layout)
    apart = np.diff(offsets, axis=1) != 1
    # Lines within a fragment only: the distance between fragments does not matter.
    apart[:, positions - 1 :: positions] = False
    torn = np.argwhere(apart)
    if torn.size:
        line, position = (int(i) for i in torn[0])
        return f"elements {position} and {position + 1} of line {line} are not neighbours"
    gaps = np.diff(offsets[:, ::positions], axis=0)
    uneven = gaps != gaps[0, 0]
    uneven[lines - 1 :: lines] = False
    i, j = (int(i) for i in np.argwhere(uneven)[0])
    return (
        f"line 1 starts {gaps[0, 0]} elements after line 0, but line {i + 1} starts {gaps[i, j]} elements "
        f"after line {i}"
    ) + (f" at element {j * positions}" if j else "")


def _why_not_aligned(layout: SharedLayout, elements: int, element_bytes: int) -> str:
    offsets = _lines(layout)
    if offsets.shape[1] % elements:
        return f"has lines of {offsets.shape[1]} elements, which is not a multiple of {elements}"
    groups = offsets.reshape(offsets.shape[0], -1, elements)
    torn = np.argwhere((np.diff(groups, axis=2) != 1).any(axis=2))
    if torn.size:
        line, group = (int(i) for i in torn[0])
        return f"does not keep elements {group * elements} to {(group + 1) * elements - 1} of line {line} in sequence"
    line, group = (int(i) for i in np.argwhere(groups[:, :, 0] % elements)[0])
    byte = int(groups[line, group, 0]) * element_bytes
    return (
        f"puts element {group * elements} of line {line} at byte {byte}, so its rows are not "
        f"{elements * element_bytes}-byte aligned"
    )
