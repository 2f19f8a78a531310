"""What one tensor instruction multiplies, who holds what, and all that depends on it.

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

Sums = npt.NDArray[Any]  # of f32 or f16, or of i32 where i8 is multiplied

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
        follows where it is f16: ``mma_m16n8k16_f16_f16``; and what multiplies by scales of one says so.
        """
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
        cores all, which are converted on the way to registers.
        """
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
