"""Four-bit weights in the packed order of ``quantized_matmul``, and conversion from checkpoints.

For each 64 numbers of a row, word c stores number 16 e + 2 c + h at bit 4 e + 16 h, for e from 0 to 3 and h 0 or 1. The
two numbers of a pair are 16 bits apart, so that one mask and one exponent convert both to 16-bit numbers.
"""

from __future__ import annotations

import numpy as np

from search_spaces.arrays import Array, IntArray
from search_spaces.layouts.memory_order import FRAGMENT_BYTES, FRAGMENT_WORDS

SPAN = 64  # count of numbers in a span: the part of a row that is packed together in eight words
_WORDS, _STEPS = 8, 4
_AWQ_POSITIONS = [0, 4, 1, 5, 2, 6, 3, 7]  # AWQ: positions of columns 0 to 7 among the eight numbers of a word


def pack_int4(weights: Array) -> IntArray:
    """Pack four-bit numbers into 32-bit words.

    Args:
        weights: (n, k) or (matrices, n, k) integers from 0 to 15, with k a multiple of 64; a row per column of the
            result.

    Returns:
        (n, k / 8) of int32, or the packed matrices.

    Raises:
        ValueError: Another shape, or numbers outside 0 to 15.
    """
    values = np.asarray(weights)
    if values.ndim not in (2, 3) or values.shape[-1] % SPAN:
        raise ValueError(f"weights must be (n, k) with k a multiple of {SPAN}, not {values.shape}")
    if values.size and (values.min() < 0 or values.max() > 15):
        raise ValueError("weights must be whole numbers from 0 to 15")
    *rows, k = values.shape
    parts = values.astype(np.uint32).reshape(*rows, k // SPAN, _STEPS, _WORDS, 2)
    shifts = 4 * np.arange(_STEPS, dtype=np.uint32)[:, None, None] + 16 * np.arange(2, dtype=np.uint32)
    words = np.bitwise_or.reduce(np.bitwise_or.reduce(parts << shifts, axis=-1), axis=-2)
    packed: IntArray = np.asarray(words, dtype=np.uint32).reshape(*rows, k // _WORDS).view(np.int32)
    return packed


def unpack_int4(words: Array) -> IntArray:
    """Return the (n, k) numbers from 0 to 15 that ``pack_int4`` packed into ``words`` (n, k / 8)."""
    n, count = words.shape
    shifts = 4 * np.arange(_STEPS, dtype=np.uint32)[:, None, None] + 16 * np.arange(2, dtype=np.uint32)
    spans = np.asarray(words, dtype=np.int32).view(np.uint32).reshape(n, count // _WORDS, 1, _WORDS, 1)
    return (spans >> shifts & np.uint32(15)).reshape(n, count * _WORDS).astype(np.int32)


def pack_fragments(weights: Array) -> Array:
    """Reorder weights so that each thread of a product loads its own operands with 16-byte loads.

    Args:
        weights: (n, k / 8) of int32 from ``pack_int4``, or (n, k) of an 8-bit type, k a multiple of 64; or several such
            matrices.

    Returns:
        One row per 16 rows of weights, with the bytes of these rows; rows beyond n are zero.

    Raises:
        ValueError: Another shape or type.
    """
    order = {4: FRAGMENT_WORDS, 1: FRAGMENT_BYTES}.get(weights.dtype.itemsize)
    if order is None or weights.ndim not in (2, 3) or weights.shape[-1] % order.columns:
        raise ValueError(
            f"weights must be (n, k / 8) of int32 or (n, k) of 8 bits, k a multiple of {SPAN}, not {weights.shape} of "
            f"{weights.dtype}"
        )
    if weights.ndim == 3:
        return np.stack([pack_fragments(matrix) for matrix in weights])
    n, columns = weights.shape
    whole = np.zeros((-(-n // order.rows) * order.rows, columns), weights.dtype)
    whole[:n] = weights
    return order.pack(whole)


def int4_from_awq(qweight: Array, qzeros: Array, scales: Array) -> tuple[IntArray, Array, Array]:
    """Repack the weights of a linear layer of an AWQ checkpoint (4 bits, "gemm" version).

    Args:
        qweight: (k, n / 8) of int32.
        qzeros: (k / group, n / 8) of int32.
        scales: (k / group, n) of float16.

    Returns:
        Weights (n, k / 8) of int32, the scales, and zero points (k / group, n) of uint8.

    Raises:
        ValueError: Inconsistent shapes.
    """
    _check("AWQ", scales, qweight.shape[1] * 8, qzeros.shape == (scales.shape[0], qweight.shape[1]))
    weights, zeros = (_columns(words)[:, :, _AWQ_POSITIONS].reshape(len(words), -1) for words in (qweight, qzeros))
    return pack_int4(weights.T), np.asarray(scales), _zeros(zeros)


def int4_from_gptq(
    qweight: Array, qzeros: Array, scales: Array, g_idx: Array | None = None, *, stored_zero: int = 1
) -> tuple[IntArray, Array, Array]:
    """Repack the weights of a linear layer of a GPTQ checkpoint (4 bits).

    Args:
        qweight: (k / 8, n) of int32.
        qzeros: (k / group, n / 8) of int32.
        scales: (k / group, n) of float16.
        g_idx: (k,), the group of each row; None if groups are in order.
        stored_zero: Offset of stored zero points: 1 in checkpoint format "gptq", 0 in "gptq_v2".

    Returns:
        Weights (n, k / 8) of int32, the scales, and zero points (k / group, n) of uint8.

    Raises:
        ValueError: Inconsistent shapes, or groups out of order (desc_act): sort rows, and columns of x, by group first.
    """
    k = qweight.shape[0] * 8
    _check("GPTQ", scales, qweight.shape[1], qzeros.shape == (scales.shape[0], qweight.shape[1] // 8))
    if g_idx is not None and not np.array_equal(np.asarray(g_idx), np.arange(k) // (k // scales.shape[0])):
        raise ValueError("g_idx must list groups in order: sort the rows of qweight and the columns of x by g_idx")
    words = np.asarray(qweight, dtype=np.int32).view(np.uint32)
    rows = words[:, None, :] >> (4 * np.arange(8, dtype=np.uint32))[:, None] & np.uint32(15)
    zeros = _columns(qzeros).reshape(len(qzeros), -1) + stored_zero
    return pack_int4(rows.reshape(k, -1).T), np.asarray(scales), _zeros(zeros)


def _columns(words: Array) -> IntArray:
    """Return the eight four-bit numbers of each word as (rows, words, 8), lowest bits first."""
    stored = np.asarray(words, dtype=np.int32).view(np.uint32)
    numbers = stored[:, :, None] >> (4 * np.arange(8, dtype=np.uint32)) & np.uint32(15)
    return numbers.astype(np.int64)


def _zeros(zeros: Array) -> Array:
    """Return zero points as uint8. Raises ValueError if they exceed 15."""
    if zeros.max(initial=0) > 15:
        raise ValueError("a zero point of 16 does not fit into four bits: the checkpoint has another format")
    return zeros.astype(np.uint8)


def _check(kind: str, scales: Array, columns: int, fits: bool) -> None:
    if not fits or scales.shape[1] != columns:
        raise ValueError(
            f"qweight, qzeros and scales have inconsistent shapes: give the arrays of one {kind} layer of 4 bits"
        )
