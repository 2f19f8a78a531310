"""Bank conflicts of shared memory, counted from addresses.

Shared memory has 32 banks of 4 bytes; a bank serves one word per cycle, to all lanes that request it. A warp's access
is served in phases of 128 bytes: all 32 lanes for accesses of up to 4 bytes, 16 lanes at a time for 8 bytes, 8 lanes at
a time for 16 bytes (CUDA C++ Programming Guide, "Shared memory"; NVIDIA GTC 2018, S81006). A phase takes as many cycles
("wavefronts") as the busiest bank has distinct words to serve. ldmatrix reads each 8x8 matrix in one phase of eight
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

if TYPE_CHECKING:  # avoids importing the table of intrinsics, which is only needed for products
    from search_spaces.hardware.tensor_intrinsic import TensorIntrinsic

_CHUNK = 2**15  # phases counted at a time: the arrays stay in the cache


def wavefronts(addresses: npt.ArrayLike, access_bytes: int) -> IntArray:
    """Return the cycles of warp accesses; 0 if every lane is inactive.

    Args:
        addresses: (..., 32) bytes, multiples of ``access_bytes``, or -1.
        access_bytes: 1, 2, 4, 8 or 16.

    Returns:
        Cycles, (...).

    Raises:
        ValueError: For invalid addresses or access sizes.
    """
    return _total(_per_warp(_phases(addresses, access_bytes)))


def ideal_wavefronts(addresses: npt.ArrayLike, access_bytes: int) -> IntArray:
    """Return ``wavefronts`` without conflicts: the number of phases with an active lane."""
    return _total(np.any(_phases(addresses, access_bytes) >= 0, axis=-1))


def conflict_degree(addresses: npt.ArrayLike, access_bytes: int) -> npt.NDArray[np.float64]:
    """Return ``wavefronts`` relative to ``ideal_wavefronts``: 1 without conflicts or active lanes, at most 32."""
    units = _phases(addresses, access_bytes)
    ideal = _total(np.any(units >= 0, axis=-1))
    return np.where(ideal > 0, _total(_per_warp(units)) / np.maximum(ideal, 1), 1.0)


def ldmatrix_wavefronts(row_addresses: npt.ArrayLike) -> IntArray:
    """Return the cycles of ldmatrix; ideally the number of matrices.

    Args:
        row_addresses: (..., 8 * matrices) bytes, with 1, 2 or 4 matrices.

    Returns:
        Cycles, (...).

    Raises:
        ValueError: If a row is not aligned to 16 bytes.
    """
    rows = np.asarray(row_addresses, dtype=np.int64)
    if rows.ndim == 0 or rows.shape[-1] not in (8, 16, 32):
        raise ValueError(f"ldmatrix takes 8, 16 or 32 row addresses, not shape {rows.shape}")
    if (rows < 0).any() or (rows & 15).any():
        raise ValueError("every row address of ldmatrix must be a multiple of 16 bytes")
    return _total(_per_warp((rows >> 4).reshape(*rows.shape[:-1], -1, 8)))


def _total(phases: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> IntArray:
    """Return the sum over the phases of each warp."""
    total: IntArray = np.asarray(phases.sum(axis=-1, dtype=np.int64))
    return total


def _phases(addresses: npt.ArrayLike, access_bytes: int) -> IntArray:
    """Return the number of the access-sized unit that each lane accesses, or -1, as (..., phases, lanes of a phase)."""
    if access_bytes not in (1, 2, 4, 8, 16):
        raise ValueError(f"a lane accesses 1, 2, 4, 8 or 16 bytes, not {access_bytes!r}")
    lanes = np.asarray(addresses, dtype=np.int64)
    if lanes.ndim == 0 or lanes.shape[-1] != WARP:
        raise ValueError(f"addresses must end in an axis of {WARP} lanes, not shape {lanes.shape}")
    if (lanes < -1).any() or (((lanes & (access_bytes - 1)) != 0) & (lanes != -1)).any():
        raise ValueError(f"addresses must be multiples of {access_bytes} bytes, or -1 for an inactive lane")
    return _units(lanes, access_bytes)


def _units(lanes: IntArray, access_bytes: int) -> IntArray:
    """Return ``_phases`` of addresses that are known to be aligned."""
    width = max(BANK_BYTES, access_bytes)
    return (lanes >> (width.bit_length() - 1)).reshape(*lanes.shape[:-1], -1, PHASE_BYTES // width)


def _per_warp(units: IntArray) -> IntArray:
    """Return the cycles of every phase, (..., lanes) -> (...).

    The unit of a lane has 128 bytes / lanes and is aligned, so it fills whole adjacent banks. Counting distinct units
    per slot of that width therefore counts distinct words per bank.
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
    """Return the bank in which each element of the tile starts, (rows, cols)."""
    return layout.offsets().astype(np.int64) * element_bytes // BANK_BYTES % BANKS


# Accesses of a whole tile ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Traffic:
    """Warp instructions on shared memory, their cycles, and the cycles they would take without conflicts."""

    instructions: int
    wavefronts: int
    ideal: int

    @property
    def conflict_degree(self) -> float:
        """Cycles relative to those without conflicts."""
        return self.wavefronts / self.ideal

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.instructions + other.instructions, self.wavefronts + other.wavefronts, self.ideal + other.ideal
        )

    def __rmul__(self, times: int) -> Traffic:
        return Traffic(times * self.instructions, times * self.wavefronts, times * self.ideal)


def aligned_period(layout: SharedLayout, element_bytes: int) -> int:
    """Return the number of lines after which the cost of accesses repeats.

    Shifting all addresses by whole units of the widest access changes banks but not conflicts.
    """
    period, extent = layout.period
    return period * (WIDEST_BYTES // gcd(extent * element_bytes, WIDEST_BYTES))


# A layout repeats every few lines, so accesses to these lines are counted once for tiles of all sizes.
def _repeats(layout: SharedLayout, span: int, element_bytes: int) -> tuple[SharedLayout, int]:
    """Return (part, n) such that accesses cost n times as much on ``layout`` as on the part.

    The accesses are to ``span`` lines that start at multiples of ``span``.
    """
    lines = lcm(aligned_period(layout, element_bytes), span)
    if layout.lines % lines:
        return layout, 1
    return layout.first_lines(lines), layout.lines // lines


@lru_cache(maxsize=2**16)
def copy_traffic(
    layout: SharedLayout, element_bytes: int, axis: Axis, vector: int, columns: int, threads: int
) -> Traffic:
    """Count the traffic of moving a whole tile between registers (or cp.async) and shared memory, each element once.

    Thread t is at (t // columns, t % columns) of a grid that covers the tile round-robin. If the layout splits a
    vector, it is stored in the widest pieces that are contiguous.

    Args:
        layout: Layout of the tile in shared memory.
        element_bytes: Bytes per element.
        axis: The index that is contiguous in global memory, along which the grid's columns run.
        vector: Neighbours along ``axis`` that a thread moves at a time.
        columns: Columns of the grid.
        threads: Threads of the block.

    Returns:
        Warp instructions, wavefronts, and wavefronts without conflicts.

    Raises:
        ValueError: If warps are not whole, or the grid does not divide the tile.
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
    # a warp covers whole rows of the grid or a part of one, so the number of warps does not change the accesses
    warp = (max(1, WARP // columns), min(columns, WARP))
    part, times = _repeats(layout, warp[0] if axis == layout.line_axis else warp[1] * vector, element_bytes)
    return times * _grid_traffic(part, element_bytes, axis, vector, piece, warp)


@lru_cache(maxsize=2**16)
def _grid_traffic(
    layout: SharedLayout, element_bytes: int, axis: Axis, vector: int, piece: int, grid: tuple[int, int]
) -> Traffic:
    """Return ``copy_traffic`` for a grid of (rows, columns) threads, in pieces of ``piece`` elements."""
    offsets = layout.offsets() if axis == "cols" else layout.offsets().T
    across, along = offsets.shape
    rows, columns = grid
    starts = offsets[:, ::piece].astype(np.int64) * element_bytes
    rounds = starts.reshape(across // rows, rows, along // (columns * vector), columns, vector // piece)
    return _lane_traffic(rounds.transpose(0, 2, 4, 1, 3).reshape(-1, WARP), piece * element_bytes)


@lru_cache(maxsize=2**16)
def fragment_traffic(row: TensorIntrinsic, operand: OperandSide, layout: SharedLayout, element_bytes: int) -> Traffic:
    """Count the traffic of reading every fragment of an operand's tile into registers once, by one warp each.

    If the fragment has ``lane_loads``, lanes load their elements in that pattern, in vectors given by the Access;
    otherwise ldmatrix reads 8x8 matrices (instructions are counted as x4).

    Args:
        row: The instruction.
        operand: "a" or "b".
        layout: Layout of the tile in shared memory.
        element_bytes: Bytes per element.

    Raises:
        ValueError: If the instruction rejects the layout.
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
    """Return the traffic of ldmatrix.x1."""
    offsets = layout.offsets() if axis == "cols" else layout.offsets().T
    starts = offsets[:, ::vector].astype(np.int64) * element_bytes
    matrices = starts.reshape(starts.shape[0] // 8, 8, -1).transpose(0, 2, 1).reshape(-1, 8)
    return Traffic(len(matrices), int(ldmatrix_wavefronts(matrices).sum()), len(matrices))


@lru_cache(maxsize=2**16)
def _load_traffic(layout: SharedLayout, lanes: NestedLayout, element_bytes: int, vector: int) -> Traffic:
    """Return the traffic of loads of ``vector`` elements by the 32 lanes of every fragment of the tile.

    ``lanes`` is the distribution of elements to lanes.
    """
    held = _held(lanes)[:, ::vector]
    origins = np.indices([n // step for n, step in zip(layout.shape, lanes.shape, strict=True)])
    rows, cols = (
        (origins[d].ravel() * lanes.shape[d])[:, None, None] + held[..., d].T for d in (0, 1)
    )  # (fragments, loads, lanes)
    addresses = layout.offsets()[rows, cols].astype(np.int64) * element_bytes
    return _lane_traffic(addresses.reshape(-1, WARP), vector * element_bytes)


@lru_cache(maxsize=2**6)
def _held(lanes: NestedLayout) -> IntArray:
    """Return (row, column) of the fragment elements in each lane's registers, (lanes, elements, 2)."""
    held: IntArray = lanes.coordinates(1, WARP, replicate_threads=True)[0]
    return held


def _lane_traffic(addresses: IntArray, access_bytes: int) -> Traffic:
    units = _units(addresses, access_bytes)
    return Traffic(len(addresses), int(_per_warp(units).sum()), units.shape[0] * units.shape[1])
