"""Bank conflicts of shared memory, counted from addresses.

Shared memory has 32 banks of 4 bytes; a bank serves one word per cycle, to all lanes that request it. A warp's access
is served in phases of 128 bytes. A phase serves all 32 lanes if each accesses up to 4 bytes, 16 lanes for 8 bytes, and
8 lanes for 16 bytes (CUDA C++ Programming Guide, "Shared memory"; NVIDIA GTC 2018, S81006). A phase takes one cycle
("wavefront") per distinct word that its busiest bank serves. ldmatrix reads each 8x8 matrix in one phase of eight
16-byte rows.

Addresses are in bytes from a 128-byte boundary; -1 marks an inactive lane.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import gcd, lcm, prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import IntArray
from search_spaces.hardware.costs.transactions import BANK_BYTES, BANKS, PHASE_BYTES, WIDEST_BYTES
from search_spaces.hardware.fragments import WARP
from search_spaces.hardware.requirements import OperandSide, Refusal
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.shared_layout import Axis, SharedLayout

if TYPE_CHECKING:  # for type hints only, because programs without products do not need the table of intrinsics
    from search_spaces.hardware.tensor_intrinsic import TensorIntrinsic

_CHUNK = 2**15  # number of phases to count at a time, so that arrays fit in the CPU cache


def wavefronts(addresses: npt.ArrayLike, access_bytes: int) -> IntArray:
    """Return the cycles of warp accesses; 0 if every lane is inactive.

    Args:
        addresses: Byte addresses of the lanes, shape (..., 32): multiples of ``access_bytes``, or -1.
        access_bytes: Bytes per lane: 1, 2, 4, 8 or 16.

    Returns:
        Cycles, shape (...).

    Raises:
        ValueError: An address or the access size is invalid.
    """
    return _total(_per_warp(_phases(addresses, access_bytes)))


def ideal_wavefronts(addresses: npt.ArrayLike, access_bytes: int) -> IntArray:
    """Return the cycles without conflicts: the number of phases with an active lane."""
    return _total(np.any(_phases(addresses, access_bytes) >= 0, axis=-1))


def conflict_degree(addresses: npt.ArrayLike, access_bytes: int) -> npt.NDArray[np.float64]:
    """Return the ratio of ``wavefronts`` to ``ideal_wavefronts``.

    The ratio is 1 if there are no bank conflicts or no active lanes. It is at most 32.
    """
    units = _phases(addresses, access_bytes)
    ideal = _total(np.any(units >= 0, axis=-1))
    return np.where(ideal > 0, _total(_per_warp(units)) / np.maximum(ideal, 1), 1.0)


def ldmatrix_wavefronts(row_addresses: npt.ArrayLike) -> IntArray:
    """Return the cycles of ldmatrix; without bank conflicts, one cycle per matrix.

    Args:
        row_addresses: Byte addresses of the rows, shape (..., 8 * matrices), for 1, 2 or 4 matrices.

    Returns:
        Cycles, shape (...).

    Raises:
        ValueError: A row is not aligned to 16 bytes.
    """
    rows = np.asarray(row_addresses, dtype=np.int64)
    if rows.ndim == 0 or rows.shape[-1] not in (8, 16, 32):
        raise ValueError(f"ldmatrix takes 8, 16 or 32 row addresses, not shape {rows.shape}")
    if (rows < 0).any() or (rows & 15).any():
        raise ValueError("every row address of ldmatrix must be a multiple of 16 bytes")
    return _total(_per_warp((rows >> 4).reshape(*rows.shape[:-1], -1, 8)))


def _total(phases: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> IntArray:
    """Return, for each warp access, the sum over its phases."""
    total: IntArray = np.asarray(phases.sum(axis=-1, dtype=np.int64))
    return total


def _phases(addresses: npt.ArrayLike, access_bytes: int) -> IntArray:
    """Return the index of the unit that each lane accesses, or -1 for none; shape (..., phases, lanes of a phase)."""
    if access_bytes not in (1, 2, 4, 8, 16):
        raise ValueError(f"a lane accesses 1, 2, 4, 8 or 16 bytes, not {access_bytes!r}")
    lanes = np.asarray(addresses, dtype=np.int64)
    if lanes.ndim == 0 or lanes.shape[-1] != WARP:
        raise ValueError(f"addresses must end in an axis of {WARP} lanes, not shape {lanes.shape}")
    if (lanes < -1).any() or (((lanes & (access_bytes - 1)) != 0) & (lanes != -1)).any():
        raise ValueError(f"addresses must be multiples of {access_bytes} bytes, or -1 for an inactive lane")
    return _units(lanes, access_bytes)


def _units(lanes: IntArray, access_bytes: int) -> IntArray:
    """Return the result of ``_phases`` for valid addresses, without checking them."""
    width = max(BANK_BYTES, access_bytes)
    return (lanes >> (width.bit_length() - 1)).reshape(*lanes.shape[:-1], -1, PHASE_BYTES // width)


def _per_warp(units: IntArray) -> IntArray:
    """Return the cycles of every phase: an array of shape (...), for ``units`` of shape (..., lanes).

    A unit has 128 / lanes bytes and is aligned, so it covers whole, adjacent banks. The number of distinct units in one
    group of banks is therefore the number of distinct words in each of its banks.
    """
    slots = units.shape[-1]
    flat = units.reshape(-1, slots)
    cycles = np.empty(flat.shape[0], dtype=np.int64)
    for start in range(0, flat.shape[0], _CHUNK):
        chunk = np.sort(flat[start : start + _CHUNK], axis=-1)
        distinct = chunk >= 0
        distinct[:, 1:] &= chunk[:, 1:] != chunk[:, :-1]
        slot = (chunk & (slots - 1)) + np.arange(chunk.shape[0])[:, None] * slots
        counts = np.bincount(slot[distinct], minlength=chunk.size).reshape(-1, slots)
        cycles[start : start + _CHUNK] = counts.max(axis=-1)
    return cycles.reshape(units.shape[:-1])


def banks(layout: SharedLayout, element_bytes: int) -> IntArray:
    """Return the bank in which each element of the tile starts, shape (rows, cols)."""
    return layout.offsets().astype(np.int64) * element_bytes // BANK_BYTES % BANKS


# Accesses of all threads to a whole tile
# ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Traffic:
    """Number of warp instructions on shared memory, their cycles, and their cycles without conflicts."""

    instructions: int
    wavefronts: int
    ideal: int

    @property
    def conflict_degree(self) -> float:
        """Number of cycles, divided by the number of cycles without conflicts."""
        return self.wavefronts / self.ideal

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.instructions + other.instructions, self.wavefronts + other.wavefronts, self.ideal + other.ideal
        )

    def __rmul__(self, times: int) -> Traffic:
        return Traffic(times * self.instructions, times * self.wavefronts, times * self.ideal)


def aligned_period(layout: SharedLayout, element_bytes: int) -> int:
    """Return the number of lines after which the cost of accesses repeats.

    Shifting all addresses by a multiple of the widest access changes the banks, but not the conflicts.
    """
    period, extent = layout.period
    return period * (WIDEST_BYTES // gcd(extent * element_bytes, WIDEST_BYTES))


# Layouts repeat after a few lines. The accesses to these few lines are counted once, cached, and used for tiles of all
# sizes.
def _repeats(layout: SharedLayout, span: int, element_bytes: int) -> tuple[SharedLayout, int]:
    """Return the first lines of ``layout``, after which bank conflicts repeat, and the number of repetitions.

    The cost of accesses to ``layout`` is the cost of accesses to these lines, times the number of repetitions. Each
    access covers ``span`` lines that start at a multiple of ``span``.
    """
    lines = lcm(aligned_period(layout, element_bytes), span)
    if layout.lines % lines:
        return layout, 1
    return layout.first_lines(lines), layout.lines // lines


@lru_cache(maxsize=2**16)
def copy_traffic(
    layout: SharedLayout, element_bytes: int, axis: Axis, vector: int, columns: int, threads: int
) -> Traffic:
    """Count the shared-memory traffic of a copy of a whole tile between global and shared memory.

    The threads form a grid, in which thread t has the position (t // columns, t % columns). The grid covers the tile in
    several rounds. If a vector is not contiguous in the layout, it is stored in the widest contiguous pieces.

    Args:
        layout: Layout of the tile in shared memory.
        element_bytes: Bytes per element.
        axis: The axis that is contiguous in global memory. The columns of the grid are along this axis.
        vector: Adjacent elements along ``axis`` that a thread copies at a time.
        columns: Number of columns of the grid.
        threads: Number of threads of the block.

    Returns:
        Warp instructions, wavefronts, and wavefronts without conflicts.

    Raises:
        ValueError: The threads are not whole warps, or the grid does not divide the tile.
    """
    across, along = layout.shape if axis == "cols" else layout.shape[::-1]
    if threads % WARP or threads % columns:
        raise ValueError(f"{threads} threads must be whole warps and a multiple of the {columns} columns")
    rows = threads // columns
    if across % rows or along % (columns * vector):
        raise ValueError(
            f"a grid of {rows}x{columns} threads with {vector} elements each does not divide {across}x{along} elements"
        )
    piece = min(vector, layout.contiguity(axis), WIDEST_BYTES // element_bytes)
    if WARP % columns and columns % WARP:
        return _grid_traffic(layout, element_bytes, axis, vector, piece, (rows, columns))
    # a warp covers whole rows of the grid, or part of one row, so the accesses can be counted for a grid of one warp
    warp = (max(1, WARP // columns), min(columns, WARP))
    part, times = _repeats(layout, warp[0] if axis == layout.line_axis else warp[1] * vector, element_bytes)
    return times * _grid_traffic(part, element_bytes, axis, vector, piece, warp)


@lru_cache(maxsize=2**16)
def _grid_traffic(
    layout: SharedLayout, element_bytes: int, axis: Axis, vector: int, piece: int, grid: tuple[int, int]
) -> Traffic:
    """Return the result of ``copy_traffic`` for a grid of threads that store ``piece`` elements at a time."""
    offsets = layout.offsets() if axis == "cols" else layout.offsets().T
    across, along = offsets.shape
    rows, columns = grid
    starts = offsets[:, ::piece].astype(np.int64) * element_bytes
    rounds = starts.reshape(across // rows, rows, along // (columns * vector), columns, vector // piece)
    return _lane_traffic(rounds.transpose(0, 2, 4, 1, 3).reshape(-1, WARP), piece * element_bytes)


@lru_cache(maxsize=2**16)
def fragment_traffic(row: TensorIntrinsic, operand: OperandSide, layout: SharedLayout, element_bytes: int) -> Traffic:
    """Count the traffic of a warp that reads every fragment of an operand's tile into registers once.

    If the fragment has ``lane_loads``, lanes load elements in that pattern, in vectors of at most ``Access.vector``
    elements. Otherwise ldmatrix reads 8x8 matrices, four per instruction.

    Args:
        row: The tensor intrinsic.
        operand: "a" or "b".
        layout: Layout of the tile in shared memory.
        element_bytes: Bytes per element.

    Raises:
        ValueError: The intrinsic does not support the layout.
    """
    access = row.requirement(operand, layout, element_bytes)
    if isinstance(access, Refusal):
        raise ValueError(access.reason)
    fragment = row.fragment(operand)
    part, times = _repeats(layout, fragment.shape[0 if layout.line_axis == "cols" else 1], element_bytes)
    if fragment.lane_loads is None:
        one = _ldmatrix_traffic(part, access.axis, access.vector, element_bytes)
        return Traffic(-(-times * one.ideal // 4), times * one.wavefronts, times * one.ideal)
    vector = min(access.vector, prod(fragment.lane_loads.element_tile))
    return times * _load_traffic(part, fragment.lane_loads, element_bytes, vector)


@lru_cache(maxsize=2**16)
def _ldmatrix_traffic(layout: SharedLayout, axis: Axis, vector: int, element_bytes: int) -> Traffic:
    """Count the traffic of reading the whole layout with ldmatrix.x1."""
    offsets = layout.offsets() if axis == "cols" else layout.offsets().T
    starts = offsets[:, ::vector].astype(np.int64) * element_bytes
    matrices = starts.reshape(starts.shape[0] // 8, 8, -1).transpose(0, 2, 1).reshape(-1, 8)
    return Traffic(len(matrices), int(ldmatrix_wavefronts(matrices).sum()), len(matrices))


@lru_cache(maxsize=2**16)
def _load_traffic(layout: SharedLayout, lanes: NestedLayout, element_bytes: int, vector: int) -> Traffic:
    """Count the traffic if the 32 lanes load every fragment of the tile, ``vector`` elements at a time.

    ``lanes`` maps the elements of a fragment to lanes.
    """
    held = _held(lanes)[:, ::vector]
    origins = np.indices([n // step for n, step in zip(layout.shape, lanes.shape, strict=True)])
    rows, cols = (
        (origins[d].ravel() * lanes.shape[d])[:, None, None] + held[..., d].T for d in (0, 1)
    )  # shape (fragments, loads, lanes)
    addresses = layout.offsets()[rows, cols].astype(np.int64) * element_bytes
    return _lane_traffic(addresses.reshape(-1, WARP), vector * element_bytes)


@lru_cache(maxsize=2**6)
def _held(lanes: NestedLayout) -> IntArray:
    """Return the row and column of each fragment element that a lane holds, shape (lanes, elements, 2)."""
    held: IntArray = lanes.coordinates(1, WARP, replicate_threads=True)[0]
    return held


def _lane_traffic(addresses: IntArray, access_bytes: int) -> Traffic:
    units = _units(addresses, access_bytes)
    return Traffic(len(addresses), int(_per_warp(units).sum()), units.shape[0] * units.shape[1])
