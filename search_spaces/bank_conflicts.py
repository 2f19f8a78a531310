"""Bank conflicts of shared memory, counted from addresses.

Shared memory has 32 banks of 4 bytes; a bank serves one word per cycle, to every lane that wants it. A warp's access
is served in phases of 128 bytes: all 32 lanes for accesses of up to 4 bytes, 16 lanes at a time for 8 bytes, 8 lanes
at a time for 16 bytes (CUDA C++ Programming Guide, "Shared memory"; NVIDIA GTC 2018, S81006). In a phase, the cycles
("wavefronts") are the most distinct words that one bank has to serve. ldmatrix reads each 8x8 matrix in one phase of
eight 16-byte rows.

Addresses are bytes from a 128-byte boundary; -1 marks a lane that takes no part.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from search_spaces.intrinsics import WARP, Operand, Refusal, TensorIntrinsic, intrinsic
from search_spaces.shared_layout import Axis, SharedLayout

IntArray = npt.NDArray[np.int64]

BANKS = 32
BANK_BYTES = 4
PHASE_BYTES = BANKS * BANK_BYTES

_CHUNK = 2**15  # phases counted at a time: the arrays stay in the cache


def wavefronts(addresses: npt.ArrayLike, access_bytes: int) -> IntArray:
    """Cycles of warp accesses: ``addresses`` is (..., 32), the result (...); 0 where every lane is inactive.

    Raises ValueError unless addresses are -1 or multiples of ``access_bytes`` (1, 2, 4, 8 or 16).
    """
    return _total(_per_warp(_phases(addresses, access_bytes)))


def ideal_wavefronts(addresses: npt.ArrayLike, access_bytes: int) -> IntArray:
    """What ``wavefronts`` would be without conflicts: the phases in which a lane is active."""
    return _total(np.any(_phases(addresses, access_bytes) >= 0, axis=-1))


def conflict_degree(addresses: npt.ArrayLike, access_bytes: int) -> npt.NDArray[np.float64]:
    """``wavefronts`` over ``ideal_wavefronts``: 1 without conflicts (and where no lane is active), 32 at worst."""
    units = _phases(addresses, access_bytes)
    ideal = _total(np.any(units >= 0, axis=-1))
    return np.where(ideal > 0, _total(_per_warp(units)) / np.maximum(ideal, 1), 1.0)


def ldmatrix_wavefronts(row_addresses: npt.ArrayLike) -> IntArray:
    """Cycles of ldmatrix: ``row_addresses`` is (..., 8 * matrices) with 1, 2 or 4 matrices, the result (...).

    The ideal is the number of matrices. Raises ValueError unless every row is aligned to 16 bytes.
    """
    rows = np.asarray(row_addresses, dtype=np.int64)
    if rows.ndim == 0 or rows.shape[-1] not in (8, 16, 32):
        raise ValueError(f"ldmatrix takes 8, 16 or 32 row addresses, not shape {rows.shape}")
    if (rows < 0).any() or (rows & 15).any():
        raise ValueError("ldmatrix row addresses must be multiples of 16 bytes, of every lane that gives one")
    return _total(_per_warp((rows >> 4).reshape(*rows.shape[:-1], -1, 8)))


def _total(phases: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> IntArray:
    """Sum over the phases of each warp."""
    total: IntArray = np.asarray(phases.sum(axis=-1, dtype=np.int64))
    return total


def _phases(addresses: npt.ArrayLike, access_bytes: int) -> IntArray:
    """(..., phases, lanes of a phase): the number of the access-sized unit that each lane wants, or -1."""
    if access_bytes not in (1, 2, 4, 8, 16):
        raise ValueError(f"a lane accesses 1, 2, 4, 8 or 16 bytes, not {access_bytes!r}")
    lanes = np.asarray(addresses, dtype=np.int64)
    if lanes.ndim == 0 or lanes.shape[-1] != WARP:
        raise ValueError(f"addresses must end in an axis of {WARP} lanes, not shape {lanes.shape}")
    if (lanes < -1).any() or (((lanes & (access_bytes - 1)) != 0) & (lanes != -1)).any():
        raise ValueError(f"addresses must be multiples of {access_bytes} bytes, or -1 for an inactive lane")
    width = max(BANK_BYTES, access_bytes)
    return (lanes >> (width.bit_length() - 1)).reshape(*lanes.shape[:-1], -1, PHASE_BYTES // width)


def _per_warp(units: IntArray) -> IntArray:
    """Cycles of every phase, (..., lanes) -> (...).

    The unit of a lane is as wide as 128 bytes / lanes and aligned, so it fills neighbouring banks whole: counting
    distinct units per slot of that width is counting distinct words per bank.
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
    """The bank in which each element of the tile starts, (rows, cols)."""
    return layout.offsets().astype(np.int64) * element_bytes // BANK_BYTES % BANKS


# Accesses of a whole tile ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Traffic:
    """Warp instructions on shared memory, the cycles they take, and the cycles they would take without conflicts."""

    instructions: int
    wavefronts: int
    ideal: int

    @property
    def conflict_degree(self) -> float:
        return self.wavefronts / self.ideal

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(
            self.instructions + other.instructions, self.wavefronts + other.wavefronts, self.ideal + other.ideal
        )


@lru_cache(maxsize=2**16)
def copy_traffic(
    layout: SharedLayout, element_bytes: int, axis: Axis, vector: int, columns: int, threads: int
) -> Traffic:
    """Moving a whole tile between registers (or cp.async) and shared memory, each element once.

    Thread t stands at (t // columns, t % columns) of a grid whose columns run along ``axis``, the index that is
    contiguous in global memory; it moves ``vector`` neighbours along ``axis``, and the grid goes round-robin over the
    tile. Where the layout tears a vector apart, it is stored in the widest pieces that the layout keeps together.
    Raises ValueError unless warps are whole and the grid divides the tile.
    """
    offsets = layout.offsets() if axis == "cols" else layout.offsets().T
    across, along = offsets.shape
    if threads % WARP or threads % columns:
        raise ValueError(f"{threads} threads must be whole warps and a multiple of the {columns} columns")
    rows = threads // columns
    if across % rows or along % (columns * vector):
        raise ValueError(
            f"a grid of {rows}x{columns} threads with {vector} elements each does not divide {across}x{along} elements"
        )
    piece = min(vector, layout.contiguity(axis), 16 // element_bytes)
    starts = offsets[:, ::piece].astype(np.int64) * element_bytes
    rounds = starts.reshape(across // rows, rows, along // (columns * vector), columns, vector // piece)
    return _lane_traffic(rounds.transpose(0, 2, 4, 1, 3).reshape(-1, WARP), piece * element_bytes)


@lru_cache(maxsize=2**16)
def fragment_traffic(row: TensorIntrinsic, operand: Operand, layout: SharedLayout, element_bytes: int) -> Traffic:
    """Reading every fragment of an operand's tile into registers once, by one warp each.

    mma reads 8x8 matrices by ldmatrix (instructions are counted as x4), fma as its Access says. What wmma.load does
    is not specified; nvcc 13 for sm_80 and sm_90 turns it into ldmatrix for 16-bit types, and for tf32 into 4-byte
    loads in the pattern of mma.m16n8k8, which is what is counted here. Raises ValueError if the intrinsic refuses the
    layout.
    """
    access = row.requirement(operand, layout, element_bytes)
    if isinstance(access, Refusal):
        raise ValueError(access.reason)
    if row.unit == "mma" or (row.unit == "wmma" and row.operand != "tf32"):
        return _ldmatrix_traffic(layout, access.axis, access.vector, element_bytes)
    if row.unit == "wmma":
        positions, fragment = _wmma_tf32_positions(operand), row.fragment(operand).shape
        return _load_traffic(layout, positions, fragment, element_bytes, 1)
    held = row.fragment(operand)
    rows, cols = (index[:, :: access.vector] for index in held.positions)
    return _load_traffic(layout, (rows, cols), held.shape, element_bytes, access.vector)


def _ldmatrix_traffic(layout: SharedLayout, axis: Axis, vector: int, element_bytes: int) -> Traffic:
    offsets = layout.offsets() if axis == "cols" else layout.offsets().T
    starts = offsets[:, ::vector].astype(np.int64) * element_bytes
    matrices = starts.reshape(starts.shape[0] // 8, 8, -1).transpose(0, 2, 1).reshape(-1, 8)
    cycles = int(ldmatrix_wavefronts(matrices).sum())
    return Traffic(-(-len(matrices) // 4), cycles, len(matrices))


def _wmma_tf32_positions(operand: Operand) -> tuple[IntArray, IntArray]:
    mma = intrinsic("mma_m16n8k8_tf32")
    rows, cols = mma.fragment(operand).positions
    if operand == "a":
        return rows, cols
    return np.concatenate([rows, rows], axis=1), np.concatenate([cols, cols + mma.n], axis=1)


def _load_traffic(
    layout: SharedLayout,
    positions: tuple[IntArray, IntArray],
    fragment: tuple[int, int],
    element_bytes: int,
    vector: int,
) -> Traffic:
    """Loads of ``vector`` elements at ``positions`` (32 lanes, loads) of every fragment of the tile."""
    origins_row, origins_col = (np.arange(0, size, step) for size, step in zip(layout.shape, fragment, strict=True))
    rows = positions[0].T + origins_row[:, None, None, None]
    cols = positions[1].T + origins_col[:, None, None]
    addresses = layout.offsets()[rows, cols].astype(np.int64) * element_bytes
    return _lane_traffic(addresses.reshape(-1, WARP), vector * element_bytes)


def _lane_traffic(addresses: IntArray, access_bytes: int) -> Traffic:
    units = _phases(addresses, access_bytes)
    return Traffic(len(addresses), int(_per_warp(units).sum()), units.shape[0] * units.shape[1])
