"""Requirements of fragment loads on a shared-memory layout, decided by evaluating the layout function.

An operand's tile is (m, k) for A and (k, n) for B. Each intrinsic has one requirement, which works for all layouts, so
m layouts and n intrinsics do not need m * n cases (TVM auto memory planning, problems 1 and 2).
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
        mode: "vector": ld.shared of ``vector`` elements by each lane. "row", "col": wmma.load of a row- or column-major
            fragment with ``leading_dimension``. "rows", "trans": ldmatrix without and with .trans, where each lane
            addresses one row of ``vector`` elements. "boxes": the multiplication reads shared memory itself, by
            descriptors, and ``vector`` elements are contiguous.
        axis: The tile index along which the elements of one access lie.
    """

    mode: Mode
    axis: Axis
    vector: int
    leading_dimension: int | None = None


@dataclass(frozen=True, eq=False)
class Refusal:
    """The reason why an intrinsic cannot read an operand from a layout.

    A search rejects thousands of layouts and shows few of the reasons, so the text may be computed on demand.
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
    """Requirement of a way of loading on a layout."""

    def check(
        self, operand: OperandSide, layout: SharedLayout, element_bytes: int, fragment: tuple[int, int]
    ) -> Access | Refusal:
        """Return the access by which an instruction reads an operand from shared memory, or why it cannot.

        Args:
            operand: "a" or "b".
            layout: Layout of the whole operand tile, whose first byte is aligned to at least 128 bytes.
            element_bytes: Bytes per element.
            fragment: Shape that one instruction loads; it divides the tile.
        """
        ...


@dataclass(frozen=True)
class AnyLayout:
    """ld.shared of one thread's elements, ``elements`` neighbours along m (A) or n (B): any layout works.

    The vector is as wide as the layout keeps neighbours contiguous, at most ``elements`` and 16 bytes.
    """

    elements: int

    def check(
        self, operand: OperandSide, layout: SharedLayout, element_bytes: int, fragment: tuple[int, int]
    ) -> Access | Refusal:
        """Return the widest vector access."""
        axis: Axis = "rows" if operand == "a" else "cols"
        return Access("vector", axis, min(self.elements, layout.contiguity(axis), 16 // element_bytes))


@dataclass(frozen=True)
class LeadingDimension:
    """wmma.load: lines of a fragment at one stride, the same for all fragments as it is a constant of the kernel.

    The stride must be a multiple of ``stride_bytes``, and fragment origins aligned to ``origin_bytes`` (256 bits). The
    distance between fragments is free. PTX ISA, "wmma.load"; CUDA C++ Programming Guide, "Warp matrix functions".
    """

    stride_bytes: int = 16
    origin_bytes: int = 32

    def check(
        self, operand: OperandSide, layout: SharedLayout, element_bytes: int, fragment: tuple[int, int]
    ) -> Access | Refusal:
        """Return the wmma.load access, or why the layout has no leading dimension."""
        rows, cols = fragment
        # Most layouts fail on the first row of fragments, so it is checked first. Two periods of the layout are
        # enough to check all fragments and the alignment of their origins.
        seen = layout.first_lines(cols if layout.transposed else rows)
        first = seen.offsets()[:rows, :cols]
        lines = first.T if layout.transposed else first  # (line of the fragment, position in it)
        leading = int(lines[1, 0]) if len(lines) > 1 else layout.line
        even = np.array_equal(lines, leading * np.arange(len(lines))[:, None] + np.arange(lines.shape[1]))
        if even:
            seen = layout.first_lines(min(layout.lines, 2 * lcm(layout.period[0], len(lines))))
        tiles = seen.offsets().reshape(seen.shape[0] // rows, rows, seen.shape[1] // cols, cols)
        origins = tiles[:, 0, :, 0]
        if not even or (tiles - origins[:, None, :, None] != first[:, None, :]).any():
            return Refusal(
                lambda: (
                    f"wmma.load needs one leading dimension for all fragments of {rows}x{cols}, which "
                    f"{_what(operand, layout)} does not have: {_why_uneven(seen, fragment)}"
                )
            )
        if leading * element_bytes % self.stride_bytes:
            return Refusal(
                f"wmma.load needs a leading dimension that is a multiple of {self.stride_bytes} bytes, but lines of "
                f"{_what(operand, layout)} are {leading * element_bytes} bytes apart"
            )
        torn = np.argwhere(origins * element_bytes % self.origin_bytes)
        if torn.size:
            row, col = (int(i) for i in torn[0])
            return Refusal(
                f"wmma.load needs fragments that start at multiples of {self.origin_bytes} bytes, but in "
                f"{_what(operand, layout)} the fragment at ({row * rows}, {col * cols}) starts at byte "
                f"{int(origins[row, col]) * element_bytes}"
            )
        axis = layout.line_axis
        return Access("row" if axis == "cols" else "col", axis, 16 // element_bytes, leading)


@dataclass(frozen=True)
class AlignedRows:
    """ldmatrix (PTX ISA, "ldmatrix"): every aligned group of ``row_bytes`` along k is contiguous and aligned.

    With .trans, which moves 16-bit elements only, groups lie along m or n instead.
    """

    row_bytes: int = 16

    def check(
        self, operand: OperandSide, layout: SharedLayout, element_bytes: int, fragment: tuple[int, int]
    ) -> Access | Refusal:
        """Return the ldmatrix access, or why the layout splits its rows."""
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
                f"{reason}, but {_what(operand, layout)} is contiguous along {other_name} and ldmatrix transposes "
                f"2-byte elements only"
            )
        return Refusal(
            lambda: f"{reason}, but {_what(operand, layout)} {_why_not_aligned(layout, elements, element_bytes)}"
        )


def _what(operand: OperandSide, layout: SharedLayout) -> str:
    return f"layout {layout.text} of the {layout.shape[0]}x{layout.shape[1]} tile of {operand.upper()}"


def _lines(layout: SharedLayout) -> npt.NDArray[np.int32]:
    """Return offsets as (line, position in the line)."""
    return layout.offsets().T if layout.transposed else layout.offsets()


def _why_uneven(layout: SharedLayout, fragment: tuple[int, int]) -> str:
    lines, positions = fragment[::-1] if layout.transposed else fragment
    offsets = _lines(layout)
    apart = np.diff(offsets, axis=1) != 1
    apart[:, positions - 1 :: positions] = False  # distances between fragments do not count
    torn = np.argwhere(apart)
    if torn.size:
        line, position = (int(i) for i in torn[0])
        return f"elements {position} and {position + 1} of line {line} are not neighbours"
    gaps = np.diff(offsets[:, ::positions], axis=0)
    uneven = gaps != gaps[0, 0]
    uneven[lines - 1 :: lines] = False
    i, j = (int(i) for i in np.argwhere(uneven)[0])
    return f"line 1 starts {gaps[0, 0]} elements after line 0, line {i + 1} {gaps[i, j]} after line {i}" + (
        f" at element {j * positions}" if j else ""
    )


def _why_not_aligned(layout: SharedLayout, elements: int, element_bytes: int) -> str:
    offsets = _lines(layout)
    if offsets.shape[1] % elements:
        return f"has lines of {offsets.shape[1]} elements, which {elements} does not divide"
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
