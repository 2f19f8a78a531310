"""Tensor intrinsics as data rows, including rows of other packages.

A new instruction needs a row in this module, and a ``.cuh`` file with the C++ type that the row names. A new kind of
instruction also needs a row in ``units``. No other code depends on particular instructions. Another package adds rows
by an entry point of the group ``autosched.intrinsics``. The entry point is a TensorIntrinsic, a list of
TensorIntrinsics, or a function without arguments that returns either.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

from search_spaces.hardware.block_scaling import BLOCK_FORMATS, FACTOR_DTYPES
from search_spaces.hardware.devices import Device
from search_spaces.hardware.dtypes import dtype
from search_spaces.hardware.fragments import Fragment
from search_spaces.hardware.requirements import AlignedRows, AnyLayout, LeadingDimension
from search_spaces.hardware.tensor_intrinsic import TensorIntrinsic
from search_spaces.installed import load_offers
from search_spaces.layouts.nested_layout import NestedLayout

ENTRY_POINTS = "autosched.intrinsics"

# rows -----------------------------------------------------------------------------------------------------------------


def _distribution(
    outer: tuple[int, int], thread: tuple[int, int], element: tuple[int, int], strides: tuple[int, int]
) -> NestedLayout:
    return NestedLayout((1, 1), (1, 1), outer, thread, element, (0, 0), strides)


def _fma(lanes_m: int, lanes_n: int, each: int) -> TensorIntrinsic:
    """Return a row of fma for lanes_m x lanes_n lanes (n fastest).

    Each lane computes ``each`` x ``each`` adjacent results.
    """
    m, n = lanes_m * each, lanes_n * each
    a = _distribution((1, 1), (lanes_m, 1), (each, 1), (lanes_n, 0))
    b = _distribution((1, 1), (1, lanes_n), (1, each), (0, 1))
    c = Fragment((m, n), each * each, _distribution((1, 1), (lanes_m, lanes_n), (each, each), (lanes_n, 1)))
    cpp = f"autosched::Fma<{{a}}, {lanes_m}, {lanes_n}, {each}, {each}>"
    left, right = Fragment((m, 1), each, a, lane_loads=a), Fragment((1, n), each, b, lane_loads=b)
    return TensorIntrinsic("fma", "f32", "f32", left, right, c, AnyLayout(each), "", each * each, 1, cpp)


_C_MMA = _distribution((2, 1), (8, 4), (1, 2), (4, 1))  # PTX ISA, "Matrix fragments for mma.m16n8k16"


def _wmma(kind: str, needs: str, a: Fragment, b: Fragment) -> TensorIntrinsic:
    """Return a row of wmma.mma m16n16, which a warp executes as two instructions of m16n8."""
    c = Fragment((16, 16), 8)
    return TensorIntrinsic("wmma", kind, kind, a, b, c, LeadingDimension(), needs, 2, 8, "autosched::Wmma<{a}>")


def _mma(kind: str, a: Fragment, b: Fragment) -> TensorIntrinsic:
    c = Fragment((16, 8), 4, _C_MMA)
    return TensorIntrinsic("mma", kind, kind, a, b, c, AlignedRows(), "mma_k16", 1, 4, "autosched::MmaSync<{a}>")


def _mma_in_f16(a: Fragment, b: Fragment) -> TensorIntrinsic:
    """Return a row of mma.sync with f16 accumulators, two per register of c.

    The two accumulators are adjacent in a row of c. The lower half of the register has the lower column (PTX ISA, the
    same section).
    """
    c, k = Fragment((16, 8), 2, _C_MMA), a.shape[1]
    cpp = f"autosched::MmaSync<{{a}}, autosched::f16x2, {k}>"
    return TensorIntrinsic(
        "mma", "f16", "f16", a, b, c, AlignedRows(), "" if k == 8 else "mma_k16", 1, 2, cpp, f16_sums=True
    )


def _mma_8_bit(kind: str, needs: str) -> TensorIntrinsic:
    """Return a row of mma.sync for 8-bit types, with four adjacent elements along k per register."""
    a = Fragment(
        (16, 32),
        4,
        _distribution((2, 2), (8, 4), (1, 4), (4, 1)),
        (*range(4), *range(8, 12), *range(4, 8), *range(12, 16)),
    )
    b = Fragment((32, 8), 2, _distribution((2, 1), (4, 8), (4, 1), (1, 4)))
    c = Fragment((16, 8), 4, _C_MMA)
    header = "autosched/intrinsics/mma_8_bit.cuh"
    cpp = "autosched::Mma8Bit<{a}>"
    return TensorIntrinsic("mma", kind, kind, a, b, c, AlignedRows(), needs, 1, 4, cpp, header=header)


def _mma_block_scaled(name: str) -> TensorIntrinsic:
    """Return a row of block-scaled mma.sync. A stored element holds one or two numbers.

    The fragments are the same as for 8-bit types (PTX ISA, "Matrix fragments for mma.m16n8k64").
    """
    of_8_bit, row = _mma_8_bit("e4m3", ""), BLOCK_FORMATS[name]
    cpp = f"autosched::MmaBlockScaled<{{a}}, {32 * row.element.values // row.block}>"
    header = "autosched/intrinsics/mma_block_scaled.cuh"
    return replace(of_8_bit, type_a=name, type_b=name, needs="block_scale_mma", cpp=cpp, header=header)


def _mma_unit_scales(kind: str) -> TensorIntrinsic:
    cpp, header = "autosched::MmaUnitScaled<{a}>", "autosched/intrinsics/mma_block_scaled.cuh"
    return replace(_mma_8_bit(kind, "block_scale_mma"), unit_scales=True, cpp=cpp, header=header)


# PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type": group g = lane / 4, t = lane % 4;
# a0 a1: (g, 2t..), a2 a3: (g+8, 2t..), a4 a5: (g, 2t+8..), a6 a7: (g+8, 2t+8..); b0 b1: (2t.., g), b2 b3: (2t+8.., g).
# The NestedLayout has (g, 2t+8..) before (g+8, 2t..), so a register order is needed.
_A_16_BIT = Fragment((16, 16), 4, _distribution((2, 2), (8, 4), (1, 2), (4, 1)), (0, 1, 4, 5, 2, 3, 6, 7))
_B_16_BIT = Fragment((16, 8), 2, _distribution((2, 1), (4, 8), (2, 1), (1, 4)))
# Fragments of m16n8k8, which are halves of the fragments of m16n8k16: a0 a1: (g, 2t..), a2 a3: (g+8, 2t..); b0 b1:
# (2t.., g).
_A_16_BIT_K8 = Fragment((16, 8), 2, _distribution((2, 1), (8, 4), (1, 2), (4, 1)))
_B_16_BIT_K8 = Fragment((8, 8), 1, _distribution((1, 1), (4, 8), (2, 1), (1, 4)))

_TURING_HEADER = "autosched/intrinsics/mma_turing.cuh"


def _turing(kind: str, a: Fragment, b: Fragment, instructions: int, cpp: str) -> TensorIntrinsic:
    """Return a row for sm_75, which computes m16n8k16 of i8 as two m8n8k16 instructions of eight rows each."""
    c = Fragment((16, 8), 4, _C_MMA)
    return TensorIntrinsic(
        "mma", kind, kind, a, b, c, AlignedRows(), "", instructions, 4, cpp, header=_TURING_HEADER, until="mma_k16"
    )


# PTX ISA, "Matrix fragments for mma.m16n8k16" (.s8): a0..a3: (g, 4t..), a4..a7: (g+8, 4t..); b0..b3: (4t.., g).
_A_8_BIT_K16 = Fragment((16, 16), 2, _distribution((2, 1), (8, 4), (1, 4), (4, 1)))
_B_8_BIT_K16 = Fragment((16, 8), 1, _distribution((1, 1), (4, 8), (4, 1), (1, 4)))

# PTX ISA, "Matrix fragments for mma.m16n8k8" (.tf32): a0: (g, t), a1: (g+8, t), a2: (g, t+4), a3: (g+8, t+4);
# b0: (t, g), b1: (t+4, g).
_A_TF32 = _distribution((2, 2), (8, 4), (1, 1), (4, 1))
_B_TF32 = _distribution((2, 1), (4, 8), (1, 1), (1, 4))
# The access pattern of wmma.load is unspecified. For sm_80 and sm_90, nvcc 13 uses ldmatrix for 16-bit types. For tf32
# it uses loads of single elements, in the pattern of mma.m16n8k8; b has the pattern of two such instructions.
_B_WMMA_TF32 = _distribution((2, 2), (4, 8), (1, 1), (1, 4))

INTRINSICS: dict[str, TensorIntrinsic] = {
    row.name: row
    for row in (
        _fma(4, 8, 4),
        _fma(8, 4, 4),
        _fma(8, 4, 1),
        _wmma("f16", "", Fragment((16, 16), 8), Fragment((16, 16), 8)),
        _wmma("bf16", "mma_k16", Fragment((16, 16), 4), Fragment((16, 16), 4)),
        _wmma(
            "tf32", "mma_k16", Fragment((16, 8), 4, lane_loads=_A_TF32), Fragment((8, 16), 4, lane_loads=_B_WMMA_TF32)
        ),
        _mma("f16", _A_16_BIT, _B_16_BIT),
        _mma("bf16", _A_16_BIT, _B_16_BIT),
        _mma_in_f16(_A_16_BIT, _B_16_BIT),
        _mma_in_f16(_A_16_BIT_K8, _B_16_BIT_K8),
        _mma("tf32", Fragment((16, 8), 4, _A_TF32, (0, 2, 1, 3)), Fragment((8, 8), 2, _B_TF32)),
        _mma_8_bit("i8", "mma_k16"),
        _mma_8_bit("e4m3", "fp8_mma"),
        _mma_8_bit("e5m2", "fp8_mma"),
        *(_mma_block_scaled(name) for name in BLOCK_FORMATS),
        _mma_unit_scales("e4m3"),
        _mma_unit_scales("e5m2"),
        _turing("f16", _A_16_BIT_K8, _B_16_BIT_K8, 1, "autosched::MmaTuringF16"),
        _turing("i8", _A_8_BIT_K16, _B_8_BIT_K16, 2, "autosched::MmaTuringI8"),
    )
}


@cache
def _known() -> dict[str, TensorIntrinsic]:
    """Return all rows. Rows of other packages are loaded at the first call."""
    known = dict(INTRINSICS)

    def add(offered: TensorIntrinsic | Iterable[TensorIntrinsic]) -> None:
        for row in (offered,) if isinstance(offered, TensorIntrinsic) else tuple(offered):
            _add(known, row)

    load_offers(ENTRY_POINTS, "tensor intrinsics", add)
    return known


def _add(known: dict[str, TensorIntrinsic], row: TensorIntrinsic) -> None:
    if not isinstance(row, TensorIntrinsic):
        raise ValueError(f"a registered intrinsic must be a TensorIntrinsic, not {row!r}")
    if known.get(row.name, row) != row:
        raise ValueError(f"another tensor intrinsic is already called {row.name!r}: change its fragments or types")
    known[row.name] = row


def register_intrinsic(row: TensorIntrinsic) -> None:
    """Add a row for schedules of this process. Call this before building a space that should include the row.

    Registering the same row again has no effect.

    Raises:
        ValueError: The name is already used, or ``row`` is not a TensorIntrinsic.
    """
    _add(_known(), row)


def intrinsic(name: str) -> TensorIntrinsic:
    """Return the row with this name. Raises ValueError, which lists the known names."""
    if name not in _known():
        raise ValueError(f"unknown tensor intrinsic {name!r}: use one of {', '.join(_known())}")
    return _known()[name]


def intrinsics_for(
    a: str, tf32: bool, b: str = "", *, acc: str = "", device: Device | None = None
) -> tuple[TensorIntrinsic, ...]:
    """Return the rows that multiply arrays of the given types.

    Args:
        a: Storage type of the left factor.
        tf32: True if f32 may be rounded to tf32; no effect on other types.
        b: Storage type of the right factor; "" for the type of ``a``.
        acc: "f16" for rows that accumulate in f16. Other values select rows that accumulate in f32 or i32.
        device: Superseded rows are only included if this device lacks the wider instruction. If None, they are
            never included.

    Raises:
        ValueError: A type is unknown.
    """
    left, right = a, b or a
    for name in (left, right):
        dtype(name, FACTOR_DTYPES)
    return tuple(
        row
        for row in _known().values()
        if left in row.stored("a")
        and right in row.stored("b")
        and (tf32 or not row.rounds)
        and row.f16_sums == (acc == "f16")
        and not (row.until and (device is None or device.has(row.until)))
    )
