"""A tensor instruction: its types, its fragments, and derived properties.

Operand A is a (m, k) tile, B a (k, n) tile, C and D are (m, n); a SharedLayout of an operand has the shape of that
operand's tile. Whether an intrinsic can load an operand is decided by evaluating the layout function against the
intrinsic's requirement.
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

Sums = npt.NDArray[Any]  # f32 or f16, or i32 for i8 operands

STORED = {"tf32": "f32"}  # multiplied types that arrays cannot have, and the array type that is rounded to them


@dataclass(frozen=True)
class TensorIntrinsic:
    """One way to multiply fragments: d = a @ b + c with exact products, accumulated in f32 or f16, or in i32 for i8.

    Attributes:
        unit: Name of the unit that multiplies, see ``units``.
        type_a: Multiplied type of a: "f16", "bf16", "tf32", "f32", "e4m3", "e5m2", "i8", or the block-scaled "mxf8",
            "mxf4" and "nvf4", whose fragments count stored elements.
        type_b: Multiplied type of b.
        a: Fragment of a.
        b: Fragment of b.
        c: Fragment of the sums.
        load: Instruction that loads a and b from shared memory.
        needs: Architecture feature that it belongs to (``architectures.FEATURES``); "" if all have it.
        instructions: Machine instructions that a warp issues to multiply fragments once.
        results: Accumulator registers of a lane that one statement of the kernel's unrolled body updates.
        cpp: C++ type that implements it, with "{a}" and "{b}" for the types of the arrays.
        header: Header that declares it, if kernels do not include it anyway.
        text: Contents of that header, for another package.
        f16_sums: True if it accumulates in f16, two sums per register.
        until: Feature with which a wider instruction replaces it.
        unit_scales: True if it multiplies 8-bit floats as mxf8 with scales of one.

    Raises:
        ValueError: If the fields contradict each other.
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
        if self.f16_sums and (self.type_a, self.type_b) != ("f16", "f16"):
            raise ValueError(f"{self.name}: only f16 products can be accumulated in f16 (PTX ISA, mma and wgmma)")
        for feature in (self.needs, self.until):
            if feature and feature not in FEATURES:
                raise ValueError(f"{self.name}: unknown feature {feature!r}: use one of {', '.join(FEATURES)}")
        if self.text and not self.header:
            raise ValueError(f"{self.name}: text needs header, the name of the file")
        if self.instructions < 1 or self.results < 1:
            raise ValueError(f"{self.name}: instructions and results must be at least 1")

    def __hash__(self) -> int:
        # The rows are keys of caches that every rule reads; hashing their fragments each time would be slow.
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
        """Stored elements along k."""
        return self.a.shape[1]

    @property
    def numbers(self) -> int:
        """Numbers along k that are multiplied: ``k``, unless a stored element holds several."""
        row = self.scales
        return self.k * (row.element.values if row else 1)

    @property
    def scales(self) -> BlockFormat | None:
        """The block format of a and b that it scales; None for other types."""
        return BLOCK_FORMATS.get(self.type_a)

    @property
    def scales_of_row(self) -> int:
        """Scales per row of a fragment of a, which is also the number per column of b; 0 without block scales."""
        return self.numbers // self.scales.block if self.scales else 0

    @property
    def name(self) -> str:
        """Name such as ``mma_m16n8k16_f16``.

        Names of CUDA-core rows contain no type, because they convert their operands. An f16 accumulator is appended, as
        in ``mma_m16n8k16_f16_f16``, and so is a mark for scales of one.
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
        """Name of the rate in ``Device.tensor_rate``."""
        return UNIT_SCALED_AS if self.unit_scales else f"{self.type_a}_f16" if self.f16_sums else self.type_a

    @property
    def rounds(self) -> bool:
        """True if operands lose bits before they are multiplied (f32 to tf32)."""
        return self.type_a in STORED or self.type_b in STORED

    def fragment(self, operand: OperandSide) -> Fragment:
        """Return the fragment of an operand."""
        return self.a if operand == "a" else self.b

    def stored(self, operand: OperandSide) -> tuple[str, ...]:
        """Return the array types that it accepts: the multiplied one, or all types on CUDA cores, which convert."""
        kind = self.type_a if operand == "a" else self.type_b
        return (STORED.get(kind, kind),) if unit(self.unit).tensor else tuple(MULTIPLIED_DTYPES)

    def c_name(self, a: str, b: str) -> str:
        """Return the C++ type for arrays of the C++ types ``a`` and ``b``."""
        return self.cpp.format(a=a, b=b)

    def flops_per_cycle(self, device: Device) -> float:
        """Return flops per cycle and SM. Raises ValueError if ``device`` has no rate for its types."""
        return unit(self.unit).flops_per_cycle(device, self.rated_as)

    def why_not(self, device: Device) -> str | None:
        """Return the reason why ``device`` does not have the instruction, or None."""
        if device.has(self.needs):
            return None
        return f"{self.name} needs {FEATURES[self.needs].since}, but {device.name} is {device.arch}"

    def requirement(self, operand: OperandSide, layout: SharedLayout, element_bytes: int) -> Access | Refusal:
        """Return the access that reads ``operand`` from a tile with ``layout`` (A: (m, k), B: (k, n)), or why not.

        Raises:
            ValueError: If no type that the intrinsic accepts has ``element_bytes`` bytes.
        """
        return _requirement(self, operand, layout, element_bytes)

    def reference(self, a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike) -> Sums:
        """Return d = a @ b + c for a (..., m, k), b (..., k, n), c (..., m, n).

        a and b are rounded to the multiplied types (tf32: nearest, ties away). Products are exact in float64, and each
        is added to an f32 accumulator in the order of k. Hardware adds the products of one instruction in an order, and
        with a truncation, that the PTX ISA leaves open. Sums in f16 are rounded once, at the end, as tensor cores do
        (Fasi, Higham, Mikaitis and Pranesh, PeerJ Computer Science 7:e330). Sums of i8 are exact, and wrap around in
        i32. Block-scaled types have scales of one here, and a and b have ``numbers`` along k.
        """
        left = _multiplied(self.type_a, a)
        right = _multiplied(self.type_b, np.swapaxes(b, -1, -2)).swapaxes(
            -1, -2
        )  # several numbers of an element lie along k
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
        with np.errstate(over="ignore"):  # sums beyond 65504 become infinite
            return d.astype(np.float16)


def _multiplied(kind: str, values: npt.ArrayLike) -> FloatArray:
    """Return ``values`` as the unit multiplies them."""
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
    # An instruction that reads shared memory itself has requirements on whole boxes, not on fragments.
    if fragment.registers and (layout.shape[0] % rows or layout.shape[1] % cols):
        return Refusal(
            f"{intrinsic.name} reads {operand.upper()} in fragments of {rows}x{cols}, which do not divide the tile of "
            f"{layout.shape[0]}x{layout.shape[1]}"
        )
    return intrinsic.load.check(operand, layout, element_bytes, (rows, cols))
