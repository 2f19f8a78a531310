"""A tensor instruction: its types, its fragments, and derived properties.

The tiles of the operands have these shapes: A (m, k), B (k, n), C and D (m, n). A SharedLayout of an operand has the
shape of the operand's tile. The intrinsic's requirement checks whether the intrinsic can load an operand from a layout.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import FloatArray
from search_spaces.hardware.architectures import FEATURES
from search_spaces.hardware.block_scaling import BLOCK_FORMATS, FACTOR_DTYPES, UNIT_SCALED_AS, BlockFormat
from search_spaces.hardware.devices import Device
from search_spaces.hardware.dtypes import MULTIPLIED_DTYPES, dtype, round_to_tf32
from search_spaces.hardware.fragments import Fragment
from search_spaces.hardware.requirements import Access, OperandSide, Refusal, Requirement
from search_spaces.hardware.units import unit
from search_spaces.layouts.shared_layout import SharedLayout

Sums = npt.NDArray[Any]  # type of the sums: f32 or f16, or i32 for i8 operands

# Maps a type that tensor cores multiply to the type of its arrays, if they differ: tf32 values are rounded f32 values.
STORED = {"tf32": "f32"}


@dataclass(frozen=True)
class TensorIntrinsic:
    """An instruction that multiplies fragments: d = a @ b + c with exact products, accumulated in f32, f16 or i32.

    Attributes:
        unit: Name of the unit that multiplies, see ``units``.
        type_a: Type in which a is multiplied: "f16", "bf16", "tf32", "f32", "e4m3", "e5m2", "i8", or a block-scaled
            type ("mxf8", "mxf4", "nvf4"). The shapes of block-scaled fragments count stored elements.
        type_b: Type in which b is multiplied.
        a: Fragment of a.
        b: Fragment of b.
        c: Fragment of the sums.
        load: Requirement of the instruction that loads a and b from shared memory.
        needs: Architecture feature that includes the instruction (``architectures.FEATURES``); "" if all architectures
            have it.
        instructions: Machine instructions that a warp issues to multiply fragments once.
        results: Number of accumulator registers per lane that one statement of the kernel's unrolled body updates.
        cpp: C++ type that implements the intrinsic, with "{a}" and "{b}" for the types of the arrays.
        header: Header that declares the C++ type, if kernels do not include it by default.
        text: Contents of the header, if another package provides the intrinsic.
        f16_sums: True if the instruction accumulates in f16, with two sums per register.
        until: Feature of architectures on which a wider instruction supersedes this one.
        unit_scales: True if the instruction multiplies 8-bit floats as mxf8, with all scales 1.

    Raises:
        ValueError: The fields contradict each other.
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
    f16_sums: bool = False
    until: str = ""
    unit_scales: bool = False

    def __post_init__(self) -> None:
        row = unit(self.unit)
        if self.b.shape[0] != self.k or self.c.shape != (self.m, self.n):
            raise ValueError(
                f"{self.name}: fragments of {self.a.shape}, {self.b.shape} and {self.c.shape} do not fit a @ b + c"
            )
        sums = "f16" if self.f16_sums else "f32"
        for which, fragment, kind in (("a", self.a, self.type_a), ("b", self.b, self.type_b), ("c", self.c, sums)):
            if kind not in (*FACTOR_DTYPES, *STORED):
                known = ", ".join((*FACTOR_DTYPES, *STORED))
                raise ValueError(f"{self.name}: type_{which} must be one of {known}, not {kind!r}")
            if fragment.layout is None:
                if fragment.registers and not row.opaque:
                    raise ValueError(f"{self.name}: fragment {which} needs a layout, because its unit is not opaque")
                continue
            bits = 8 * dtype(STORED.get(kind, kind), FACTOR_DTYPES).bytes
            if fragment.values * bits != fragment.registers * 32:
                raise ValueError(
                    f"{self.name}: fragment {which} holds {fragment.values} values of {bits} bits per "
                    f"lane, which do not fill {fragment.registers} registers"
                )
        if self.c.layout is not None and self.c.holders != 1:
            raise ValueError(f"{self.name}: each element of fragment c must be in one lane, not in {self.c.holders}")
        if self.f16_sums and (self.type_a, self.type_b) != ("f16", "f16"):
            raise ValueError(f"{self.name}: only f16 products can be accumulated in f16 (PTX ISA, mma and wgmma)")
        for feature in (self.needs, self.until):
            if feature and feature not in FEATURES:
                raise ValueError(f"{self.name}: unknown feature {feature!r}: use one of {', '.join(FEATURES)}")
        if self.text and not self.header:
            raise ValueError(f"{self.name}: text is given without header: set header to the name of the file")
        if self.instructions < 1 or self.results < 1:
            raise ValueError(f"{self.name}: instructions and results must be at least 1")

    def __hash__(self) -> int:
        # The hash is cached, because rows are keys of caches that every rule reads, and hashing their fragments is
        # slow.
        return hash((self.unit, self.a.shape, self.b.shape, self.type_a, self.type_b, self.f16_sums, self.unit_scales))

    @property
    def m(self) -> int:
        """Rows of a fragment of c."""
        return self.a.shape[0]

    @property
    def n(self) -> int:
        """Columns of a fragment of c."""
        return self.b.shape[1]

    @property
    def k(self) -> int:
        """Stored elements along k of a fragment."""
        return self.a.shape[1]

    @property
    def numbers(self) -> int:
        """Number of multiplied values along k: ``k`` times the number of values in a stored element."""
        row = self.scales
        return self.k * (row.element.values if row else 1)

    @property
    def scales(self) -> BlockFormat | None:
        """Block format of a and b if they are block-scaled; otherwise None."""
        return BLOCK_FORMATS.get(self.type_a)

    @property
    def scales_of_row(self) -> int:
        """Number of scales per row of a fragment of a, and per column of a fragment of b; 0 without block scales."""
        return self.numbers // self.scales.block if self.scales else 0

    @property
    def name(self) -> str:
        """Name of the intrinsic, such as ``mma_m16n8k16_f16``.

        Intrinsics on CUDA cores convert their operands, so their names contain no type. If the accumulator is f16, its
        type is appended, as in ``mma_m16n8k16_f16_f16``. With unit scales, ``unit_scales`` is appended.
        """
        types = dict.fromkeys((self.type_a, self.type_b)) if unit(self.unit).tensor else ()
        return "_".join(
            (
                self.unit,
                f"m{self.m}n{self.n}k{self.numbers}",
                *types,
                *(("f16",) if self.f16_sums else ()),
                *(("unit_scales",) if self.unit_scales else ()),
            )
        )

    @property
    def rated_as(self) -> str:
        """Operand type for ``Device.tensor_rate``."""
        return UNIT_SCALED_AS if self.unit_scales else f"{self.type_a}_f16" if self.f16_sums else self.type_a

    @property
    def rounds(self) -> bool:
        """True if operands lose bits before they are multiplied (f32 to tf32)."""
        return self.type_a in STORED or self.type_b in STORED

    def fragment(self, operand: OperandSide) -> Fragment:
        """Return the fragment of an operand."""
        return self.a if operand == "a" else self.b

    def stored(self, operand: OperandSide) -> tuple[str, ...]:
        """Return the array types that the intrinsic accepts.

        CUDA cores convert operands, so their intrinsics accept all types.
        """
        kind = self.type_a if operand == "a" else self.type_b
        return (STORED.get(kind, kind),) if unit(self.unit).tensor else tuple(MULTIPLIED_DTYPES)

    def c_name(self, a: str, b: str) -> str:
        """Return the C++ type that implements the intrinsic, for arrays of the C++ types ``a`` and ``b``."""
        return self.cpp.format(a=a, b=b)

    def flops_per_cycle(self, device: Device) -> float:
        """Return flops per cycle and SM. Raises ValueError if ``device`` has no rate for the multiplied types."""
        return unit(self.unit).flops_per_cycle(device, self.rated_as)

    def why_not(self, device: Device) -> str | None:
        """Return the reason why ``device`` lacks the instruction; None if it has the instruction."""
        if device.has(self.needs):
            return None
        return f"{self.name} needs {FEATURES[self.needs].since}, but {device.name} is {device.arch}"

    def requirement(self, operand: OperandSide, layout: SharedLayout, element_bytes: int) -> Access | Refusal:
        """Return the access that reads ``operand`` from a tile with ``layout``, or the reason why none can.

        Raises:
            ValueError: No type that the intrinsic accepts has ``element_bytes`` bytes.
        """
        return _requirement(self, operand, layout, element_bytes)

    def reference(self, a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike) -> Sums:
        """Compute d = a @ b + c on the CPU, for a (..., m, k), b (..., k, n) and c (..., m, n).

        a and b are first rounded to the multiplied types (for tf32: to nearest, ties away from zero). Products are
        exact in float64, and are added to an f32 accumulator in the order of k. The PTX ISA does not specify how
        hardware orders and truncates the sum of one instruction's products. Sums in f16 are rounded once, at the end,
        as tensor cores do (Fasi, Higham, Mikaitis and Pranesh, PeerJ Computer Science 7:e330). Sums of i8 are exact,
        and wrap around in i32. For block-scaled types, all scales are 1, and the size of a and b along k is
        ``numbers``.
        """
        left = _multiplied(self.type_a, a)
        right = _multiplied(self.type_b, np.swapaxes(b, -1, -2)).swapaxes(
            -1, -2
        )  # a stored element contains numbers that are adjacent along k
        whole = self.type_a == "i8"
        d: Sums = np.asarray(c, dtype=np.int32 if whole else np.float16 if self.f16_sums else np.float32)
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
        if not self.f16_sums:
            return d
        with np.errstate(over="ignore"):  # suppress the warning: sums above 65504 become infinite
            return d.astype(np.float16)


def _multiplied(kind: str, values: npt.ArrayLike) -> FloatArray:
    """Round ``values`` to ``kind``, the type in which they are multiplied."""
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
    # An operand without fragment registers is read from shared memory directly, in whole boxes. So the tile need not
    # consist of whole fragments.
    if fragment.registers and (layout.shape[0] % rows or layout.shape[1] % cols):
        return Refusal(
            f"{intrinsic.name} reads {operand.upper()} in fragments of {rows}x{cols}, which do not divide the tile of "
            f"{layout.shape[0]}x{layout.shape[1]}"
        )
    return intrinsic.load.check(operand, layout, element_bytes, (rows, cols))
