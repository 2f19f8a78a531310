"""Tensor intrinsics as data rows: what one instruction multiplies, who holds what, and all that depends on it.

Operand A is a (m, k) tile, B a (k, n) tile, C and D are (m, n); a SharedLayout of an operand has the shape of that
operand's tile. Whether an intrinsic can load an operand is decided by evaluating the layout function against the
row's requirement. A new instruction is a row here (a new kind of them a row of ``units`` too) and a ``.cuh`` with the
C++ type that the row names; no other code depends on which instruction it is. Another package adds its own rows by an
entry point of the group ``autosched.intrinsics``: it names a TensorIntrinsic, a list of them, or a function without
arguments that returns one of these.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import FloatArray
from search_spaces.hardware.architectures import FEATURES
from search_spaces.hardware.block_scaling import BLOCK_FORMATS, FACTOR_DTYPES, UNIT_SCALED_AS, BlockFormat
from search_spaces.hardware.devices import Device
from search_spaces.hardware.dtypes import MULTIPLIED_DTYPES, dtype, round_to_tf32
from search_spaces.hardware.fragments import Fragment
from search_spaces.hardware.requirements import (
    Access,
    AlignedRows,
    AnyLayout,
    LeadingDimension,
    OperandSide,
    Refusal,
    Requirement,
)
from search_spaces.hardware.units import unit
from search_spaces.installed import load_offers
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.shared_layout import SharedLayout

Sums = npt.NDArray[Any]  # of f32 or f16, or of i32 where i8 is multiplied

ENTRY_POINTS = "autosched.intrinsics"
STORED = {"tf32": "f32"}  # multiplied types that arrays do not have, and the type that they are rounded from


@dataclass(frozen=True)
class TensorIntrinsic:
    """One way to multiply fragments: d = a @ b + c with exact products, accumulated in f32 or f16, or in i32 for i8.

    - ``unit``: the name of the unit that multiplies, see ``units``.
    - ``type_a``, ``type_b``: the types that it multiplies ("f16", "bf16", "tf32", "f32", "e4m3", "e5m2", "i8", and
      the block-scaled "mxf8", "mxf4" and "nvf4", whose fragments count stored elements).
    - ``halves``: it accumulates in f16, two sums to a register.
    - ``unit_scales``: it multiplies 8-bit floats as mxf8 whose scales are one.
    - ``a``, ``b``, ``c``: the fragments; ``load``: how a and b are read from shared memory.
    - ``needs``: the feature of an architecture that it belongs to (``architectures.FEATURES``), "" where all have it;
      ``until``: the feature with which a wider instruction takes its place.
    - ``instructions``: machine instructions that a warp issues for one multiplication of fragments; ``results``:
      registers of accumulators of a lane that one statement of the kernel's unrolled body updates.
    - ``cpp``: the C++ type that implements it, "{a}" and "{b}" standing for the types of the arrays; ``header``: what
      declares it, where kernels do not include that anyway, and ``text`` what that header says, in another package.

    Raises ValueError where the fields contradict each other.
    """

    unit: str
    type_a: str
    type_b: str
    a: Fragment
    b: Fragment
    c: Fragment
    load: Requirement
    needs: str
    instructions: int
    results: int
    cpp: str
    header: str = ""
    text: str = field(default="", repr=False)
    halves: bool = False
    until: str = ""
    unit_scales: bool = False

    def __post_init__(self) -> None:
        row = unit(self.unit)
        if self.b.shape[0] != self.k or self.c.shape != (self.m, self.n):
            raise ValueError(
                f"{self.name}: fragments of {self.a.shape}, {self.b.shape} and {self.c.shape} do not fit a @ b + c"
            )
        sums = "f16" if self.halves else "f32"
        for which, fragment, kind in (("a", self.a, self.type_a), ("b", self.b, self.type_b), ("c", self.c, sums)):
            if kind not in (*FACTOR_DTYPES, *STORED):
                known = ", ".join((*FACTOR_DTYPES, *STORED))
                raise ValueError(f"{self.name}: type_{which} must be one of {known}, not {kind!r}")
            if fragment.layout is None:
                if fragment.registers and not row.opaque:
                    raise ValueError(f"{self.name}: fragment {which} needs a layout; only opaque units have none")
                continue
            bits = 8 * dtype(STORED.get(kind, kind), FACTOR_DTYPES).bytes
            if fragment.values * bits != fragment.registers * 32:
                raise ValueError(
                    f"{self.name}: fragment {which} holds {fragment.values} values of {bits} bits in a lane, "
                    f"which is not {fragment.registers} registers"
                )
        if self.c.layout is not None and self.c.holders != 1:
            raise ValueError(f"{self.name}: fragment c must have one holder for every element, not {self.c.holders}")
        if self.halves and (self.type_a, self.type_b) != ("f16", "f16"):
            raise ValueError(f"{self.name}: only products of f16 are added up in f16 (PTX ISA, mma and wgmma)")
        for feature in (self.needs, self.until):
            if feature and feature not in FEATURES:
                raise ValueError(f"{self.name}: unknown feature {feature!r}: use one of {', '.join(FEATURES)}")
        if self.text and not self.header:
            raise ValueError(f"{self.name}: a text needs the name of its header")
        if self.instructions < 1 or self.results < 1:
            raise ValueError(f"{self.name}: instructions and results must be at least 1")

    def __hash__(self) -> int:
        # The rows are keys of caches that every rule reads, so their fragments are not hashed each time.
        return hash((self.unit, self.a.shape, self.b.shape, self.type_a, self.type_b, self.halves, self.unit_scales))

    @property
    def m(self) -> int:
        return self.a.shape[0]

    @property
    def n(self) -> int:
        return self.b.shape[1]

    @property
    def k(self) -> int:
        return self.a.shape[1]

    @property
    def numbers(self) -> int:
        """Numbers along k that are multiplied: ``k`` but where a stored element holds several."""
        row = self.scales
        return self.k * (row.element.values if row else 1)

    @property
    def scales(self) -> BlockFormat | None:
        """The format of a and b whose blocks along k it scales; None for other types."""
        return BLOCK_FORMATS.get(self.type_a)

    @property
    def scales_of_row(self) -> int:
        """Scales of a row of a fragment of a, as many as of a column of b; 0 where no blocks are scaled."""
        return self.numbers // self.scales.block if self.scales else 0

    @property
    def name(self) -> str:
        """``mma_m16n8k16_f16``; CUDA cores convert what they multiply, so their rows name no type. The type of the sums
        follows where it is f16: ``mma_m16n8k16_f16_f16``; and what multiplies by scales of one says so."""
        types = dict.fromkeys((self.type_a, self.type_b)) if unit(self.unit).tensor else ()
        return "_".join(
            (
                self.unit,
                f"m{self.m}n{self.n}k{self.numbers}",
                *types,
                *(("f16",) if self.halves else ()),
                *(("unit_scales",) if self.unit_scales else ()),
            )
        )

    @property
    def rated_as(self) -> str:
        """What is multiplied, as ``Device.tensor_rate`` calls it."""
        return UNIT_SCALED_AS if self.unit_scales else f"{self.type_a}_f16" if self.halves else self.type_a

    @property
    def rounds(self) -> bool:
        """Whether operands lose bits on their way to the unit (f32 to tf32)."""
        return self.type_a in STORED or self.type_b in STORED

    def fragment(self, operand: OperandSide) -> Fragment:
        return self.a if operand == "a" else self.b

    def stored(self, operand: OperandSide) -> tuple[str, ...]:
        """Return the types of arrays that it accepts as they lie in memory: the one that is multiplied, or on CUDA
        cores all, which are converted on the way to registers."""
        kind = self.type_a if operand == "a" else self.type_b
        return (STORED.get(kind, kind),) if unit(self.unit).tensor else tuple(MULTIPLIED_DTYPES)

    def c_name(self, a: str, b: str) -> str:
        """Return the C++ type for arrays of the C++ types ``a`` and ``b``."""
        return self.cpp.format(a=a, b=b)

    def flops_per_cycle(self, device: Device) -> float:
        """Flops per cycle that one SM reaches with it. Raises ValueError where ``device`` has no rate for its types."""
        return unit(self.unit).flops_per_cycle(device, self.rated_as)

    def why_not(self, device: Device) -> str | None:
        """Return the reason why ``device`` does not have the instruction, or None."""
        if device.has(self.needs):
            return None
        return f"{self.name} needs {FEATURES[self.needs].since}, but {device.name} is {device.arch}"

    def requirement(self, operand: OperandSide, layout: SharedLayout, element_bytes: int) -> Access | Refusal:
        """How this intrinsic reads ``operand`` from a tile laid out by ``layout`` (A: (m, k), B: (k, n)), or why not.

        Raises ValueError if no type that the intrinsic accepts has ``element_bytes`` bytes.
        """
        return _requirement(self, operand, layout, element_bytes)

    def reference(self, a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike) -> Sums:
        """Return d = a @ b + c for a (..., m, k), b (..., k, n), c (..., m, n).

        a and b are rounded to the types that are multiplied (tf32: nearest, ties away); products are exact in float64,
        and each is added to an f32 accumulator in the order of k. Hardware adds the products of one instruction in an
        order, and with a truncation, that the PTX ISA leaves open. Sums in f16 are rounded to it once, at the end, as
        tensor cores do (Fasi, Higham, Mikaitis and Pranesh, PeerJ Computer Science 7:e330). Sums of i8 are exact, and
        wrap around in i32. Block-scaled types have scales of one here, and a and b ``numbers`` along k.
        """
        left = _multiplied(self.type_a, a)
        right = _multiplied(self.type_b, np.swapaxes(b, -1, -2)).swapaxes(-1, -2)  # elements of several lie along k
        whole = self.type_a == "i8"
        d: Sums = np.asarray(c, dtype=np.int32 if whole else np.float16 if self.halves else np.float32)
        shapes = (self.m, self.numbers), (self.numbers, self.n), self.c.shape
        if (left.shape[-2:], right.shape[-2:], d.shape[-2:]) != shapes:
            raise ValueError(
                f"{self.name}: operands must end in {shapes[0]}, {shapes[1]}, {shapes[2]}, "
                f"not {left.shape}, {right.shape}, {d.shape}"
            )
        if whole:
            return (d + (left @ right).astype(np.int64)).astype(np.int32)
        d = d.astype(np.float32)
        for k in range(self.numbers):
            d = (d + left[..., :, k, None] * right[..., k, None, :]).astype(np.float32)
        if not self.halves:
            return d
        with np.errstate(over="ignore"):  # beyond 65504 there is infinity
            return d.astype(np.float16)


def _multiplied(kind: str, values: npt.ArrayLike) -> FloatArray:
    """``values`` as the unit multiplies them."""
    if kind == "tf32":
        return round_to_tf32(values).astype(np.float64)
    of = dtype(kind, FACTOR_DTYPES)
    return of.load(of.store(values))


@lru_cache(maxsize=2**16)
def _requirement(
    intrinsic: TensorIntrinsic, operand: OperandSide, layout: SharedLayout, element_bytes: int
) -> Access | Refusal:
    stored = intrinsic.stored(operand)
    if element_bytes not in {FACTOR_DTYPES[name].bytes for name in stored}:
        raise ValueError(f"{intrinsic.name} reads {' or '.join(stored)}, not elements of {element_bytes} bytes")
    fragment = intrinsic.fragment(operand)
    rows, cols = fragment.shape
    # Without registers the instruction reads shared memory itself, and its requirement speaks of whole boxes.
    if fragment.registers and (layout.shape[0] % rows or layout.shape[1] % cols):
        return Refusal(
            f"{intrinsic.name} reads {operand.upper()} in fragments of {rows}x{cols}, which do not divide the tile of "
            f"{layout.shape[0]}x{layout.shape[1]}"
        )
    return intrinsic.load.check(operand, layout, element_bytes, (rows, cols))


# rows -----------------------------------------------------------------------------------------------------------------


def _distribution(
    outer: tuple[int, int], thread: tuple[int, int], element: tuple[int, int], strides: tuple[int, int]
) -> NestedLayout:
    return NestedLayout((1, 1), (1, 1), outer, thread, element, (0, 0), strides)


def _fma(lanes_m: int, lanes_n: int, each: int) -> TensorIntrinsic:
    """lanes_m x lanes_n lanes, n fastest, each with each x each neighbouring results and an outer product."""
    m, n = lanes_m * each, lanes_n * each
    a = _distribution((1, 1), (lanes_m, 1), (each, 1), (lanes_n, 0))
    b = _distribution((1, 1), (1, lanes_n), (1, each), (0, 1))
    c = Fragment((m, n), each * each, _distribution((1, 1), (lanes_m, lanes_n), (each, each), (lanes_n, 1)))
    cpp = f"autosched::Fma<{{a}}, {lanes_m}, {lanes_n}, {each}, {each}>"
    left, right = Fragment((m, 1), each, a, lane_loads=a), Fragment((1, n), each, b, lane_loads=b)
    return TensorIntrinsic("fma", "f32", "f32", left, right, c, AnyLayout(each), "", each * each, 1, cpp)


_C_MMA = _distribution((2, 1), (8, 4), (1, 2), (4, 1))  # PTX ISA, "Matrix fragments for mma.m16n8k16"


def _wmma(kind: str, needs: str, a: Fragment, b: Fragment) -> TensorIntrinsic:
    """wmma.mma of m16n16 is two instructions of m16n8."""
    c = Fragment((16, 16), 8)
    return TensorIntrinsic("wmma", kind, kind, a, b, c, LeadingDimension(), needs, 2, 8, "autosched::Wmma<{a}>")


def _mma(kind: str, a: Fragment, b: Fragment) -> TensorIntrinsic:
    c = Fragment((16, 8), 4, _C_MMA)
    return TensorIntrinsic("mma", kind, kind, a, b, c, AlignedRows(), "mma_k16", 1, 4, "autosched::MmaSync<{a}>")


def _mma_in_f16(a: Fragment, b: Fragment) -> TensorIntrinsic:
    """Return mma whose registers of c hold two neighbours of a row, the lower one in the lower half (PTX ISA, the same
    section)."""
    c, k = Fragment((16, 8), 2, _C_MMA), a.shape[1]
    cpp = f"autosched::MmaSync<{{a}}, autosched::f16x2, {k}>"
    return TensorIntrinsic(
        "mma", "f16", "f16", a, b, c, AlignedRows(), "" if k == 8 else "mma_k16", 1, 2, cpp, halves=True
    )


def _mma_8_bit(kind: str, needs: str) -> TensorIntrinsic:
    """PTX ISA, "Matrix fragments for mma.m16n8k32": four neighbours along k in each register, else as for 16 bits."""
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
    """Fragments are those of 8 bits, of numbers of 4 bits two to an element (PTX ISA, "Matrix fragments for
    mma.m16n8k64")."""
    of_8_bit, row = _mma_8_bit("e4m3", ""), BLOCK_FORMATS[name]
    cpp = f"autosched::MmaBlockScaled<{{a}}, {32 * row.element.values // row.block}>"
    header = "autosched/intrinsics/mma_block_scaled.cuh"
    return replace(of_8_bit, type_a=name, type_b=name, needs="block_scale_mma", cpp=cpp, header=header)


def _mma_unit_scales(kind: str) -> TensorIntrinsic:
    cpp, header = "autosched::MmaUnitScaled<{a}>", "autosched/intrinsics/mma_block_scaled.cuh"
    return replace(_mma_8_bit(kind, "block_scale_mma"), unit_scales=True, cpp=cpp, header=header)


# PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type": group g = lane / 4, t = lane % 4;
# a0 a1: (g, 2t..), a2 a3: (g+8, 2t..), a4 a5: (g, 2t+8..), a6 a7: (g+8, 2t+8..); b0 b1: (2t.., g), b2 b3: (2t+8.., g).
# The distributed order has (g, 2t+8..) before (g+8, 2t..), hence the register order.
_A_16_BIT = Fragment((16, 16), 4, _distribution((2, 2), (8, 4), (1, 2), (4, 1)), (0, 1, 4, 5, 2, 3, 6, 7))
_B_16_BIT = Fragment((16, 8), 2, _distribution((2, 1), (4, 8), (2, 1), (1, 4)))
# The same of half the k: a0 a1: (g, 2t..), a2 a3: (g+8, 2t..); b0 b1: (2t.., g).
_A_16_BIT_K8 = Fragment((16, 8), 2, _distribution((2, 1), (8, 4), (1, 2), (4, 1)))
_B_16_BIT_K8 = Fragment((8, 8), 1, _distribution((1, 1), (4, 8), (2, 1), (1, 4)))

_TURING_HEADER = "autosched/intrinsics/mma_turing.cuh"


def _turing(kind: str, a: Fragment, b: Fragment, instructions: int, cpp: str) -> TensorIntrinsic:
    """Return what multiplies on sm_75. mma.m8n8k16 of i8 has the upper or the lower eight rows of fragments of
    m16n8k16."""
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
# How wmma.load reads is not specified. nvcc 13 for sm_80 and sm_90 makes it ldmatrix for 16-bit types, and for tf32
# loads of single elements in the pattern of mma.m16n8k8, for b of two of them.
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
    """Return our rows, and those of other packages, which are loaded on first use."""
    known = dict(INTRINSICS)

    def add(offered: TensorIntrinsic | Iterable[TensorIntrinsic]) -> None:
        for row in (offered,) if isinstance(offered, TensorIntrinsic) else tuple(offered):
            _add(known, row)

    load_offers(ENTRY_POINTS, "tensor intrinsics", add)
    return known


def _add(known: dict[str, TensorIntrinsic], row: TensorIntrinsic) -> None:
    if not isinstance(row, TensorIntrinsic):
        raise ValueError(f"only a TensorIntrinsic can be registered, not {row!r}")
    if known.get(row.name, row) != row:
        raise ValueError(f"another tensor intrinsic is already called {row.name!r}: change its fragments or types")
    known[row.name] = row


def register_intrinsic(row: TensorIntrinsic) -> None:
    """Add a row to those that schedules of this process choose from, before any space that would have it is made. The
    same one may be registered again.

    Raises ValueError for a name already taken, and for anything other than a TensorIntrinsic.
    """
    _add(_known(), row)


def intrinsic(name: str) -> TensorIntrinsic:
    """Return the row called ``name``. Raises ValueError that lists the known ones."""
    if name not in _known():
        raise ValueError(f"unknown tensor intrinsic {name!r}: use one of {', '.join(_known())}")
    return _known()[name]


def intrinsics_for(
    a: str, tf32: bool, b: str = "", *, acc: str = "", device: Device | None = None
) -> tuple[TensorIntrinsic, ...]:
    """Return the rows that multiply arrays of some types.

    Args:
        a: The type that the left factor is stored as.
        tf32: Whether f32 may be rounded to tf32; it changes nothing for other types.
        b: The type of the right one; "" for that of ``a``.
        acc: "f16" for rows that add up in f16; else f32 or i32.
        device: Rows that a wider one has taken the place of are given for one without that; None for none of them.

    Raises:
        ValueError: An unknown type.
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
        and row.halves == (acc == "f16")
        and not (row.until and (device is None or device.has(row.until)))
    )
