"""Automatic data movement: derive a good copy from a global-memory region, a shared-memory layout and a thread count.

A copy distributes a tile to the threads of a block by a wg_map whose "subgroups" are threads: a grid of rows x columns,
with columns along contiguous global memory, a vector of neighbours per thread, round-robin. TVM's auto memory planning
samples the layout of the buffer. Here the thread mapping and the vector width for a layout are derived: widest legal
accesses, whole sectors on the global side, fewest bank conflicts on the shared side. The same plans apply to copies
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

ASYNC_BYTES = (4, 8, 16)  # PTX ISA, "cp.async": cp-size
SAMPLED_WARPS = 8  # warps per tile to count conflicts: layouts repeat, so a few accesses suffice
MOST_SECTORS = 1.25  # limit of a thread mapping's sectors relative to the best one for the same tile
MOST_CONFLICTS = 2.0  # limit of a shared-memory access's cycles relative to those without conflicts
MOST_LINE = 512  # elements of a line up to which all mappings are counted at once
MOST_VECTORS = 4  # accesses that may replace one access of the widest legal size

Method = Literal["cp.async", "ld.global"]


@dataclass(frozen=True)
class Region:
    """A tile of a matrix in global memory.

    Attributes:
        shape: (rows, cols).
        axis: The index that is contiguous in memory.
        alignment: Lines start at multiples of this number of elements (a common divisor of base address and pitch).
        element_bytes: Bytes per element.

    Raises:
        ValueError: For sizes that are not positive.
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
        """Contiguous lines of the tile."""
        return self.shape[0] if self.axis == "cols" else self.shape[1]

    @property
    def line(self) -> int:
        """Elements of a contiguous line."""
        return self.shape[1] if self.axis == "cols" else self.shape[0]


@dataclass(frozen=True)
class CopyPlan:
    """A way to copy a region to shared memory.

    ``map`` distributes (line, position in the line) to threads. ``vector`` elements are loaded at a time, and stored in
    pieces of ``store`` elements (fewer if the layout splits the vector). ``sectors`` is the expected number of 32-byte
    sectors that all requests of the tile touch, ``stores`` the traffic on shared memory.
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
        """Threads that copy."""
        return self.rows * self.columns

    @property
    def map(self) -> WgMap:
        """The wg_map over (lines, positions) of the region, threads as its subgroups."""
        return WgMap((self.rows, self.columns), (1, self.vector))

    @property
    def requests(self) -> int:
        """Warp instructions on the global side."""
        return self.region.lines * self.region.line // (self.vector * WARP)

    @property
    def tags(self) -> int:
        """128-byte lines touched, summed over the requests; these are cycles of L1's tag stage."""
        columns = min(self.columns, WARP)
        lines = -(-columns * self.vector * self.region.element_bytes // PHASE_BYTES)
        return self.requests * (WARP // columns) * lines

    @property
    def sectors_per_request(self) -> float:
        """Average sectors per warp instruction."""
        return self.sectors / self.requests

    def positions(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return (row, col) of the elements that each thread moves, each of shape (threads, rounds, vector)."""
        origins = self.map.all_offsets((self.region.lines, self.region.line))
        line = np.broadcast_to(origins[..., :1], (*origins.shape[:2], self.vector))
        position = origins[..., 1:] + np.arange(self.vector)
        return (line, position) if self.region.axis == "cols" else (position, line)

    def execute(self, tile: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Return the shared buffer after copying ``tile`` (rows, cols): ``layout.size`` elements, padded with zeros."""
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
    """Return the plan of copying a tile from global to shared memory, or the reason why it is illegal.

    Args:
        region: The tile in global memory: shape, element, alignment.
        layout: Layout in shared memory, of the same shape.
        threads: Threads of the block, whole warps.
        vector: Elements that a thread copies at a time, a power of two up to 16 bytes.
        columns: Threads side by side along the contiguous axis.
        method: By cp.async, or through registers.
    """
    if layout.shape != region.shape:
        return Refusal(f"layout has shape {layout.shape}, but the region to copy has {region.shape}")
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
            f"{threads} threads in {columns} columns must be whole warps and whole rows, and a warp a whole number of "
            "rows or a part of one"
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
    """Return the expected sectors of all requests if ``columns`` threads of ``vector`` elements share a region's lines.

    A warp touches segments of one line each; ``columns * vector`` must divide a line.

    A segment of s bytes that starts at a random multiple of g bytes (g divides s) touches (s - g) / 32 + 1 sectors on
    average, or s / 32 if g is at least a sector.
    """
    segment = min(columns, WARP) * vector * region.element_bytes
    step = gcd(region.alignment * region.element_bytes, segment, SECTOR_BYTES)
    segments = region.lines * region.line * region.element_bytes // segment
    return segments * ((segment - step) / SECTOR_BYTES + 1)


# Pruning: thread mappings that are far from the best for their tile ---------------------------------------------------


@lru_cache(maxsize=2**14)
def few_sectors(region: Region, vector: int, columns: int) -> bool:
    """Return True if a thread mapping touches at most MOST_SECTORS times the fewest sectors of any mapping.

    Args:
        region: The region whose lines are copied.
        vector: Elements per thread.
        columns: Threads side by side on a line.

    Returns:
        True also for mappings that do not fit the lines.
    """
    sectors = _sectors(region, vector, columns)
    return sectors is None or sectors <= MOST_SECTORS * _fewest_sectors(region)


def wide_enough(region: Region, vector: int) -> bool:
    """Return True if a vector is wide enough: at most MOST_VECTORS of them replace the widest aligned access."""
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


Binding = tuple[int, int, int]  # vector, columns, block: arguments of ``conflict_percent``


def conflict_percent(
    layout: SharedLayout, element_bytes: int, axis: Axis, vector: int, columns: int, block: int = 1
) -> int:
    """Return the cycles in percent of the conflict-free ones, for warps that move vectors along ``axis`` of the tile.

    Unlike ``copy_traffic`` it counts only a few warps, and lanes may hold two-dimensional blocks.

    Args:
        layout: Layout of the tile in shared memory.
        element_bytes: Bytes per element.
        axis: Axis along which lanes move vectors.
        vector: Elements between neighbouring lanes along ``axis``.
        columns: Number of neighbouring lanes along ``axis``.
        block: Elements between neighbouring lanes across ``axis``. If it is 1, a lane moves one vector along ``axis``;
            otherwise it moves ``vector`` pieces of ``block`` elements across ``axis``.
    """
    columns = min(columns, WARP)
    percent = _percents_of_bindings(layout, element_bytes, axis, block).get((vector, columns))
    if percent is None:  # arguments that do not fit the lines have no count
        percent = _conflict_percents(layout, element_bytes, axis, ((vector, columns, block),))[0]
    return percent


@lru_cache(maxsize=2**15)
def few_conflicts(layout: SharedLayout, element_bytes: int, axis: Axis) -> frozenset[tuple[int, int]]:
    """Return all (vector, columns) for which the shared side of a copy along ``axis`` has few conflicts.

    They take at most MOST_CONFLICTS times the cycles without conflicts. If none does, the best ones are returned, since
    the layout may have other advantages.
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
    """Return a layout with the same percentages for single elements across ``axis``.

    Its number of lines is normalised, so that tiles of many sizes share one count.
    """
    if axis == layout.line_axis:
        # The sampled warps cover whole periods, or lie within the first one. Accesses that start whole periods apart
        # cost the same (see ``aligned_period``).
        period = aligned_period(layout, element_bytes)
        return layout if layout.lines % WARP or WARP % period else layout.first_lines(WARP)
    # Accesses across lines of ``columns * vector`` elements only depend on the first line, in pieces of one element.
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
    """Return the percentages of all mappings of one layout at once, because a few addresses take as long as many."""
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

    Without swizzles, moving an access along a line shifts all its addresses equally.
    """
    swizzled = any(isinstance(step, Swizzle) for step in layout.steps)
    of_line = layout.line if swizzled else WIDEST_BYTES // element_bytes
    of_lines = aligned_period(layout, element_bytes)
    return (of_lines, of_line) if axis == layout.line_axis else (of_line, of_lines)


@lru_cache(maxsize=2**12)
def _warps(
    shape: tuple[int, int], piece: int, bindings: tuple[Binding, ...], periods: tuple[int, int]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return positions (across, along) of the lanes of a few warp accesses, each (accesses, 32).

    Also returns the index of each mapping's first access. Accesses that repeat after whole ``periods`` are sampled
    once.
    """
    lines, line = shape
    accesses = []
    for vector, columns, block in bindings:
        step = WARP // columns * block
        warps = min(SAMPLED_WARPS, max(1, lines // step))
        stride = 1 if block > 1 else piece
        pieces = vector // stride
        if line % (vector * columns) == 0:  # no lane wraps around
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
    """Return positions (across, along) of the lanes, each (warps * pieces, 32), in an unbounded tile."""
    vector, columns, block = binding
    lanes = np.arange(WARP)
    first = np.arange(warps)[:, None, None] * (WARP // columns * block)
    within = np.arange(pieces)[:, None] * stride
    across, along = np.broadcast_arrays(first + lanes // columns * block, within + lanes % columns * vector)
    return across.reshape(-1, WARP), along.reshape(-1, WARP)


def _one_period(count: int, step: int, period: int) -> int:
    """Return the number of items, ``step`` apart, that represent all ``count`` if they repeat after ``period``."""
    distinct = period // gcd(period, step)
    return count if count % distinct else distinct
