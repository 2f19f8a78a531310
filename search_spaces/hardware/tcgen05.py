"""Intrinsics of tcgen05.mma, which multiplies operands from shared memory and accumulates in tensor memory.

One thread multiplies 128 x k by k x n elements for its block, or 256 x k by k x n for a pair of blocks. In a pair, each
block has half of the rows of a and half of the columns of b (PTX ISA 9.7.16.10). Operands are boxes as for wgmma. The
matrix descriptors of tcgen05 and wgmma differ by one bit.
"""

from __future__ import annotations

from functools import lru_cache

from search_spaces.hardware.block_scaling import BLOCK_FORMATS, FACTOR_DTYPES
from search_spaces.hardware.fragments import WARP, Fragment
from search_spaces.hardware.tensor_intrinsic import STORED, TensorIntrinsic
from search_spaces.hardware.wgmma import K_BYTES, SwizzledBoxes
from search_spaces.layouts.nested_layout import NestedLayout

ROWS = 128  # rows of a, and of the sums, per block; each row of the sums is in one lane of tensor memory
LANES = 4 * WARP  # lanes of tensor memory
COLUMNS = 512  # columns of tensor memory, of 32 bits
SCALE_LINES = 128  # lines of a block-scaled operand whose scales are copied together; each line has four scales
SCALE_COLUMNS = 4  # columns of tensor memory for the scales of SCALE_LINES lines
SCALE_BYTES = 512  # bytes of shared memory for the scales of SCALE_LINES lines
ALLOCATION = 32  # smallest allocation in columns; an allocation must be a power of two
KINDS = ("f16", "bf16", "tf32", "e4m3", "e5m2", "i8", *BLOCK_FORMATS)


def n_of(kind: str, blocks: int) -> tuple[int, ...]:
    """Return the possible n for 128 rows per block: multiples of 16, or of 32 for integers in a pair of blocks."""
    return tuple(range(16, 257, 16)) if blocks == 1 or kind != "i8" else tuple(range(32, 257, 32))


@lru_cache(maxsize=256)
def tcgen05_row(kind: str, m: int, n: int) -> TensorIntrinsic:
    """Return the intrinsic ``tcgen05_m128n256k16_bf16`` for operands of type ``kind``.

    The intrinsic accumulates in f32, or in i32 for i8. m = 256 selects the instruction for a pair of blocks.

    Raises:
        ValueError: There is no instruction for the type, m or n.
    """
    if kind not in KINDS:
        raise ValueError(f"tcgen05 multiplies {', '.join(KINDS)}, not {kind!r}")
    if m not in (ROWS, 2 * ROWS) or n not in n_of(kind, m // ROWS):
        raise ValueError(f"tcgen05 of {kind} does not support m = {m} with n = {n}")
    k = K_BYTES // FACTOR_DTYPES[STORED.get(kind, kind)].bytes
    # Each row of the sums is in one lane of tensor memory, which one thread reads.
    sums = NestedLayout((m // WARP, 1), (1, 1), (1, 1), (WARP, 1), (1, n), (1, 0), (1, 0))
    return TensorIntrinsic(
        unit="tcgen05",
        type_a=kind,
        type_b=kind,
        a=Fragment((m, k), 0),
        b=Fragment((k, n), 0),
        c=Fragment((m, n), n, sums, lanes=m),
        load=SwizzledBoxes(),
        needs="tcgen05_i8" if kind == "i8" else "tcgen05",
        instructions=1,
        results=n,
        cpp="autosched::Tcgen05Type<{a}>",
        header="autosched/intrinsics/tcgen05.cuh",
    )
