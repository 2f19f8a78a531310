"""Derive an efficient copy of a global-memory region to a shared-memory layout, for a given number of threads.

A wg_map assigns the tile's elements to the threads of a block, which take the role of subgroups. The threads form a
grid of rows x columns. Neighbouring threads of a row access contiguous global memory. Each thread copies a vector of
adjacent elements, and the grid covers the tile in several rounds. The layout of the shared buffer is given (TVM's auto
memory planning samples layouts). For this layout, the module derives the thread mapping and the vector width: widest
legal accesses, whole sectors in global memory, fewest bank conflicts in shared memory. The same plans apply to copies
from shared to global memory, which have the same addresses, sectors and conflicts.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import Literal

import numpy as np
import numpy.typing as npt

from search_spaces.hardware.costs.bank_conflicts import Traffic, aligned_period, copy_traffic, wavefronts
from search_spaces.hardware.costs.transactions import PHASE_BYTES, SECTOR_BYTES, WIDEST_BYTES
from search_spaces.hardware.fragments import WARP
from search_spaces.hardware.requirements import Refusal
from search_spaces.layouts.shared_layout import Axis, SharedLayout, Swizzle
from search_spaces.layouts.wg_map import WgMap

ASYNC_BYTES = (4, 8, 16)  # bytes that cp.async can copy (PTX ISA, "cp.async": cp-size)
SAMPLED_WARPS = 8  # number of warps per tile whose conflicts are counted; a few suffice, as layouts repeat
MOST_SECTORS = 1.25  # limit of the sectors that a thread mapping accesses, relative to the tile's best mapping
MOST_CONFLICTS = 2.0  # limit of the cycles of a shared-memory access, relative to the cycles without conflicts
MOST_LINE = 512  # all mappings are counted at once for lines of up to this number of elements
MOST_VECTORS = 4  # maximum number of accesses that may replace one access of the widest legal size

Method = Literal["cp.async", "ld.global"]


@dataclass(frozen=True)
class Region:
    """A tile of a matrix in global memory.

    Attributes:
        shape: (rows, cols).
        axis: The axis that is contiguous in memory, "rows" or "cols".
        alignment: Lines start at multiples of this number of elements, a common divisor of base address and pitch.
        element_bytes: Bytes per element.

    Raises:
        ValueError: A size is not positive.
    """

    shape: tuple[int, int]
    axis: Axis
    alignment: int
    element_bytes: int

    def __post_init__(self) -> None:
        for name, value in (("rows", self.shape[0]), ("cols", self.shape[1]), ("alignment", self.alignment)):
            if value < 1:
                raise ValueError(f"region: {name} must be at least 1, not {value}")
        if self.axis not in ("rows", "cols"):
            raise ValueError(f"region: axis must be 'rows' or 'cols', not {self.axis!r}")
        if self.element_bytes not in (1, 2, 4, 8, 16):
            raise ValueError(f"region: element_bytes must be 1, 2, 4, 8 or 16, not {self.element_bytes}")

    @property
    def lines(self) -> int:
        """Number of lines of the tile; a line is contiguous in memory."""
        return self.shape[0] if self.axis == "cols" else self.shape[1]

    @property
    def line(self) -> int:
        """Number of elements of a line."""
        return self.shape[1] if self.axis == "cols" else self.shape[0]


@dataclass(frozen=True)
class CopyPlan:
    """A copy of a region to shared memory.

    ``map`` maps each (line, position in the line) to a thread. A thread loads ``vector`` elements at a time, and stores
    ``store`` elements at a time. ``store`` is smaller if the layout splits a vector. ``sectors`` is the expected number
    of 32-byte sectors of global memory that all requests for the tile touch. ``stores`` is the shared-memory traffic.
    """

    region: Region
    layout: SharedLayout
    method: Method
    vector: int
    columns: int
    rows: int
    store: int
    sectors: float
    stores: Traffic

    @property
    def threads(self) -> int:
        """Number of threads that copy."""
        return self.rows * self.columns

    @property
    def map(self) -> WgMap:
        """The wg_map from (line, position in the line) to threads, which take the role of subgroups."""
        return WgMap((self.rows, self.columns), (1, self.vector))

    @property
    def requests(self) -> int:
        """Number of warp instructions on global memory."""
        return self.region.lines * self.region.line // (self.vector * WARP)

    @property
    def tags(self) -> int:
        """Number of 128-byte lines that requests touch, summed over requests: the cycles of L1's tag stage."""
        columns = min(self.columns, WARP)
        lines = -(-columns * self.vector * self.region.element_bytes // PHASE_BYTES)
        return self.requests * (WARP // columns) * lines

    @property
    def sectors_per_request(self) -> float:
        """Average number of sectors per warp instruction on global memory."""
        return self.sectors / self.requests

    def positions(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the rows and the columns of the elements that each thread copies, shape (threads, rounds, vector)."""
        origins = self.map.all_offsets((self.region.lines, self.region.line))
        line = np.broadcast_to(origins[..., :1], (*origins.shape[:2], self.vector))
        position = origins[..., 1:] + np.arange(self.vector)
        return (line, position) if self.region.axis == "cols" else (position, line)

    def execute(self, tile: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Execute the copy of ``tile`` on the CPU.

        Return the shared buffer: ``layout.size`` elements, unused ones 0.
        """
        if tile.shape != self.region.shape:
            raise ValueError(f"the tile must have shape {self.region.shape}, not {tile.shape}")
        rows, cols = self.positions()
        shared = np.zeros(self.layout.size, dtype=tile.dtype)
        shared[self.layout(rows, cols)] = tile[rows, cols]
        return shared


@lru_cache(maxsize=2**14)
def copy_plan(
    region: Region, layout: SharedLayout, threads: int, vector: int, columns: int, method: Method
) -> CopyPlan | Refusal:
    """Return the plan of a copy of a tile from global to shared memory, or the reason why the copy is illegal.

    Args:
        region: The tile in global memory: shape, element, alignment.
        layout: Layout in shared memory, of the same shape.
        threads: Number of threads of the block, a multiple of 32.
        vector: Elements that a thread copies at a time: a power of two, up to 16 bytes.
        columns: Number of adjacent threads along the contiguous axis.
        method: "cp.async", or "ld.global" for a copy through registers.
    """
    if layout.shape != region.shape:
        return Refusal(f"layout has shape {layout.shape}, but the region to copy has shape {region.shape}")
    vector_bytes = vector * region.element_bytes
    if vector < 1 or vector & (vector - 1) or vector_bytes > WIDEST_BYTES:
        return Refusal(
            f"a vector of {vector} elements is {vector_bytes} bytes; it must be a power of two up to {WIDEST_BYTES}"
        )
    if region.alignment % vector:
        return Refusal(
            f"a vector of {vector} elements needs lines that start at multiples of {vector} elements in global memory, "
            f"but they start at multiples of {region.alignment}"
        )
    if columns < 1 or threads % WARP or threads % columns or (WARP % columns and columns % WARP):
        return Refusal(
            f"{threads} threads in {columns} columns must form whole warps and whole rows, and a warp must "
            "cover whole rows or part of one row"
        )
    rows = threads // columns
    if region.line % (columns * vector):
        return Refusal(
            f"{columns} columns of {vector} elements do not divide lines of {region.line} elements: threads would "
            "share or miss parts of the tile"
        )
    if region.lines % rows:
        return Refusal(f"{rows} rows of threads do not divide the {region.lines} lines of the tile")
    together = layout.contiguity(region.axis)
    if method == "cp.async" and (vector_bytes not in ASYNC_BYTES or together < vector):
        return Refusal(
            f"cp.async copies 4, 8 or 16 contiguous bytes, but a vector of {vector} elements has {vector_bytes} "
            f"bytes, and layout {layout.text} stores {together} elements of a line contiguously"
        )
    return CopyPlan(
        region=region,
        layout=layout,
        method=method,
        vector=vector,
        columns=columns,
        rows=rows,
        store=min(vector, together),
        sectors=expected_sectors(region, vector, columns),
        stores=copy_traffic(layout, region.element_bytes, region.axis, vector, columns, threads),
    )


def expected_sectors(region: Region, vector: int, columns: int) -> float:
    """Return the expected number of sectors if ``columns`` threads, with ``vector`` elements each, copy along a line.

    The result is the sum over all requests for the region. ``columns * vector`` must divide the length of a line.

    Each request accesses segments of lines. Assume that a segment of s bytes starts at a random multiple of g bytes,
    where g divides s. If g is less than 32, the segment touches (s - g) / 32 + 1 sectors on average, otherwise s / 32
    sectors.
    """
    segment = min(columns, WARP) * vector * region.element_bytes
    step = gcd(region.alignment * region.element_bytes, segment, SECTOR_BYTES)
    segments = region.lines * region.line * region.element_bytes // segment
    return segments * ((segment - step) / SECTOR_BYTES + 1)


# Pruning of thread mappings that are much worse than the best mapping for the tile
# ---------------------------------------------------


@lru_cache(maxsize=2**14)
def few_sectors(region: Region, vector: int, columns: int) -> bool:
    """Return True if a thread mapping touches few sectors.

    Few means at most MOST_SECTORS times the smallest number of sectors that any mapping touches.

    Args:
        region: The region whose lines are copied.
        vector: Elements per thread.
        columns: Number of adjacent threads along a line.

    Returns:
        True if there are few sectors, or if the mapping does not fit the lines (other rules reject such mappings).
    """
    sectors = _sectors(region, vector, columns)
    return sectors is None or sectors <= MOST_SECTORS * _fewest_sectors(region)


def wide_enough(region: Region, vector: int) -> bool:
    """Return True if ``vector`` is at least 1 / MOST_VECTORS of the widest aligned access, in elements."""
    return vector * MOST_VECTORS >= gcd(region.alignment, WIDEST_BYTES // region.element_bytes)


def _sectors(region: Region, vector: int, columns: int) -> float | None:
    fits = region.alignment % vector == 0 and region.line % (vector * columns) == 0
    return expected_sectors(region, vector, columns) if fits else None


@lru_cache(maxsize=2**12)
def _fewest_sectors(region: Region) -> float:
    bindings = ((v, c) for v in _vectors(region.element_bytes) for c in (1, 2, 4, 8, 16, 32))
    return min(sectors for v, c in bindings if (sectors := _sectors(region, v, c)) is not None)


def _vectors(element_bytes: int) -> tuple[int, ...]:
    return tuple(v for v in (1, 2, 4, 8, 16) if v * element_bytes <= WIDEST_BYTES)


Binding = tuple[int, int, int]  # (vector, columns, block) as for ``conflict_percent``


def conflict_percent(
    layout: SharedLayout, element_bytes: int, axis: Axis, vector: int, columns: int, block: int = 1
) -> int:
    """Return the shared-memory cycles of a copy along ``axis``, in percent of the cycles without conflicts.

    Unlike ``copy_traffic``, this function counts only a few warps, and lanes may copy two-dimensional blocks.

    Args:
        layout: Layout of the tile in shared memory.
        element_bytes: Bytes per element.
        axis: Axis along which lanes move vectors.
        vector: Distance between neighbouring lanes along ``axis``, in elements.
        columns: Number of neighbouring lanes along ``axis``.
        block: Distance between neighbouring lanes across ``axis``, in elements. If 1, a lane copies one vector along
            ``axis``. Otherwise a lane copies ``vector`` pieces of ``block`` elements each. The elements of a piece are
            adjacent across ``axis``.
    """
    columns = min(columns, WARP)
    percent = _percents_of_bindings(layout, element_bytes, axis, block).get((vector, columns))
    if percent is None:  # the cache only has mappings that fit the lines
        percent = _conflict_percents(layout, element_bytes, axis, ((vector, columns, block),))[0]
    return percent


@lru_cache(maxsize=2**15)
def few_conflicts(layout: SharedLayout, element_bytes: int, axis: Axis) -> frozenset[tuple[int, int]]:
    """Return all (vector, columns) for which a copy along ``axis`` has few conflicts in shared memory.

    Few conflicts means at most MOST_CONFLICTS times the cycles without conflicts. If all mappings of a vector width
    exceed this limit, the best mappings of this width are returned, because the layout may have other advantages.
    """
    percents = _percents_of_bindings(layout, element_bytes, axis, 1)
    most: dict[int, float] = {}
    for (vector, _), percent in percents.items():
        most[vector] = min(percent, most.get(vector, percent))
    most = {vector: max(100 * MOST_CONFLICTS, fewest) for vector, fewest in most.items()}
    return frozenset((vector, columns) for (vector, columns), percent in percents.items() if percent <= most[vector])


@lru_cache(maxsize=2**15)
def _percents_of_bindings(
    layout: SharedLayout, element_bytes: int, axis: Axis, block: int
) -> dict[tuple[int, int], int]:
    """Return ``conflict_percent`` for every (vector, columns) that fits the lines along ``axis``."""
    bindings = _bindings(layout.shape[1] if axis == "cols" else layout.shape[0], element_bytes, block)
    equivalent = _equivalent(layout, element_bytes, axis) if block == 1 else layout
    if equivalent != layout:
        known = _percents_of_bindings(equivalent, element_bytes, axis, block)
        return {(vector, columns): known[vector, columns] for vector, columns, _ in bindings}
    percents = _conflict_percents(layout, element_bytes, axis, bindings)
    return {(vector, columns): percent for (vector, columns, _), percent in zip(bindings, percents, strict=True)}


def _equivalent(layout: SharedLayout, element_bytes: int, axis: Axis) -> SharedLayout:
    """Return a layout with a normalised number of lines that has the same ``conflict_percent`` for ``block`` = 1.

    Tiles of many sizes then share one cached count.
    """
    if axis == layout.line_axis:
        # The cost of an access repeats every ``aligned_period`` lines. If WARP is a multiple of this period, the first
        # WARP lines suffice: the sampled warps cover whole periods, or are within the first period.
        period = aligned_period(layout, element_bytes)
        return layout if layout.lines % WARP or WARP % period else layout.first_lines(WARP)
    # If pieces have one element, accesses across lines only depend on the first ``columns * vector`` lines.
    most = WARP * WIDEST_BYTES // element_bytes
    single = layout.lines % 2 == 0 and layout.contiguity(axis) == 1
    fits = layout.lines < most and layout.line <= MOST_LINE
    return layout.first_lines(most) if single and fits else layout


@lru_cache(maxsize=2**10)
def _bindings(line: int, element_bytes: int, block: int) -> tuple[Binding, ...]:
    return tuple((v, c, block) for v in _vectors(element_bytes) for c in (1, 2, 4, 8, 16, 32) if line % (v * c) == 0)


@lru_cache(maxsize=2**15)
def _conflict_percents(
    layout: SharedLayout, element_bytes: int, axis: Axis, bindings: tuple[Binding, ...]
) -> tuple[int, ...]:
    """Return the percentages of all mappings of a layout. Counting them together is as fast as counting a few alone."""
    other: Axis = "rows" if axis == "cols" else "cols"
    offsets = layout.offsets() if axis == "cols" else layout.offsets().T
    pieces = [
        min(vector, layout.contiguity(axis), WIDEST_BYTES // element_bytes)
        if block == 1
        else min(block, layout.contiguity(other), WIDEST_BYTES // element_bytes)
        for vector, _, block in bindings
    ]
    percents = dict.fromkeys(bindings, 0)
    periods = _periods(layout, element_bytes, axis)
    for piece in set(pieces):
        group = tuple(b for b, p in zip(bindings, pieces, strict=True) if p == piece)
        across, along, starts = _warps(offsets.shape, piece, group, periods)
        cycles = wavefronts(offsets[across, along].astype(np.int64) * element_bytes, piece * element_bytes)
        sums, counts = np.add.reduceat(cycles, starts), np.diff(starts, append=len(cycles))
        ideal = counts * max(1, WARP * piece * element_bytes // PHASE_BYTES)
        percents.update(zip(group, np.rint(100 * sums / ideal).astype(int).tolist(), strict=True))
    return tuple(percents[b] for b in bindings)


def _periods(layout: SharedLayout, element_bytes: int, axis: Axis) -> tuple[int, int]:
    """Return (across, along): elements across and along ``axis`` after which the cost of an access repeats.

    Without swizzles, moving an access along a line shifts all its addresses by the same amount.
    """
    swizzled = any(isinstance(step, Swizzle) for step in layout.steps)
    of_line = layout.line if swizzled else WIDEST_BYTES // element_bytes
    of_lines = aligned_period(layout, element_bytes)
    return (of_lines, of_line) if axis == layout.line_axis else (of_line, of_lines)


@lru_cache(maxsize=2**12)
def _warps(
    shape: tuple[int, int], piece: int, bindings: tuple[Binding, ...], periods: tuple[int, int]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the positions of the lanes in a few accesses of warps.

    The cost of accesses repeats after ``periods``. If the accesses form whole periods, only one period is sampled.

    Returns:
        Three arrays: each lane's position across the axis, of shape (accesses, 32); each lane's position along the
        axis, of the same shape; and, for each mapping, the index of its first access in the other arrays.
    """
    lines, line = shape
    accesses = []
    for vector, columns, block in bindings:
        step = WARP // columns * block
        warps = min(SAMPLED_WARPS, max(1, lines // step))
        stride = 1 if block > 1 else piece
        pieces = vector // stride
        if line % (vector * columns) == 0:  # accesses in which all lanes are inside the tile
            warps = _one_period(warps, step, periods[0])
            pieces = _one_period(pieces, stride, periods[1])
        accesses.append(_accesses((vector, columns, block), warps, pieces, stride))
    across, along = (np.concatenate(p) for p in zip(*accesses, strict=True))
    starts = np.cumsum([0, *(len(a) for a, _ in accesses[:-1])])
    return across % lines, along % line, starts


@lru_cache(maxsize=2**12)
def _accesses(
    binding: Binding, warps: int, pieces: int, stride: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return each lane's position across the axis and its position along the axis, in a tile without bounds.

    Both arrays have shape (warps * pieces, 32).
    """
    vector, columns, block = binding
    lanes = np.arange(WARP)
    first = np.arange(warps)[:, None, None] * (WARP // columns * block)
    within = np.arange(pieces)[:, None] * stride
    across, along = np.broadcast_arrays(first + lanes // columns * block, within + lanes % columns * vector)
    return across.reshape(-1, WARP), along.reshape(-1, WARP)


def _one_period(count: int, step: int, period: int) -> int:
    """Return how many of ``count`` positions, ``step`` apart, form one period.

    If the positions do not consist of whole periods, return ``count``.
    """
    distinct = period // gcd(period, step)
    return count if count % distinct else distinct
