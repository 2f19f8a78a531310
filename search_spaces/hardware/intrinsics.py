"""Tensor intrinsics as data rows: what one instruction multiplies, who holds what, and what it asks of shared memory.

OperandSide A is a (m, k) tile, B a (k, n) tile, C and D are (m, n); a SharedLayout of an operand has the shape of that
operand's tile. Whether an intrinsic can load an operand is decided by evaluating the layout function against the
row's requirement, so m layouts and n intrinsics need no m * n pairs (TVM auto memory planning, problems 1 and 2).
A new intrinsic is one more row; a new way of loading is one more Requirement.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import FloatArray
from search_spaces.hardware.dtypes import FLOAT_DTYPES, dtype, round_to_tf32
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.shared_layout import Axis, SharedLayout

WARP = 32

OperandSide = Literal["a", "b"]
Unit = Literal["fma", "wmma", "mma"]
Mode = Literal["vector", "row", "col", "rows", "trans"]
Float32Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Access:
    """How an intrinsic reads an operand from a layout.

    ``mode``: "vector" (ld.shared of ``vector`` elements by each lane), "row" or "col" (wmma.load of a row- or
    column-major fragment with ``leading_dimension``), "rows" or "trans" (ldmatrix without and with .trans; each lane
    addresses one row of ``vector`` elements). ``axis`` is the tile index along which the elements of one access lie.
    """

    mode: Mode
    axis: Axis
    vector: int
    leading_dimension: int | None = None


@dataclass(frozen=True)
class Refusal:
    """Why an intrinsic cannot read an operand from a layout; one sentence."""

    reason: str


class Requirement(Protocol):
    """What a way of loading asks of a layout."""

    def check(
        self, loader: str, operand: OperandSide, layout: SharedLayout, element_bytes: int, fragment: tuple[int, int]
    ) -> Access | Refusal:
        """``layout`` has the shape of the whole operand tile in shared memory, whose first byte is aligned to at least
        128 bytes; ``fragment`` is the shape that one instruction loads and divides the tile; ``loader`` names the
        instruction in the reason."""
        ...


@dataclass(frozen=True)
class AnyLayout:
    """ld.shared of the elements one thread needs, ``elements`` neighbours along m (A) or n (B): every layout will do.

    The vector is as wide as the layout keeps neighbours together, at most ``elements`` and 16 bytes.
    """

    elements: int

    def check(
        self, loader: str, operand: OperandSide, layout: SharedLayout, element_bytes: int, fragment: tuple[int, int]
    ) -> Access | Refusal:
        axis: Axis = "rows" if operand == "a" else "cols"
        return Access("vector", axis, min(self.elements, layout.contiguity(axis), 16 // element_bytes))


@dataclass(frozen=True)
class LeadingDimension:
    """wmma.load (PTX ISA, "wmma.load"; CUDA C++ Programming Guide, "Warp matrix functions"): inside a fragment, lines
    of neighbours at one stride, a multiple of ``stride_bytes``, the same for all fragments, as it is a constant of the
    kernel; fragment origins aligned to ``origin_bytes`` (256 bits). Between fragments anything may lie."""

    stride_bytes: int = 16
    origin_bytes: int = 32

    def check(
        self, loader: str, operand: OperandSide, layout: SharedLayout, element_bytes: int, fragment: tuple[int, int]
    ) -> Access | Refusal:
        first = layout(*np.ogrid[: fragment[0], : fragment[1]])
        lines = first.T if layout.transposed else first  # (line of the fragment, position in it)
        leading = int(lines[1, 0] - lines[0, 0]) if len(lines) > 1 else layout.line
        affine = lines[0, 0] + leading * np.arange(len(lines))[:, None] + np.arange(lines.shape[1])
        even = leading > 0 and np.array_equal(lines, affine)
        if even:  # as most are not, one fragment is looked at before all
            rows, cols = fragment
            tiles = layout.offsets().reshape(layout.shape[0] // rows, rows, layout.shape[1] // cols, cols)
            origins = tiles[:, 0, :, 0]
            even = np.array_equal(
                tiles - origins[:, None, :, None], np.broadcast_to((first - first[0, 0])[:, None], tiles.shape)
            )
        if not even:
            return Refusal(
                f"{loader} needs one leading dimension for all fragments of {fragment[0]}x{fragment[1]}, which "
                f"{_what(operand, layout)} does not have: {_why_uneven(layout, fragment)}"
            )
        if leading * element_bytes % self.stride_bytes:
            return Refusal(
                f"{loader} needs a leading dimension that is a multiple of {self.stride_bytes} bytes, but lines of "
                f"{_what(operand, layout)} are {leading * element_bytes} bytes apart"
            )
        torn = np.argwhere(origins * element_bytes % self.origin_bytes)
        if torn.size:
            row, col = (int(i) for i in torn[0])
            return Refusal(
                f"{loader} needs fragments that start at multiples of {self.origin_bytes} bytes, but in "
                f"{_what(operand, layout)} the fragment at ({row * rows}, {col * cols}) starts at byte "
                f"{int(origins[row, col]) * element_bytes}"
            )
        axis = layout.line_axis
        return Access("row" if axis == "cols" else "col", axis, 16 // element_bytes, leading)


@dataclass(frozen=True)
class AlignedRows:
    """ldmatrix (PTX ISA, "ldmatrix"): every aligned group of ``row_bytes`` bytes along k is contiguous and aligned;
    with .trans, which moves 16-bit elements only, along m or n instead."""

    row_bytes: int = 16

    def check(
        self, loader: str, operand: OperandSide, layout: SharedLayout, element_bytes: int, fragment: tuple[int, int]
    ) -> Access | Refusal:
        along_k: Axis = "cols" if operand == "a" else "rows"
        along_other: Axis = "rows" if operand == "a" else "cols"
        elements = self.row_bytes // element_bytes
        if layout.contiguity(along_k) >= elements:
            return Access("rows", along_k, elements)
        other_name = "m" if operand == "a" else "n"
        if element_bytes == 2 and layout.contiguity(along_other) >= elements:
            return Access("trans", along_other, elements)
        along = f"along k or {other_name}" if element_bytes == 2 else "along k"
        reason = (
            f"{loader} needs {elements} contiguous elements {along} that start at a multiple of {self.row_bytes} bytes"
        )
        if element_bytes != 2 and layout.line_axis != along_k:
            return Refusal(
                f"{reason}, but {_what(operand, layout)} is contiguous along {other_name} and ldmatrix transposes "
                f"2-byte elements only"
            )
        return Refusal(f"{reason}, but {_what(operand, layout)} {_why_not_aligned(layout, elements, element_bytes)}")


def _what(operand: OperandSide, layout: SharedLayout) -> str:
    return f"layout {layout.text} of the {layout.shape[0]}x{layout.shape[1]} tile of {operand.upper()}"


def _lines(layout: SharedLayout) -> npt.NDArray[np.int32]:
    """Offsets as (line, position in the line)."""
    return layout.offsets().T if layout.transposed else layout.offsets()


def _why_uneven(layout: SharedLayout, fragment: tuple[int, int]) -> str:
    lines, positions = fragment[::-1] if layout.transposed else fragment
    offsets = _lines(layout)
    apart = np.diff(offsets, axis=1) != 1
    apart[:, positions - 1 :: positions] = False  # from one fragment to the next
    torn = np.argwhere(apart)
    if torn.size:
        line, position = (int(i) for i in torn[0])
        return f"elements {position} and {position + 1} of line {line} are not neighbours"
    gaps = np.diff(offsets[:, ::positions], axis=0)
    uneven = gaps != gaps[0, 0]
    uneven[lines - 1 :: lines] = False
    i, j = (int(i) for i in np.argwhere(uneven)[0])
    return f"line 1 starts {gaps[0, 0]} elements after line 0, line {i + 1} {gaps[i, j]} after line {i}" + (
        f" at element {j * positions}" if j else ""
    )


def _why_not_aligned(layout: SharedLayout, elements: int, element_bytes: int) -> str:
    offsets = _lines(layout)
    if offsets.shape[1] % elements:
        return f"has lines of {offsets.shape[1]} elements, which {elements} does not divide"
    groups = offsets.reshape(offsets.shape[0], -1, elements)
    torn = np.argwhere((np.diff(groups, axis=2) != 1).any(axis=2))
    if torn.size:
        line, group = (int(i) for i in torn[0])
        return f"does not keep elements {group * elements} to {(group + 1) * elements - 1} of line {line} in sequence"
    line, group = (int(i) for i in np.argwhere(groups[:, :, 0] % elements)[0])
    byte = int(groups[line, group, 0]) * element_bytes
    return (
        f"puts element {group * elements} of line {line} at byte {byte}, so its rows are not "
        f"{elements * element_bytes}-byte aligned"
    )


@dataclass(frozen=True)
class Fragment:
    """An operand as the lanes of a warp (or, with 128 ``lanes``, of a warpgroup) hold it in registers.

    ``layout`` distributes ``shape`` over warps and their lanes, or is None where the instruction keeps it secret
    (wmma) or reads shared memory itself (0 registers). ``registers`` counts 32-bit registers of one lane. A lane's
    r-th value in the instruction's own order is element ``register_order[r]`` of the NestedLayout's distributed order
    (batch, outer, element); () means the same order.
    """

    shape: tuple[int, int]
    registers: int
    layout: NestedLayout | None = None
    register_order: tuple[int, ...] = ()
    lanes: int = WARP

    def __post_init__(self) -> None:
        if self.lanes < WARP or self.lanes % WARP:
            raise ValueError(f"fragment: lanes must be whole warps of {WARP}, not {self.lanes}")
        if self.layout is None:
            if self.register_order:
                raise ValueError("fragment: register_order orders the values of a layout, and this one has none")
            return
        if self.layout.rounds(self.lanes // WARP) > 1:
            raise ValueError(
                f"fragment: the layout uses {self.layout.subgroups} warps, more than {self.lanes} lanes are"
            )
        # Of the fma rows, A and B repeat over lanes.
        self.layout.verify(self.shape, WARP, self.lanes // WARP, replicate_threads=True)
        if sorted(self.register_order) not in ([], list(range(self.layout.elements_per_thread))):
            last = self.layout.elements_per_thread - 1
            raise ValueError(f"fragment: register_order must be a permutation of 0 to {last}")

    @cached_property
    def positions(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(row, col) of every value, each of shape (lanes, values of a lane in the instruction's order)."""
        if self.layout is None:
            raise ValueError("fragment: the instruction does not say which lane holds which element")
        held = self.layout.coordinates(self.lanes // WARP, WARP, replicate_threads=True).reshape(self.lanes, -1, 2)
        order = list(self.register_order or range(held.shape[1]))
        return held[:, order, 0], held[:, order, 1]

    @property
    def values(self) -> int:
        """Elements that one lane holds."""
        return int(self.positions[0].shape[1])

    @property
    def holders(self) -> int:
        """Lanes that hold a copy of each element."""
        return self.lanes * self.values // (self.shape[0] * self.shape[1])

    def distribute(self, tile: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """A tile of ``shape`` as the lanes hold it: (lanes, values), in the instruction's register order."""
        if tile.shape != self.shape:
            raise ValueError(f"fragment: the tile must have shape {self.shape}, not {tile.shape}")
        return tile[self.positions]

    def collect(self, held: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """The tile that lanes hold as (lanes, values). Raises ValueError if copies of an element differ."""
        if held.shape != (self.lanes, self.values):
            raise ValueError(f"fragment: registers must have shape {(self.lanes, self.values)}, not {held.shape}")
        tile = np.empty(self.shape, dtype=held.dtype)
        tile[self.positions] = held
        if self.holders > 1 and not np.array_equal(tile[self.positions], held, equal_nan=held.dtype.kind == "f"):
            raise ValueError("fragment: lanes hold different copies of one element")
        return tile


@dataclass(frozen=True)
class TensorIntrinsic:
    """One way to multiply fragments: d = a @ b + c with exact products and f32 accumulation.

    ``operand`` is the type the unit multiplies ("f16", "bf16", "tf32", "f32"), ``stored`` the types of arrays it
    accepts as they lie in memory. ``min_sm`` is 10 * major + minor of the first architecture that has it, 0 for all.
    Raises ValueError where the fields contradict each other.
    """

    unit: Unit
    m: int
    n: int
    k: int
    operand: str
    stored: tuple[str, ...]
    min_sm: int
    a: Fragment
    b: Fragment
    c: Fragment
    load: Requirement
    load_name: str

    def __post_init__(self) -> None:
        for which, fragment, shape in (
            ("a", self.a, (self.m, self.k)),
            ("b", self.b, (self.k, self.n)),
            ("c", self.c, (self.m, self.n)),
        ):
            if fragment.shape != shape:
                raise ValueError(f"{self.name}: fragment {which} must have shape {shape}, not {fragment.shape}")
            if fragment.layout is None:
                if self.unit != "wmma" and fragment.registers:
                    raise ValueError(f"{self.name}: fragment {which} needs a layout; only wmma keeps it secret")
                continue
            bits = 32 if which == "c" or self.operand in ("f32", "tf32") else 16
            if fragment.values * bits != fragment.registers * 32:
                raise ValueError(
                    f"{self.name}: fragment {which} holds {fragment.values} values of {bits} bits in a lane, "
                    f"which is not {fragment.registers} registers"
                )
        if self.c.layout is not None and self.c.holders != 1:
            raise ValueError(f"{self.name}: fragment c must have one holder for every element, not {self.c.holders}")
        if not self.stored or any(name not in FLOAT_DTYPES for name in self.stored):
            raise ValueError(f"{self.name}: stored must name types of {', '.join(FLOAT_DTYPES)}, not {self.stored}")
        if self.operand not in (*FLOAT_DTYPES, "tf32"):
            raise ValueError(f"{self.name}: operand must be f16, bf16, tf32 or f32, not {self.operand!r}")
        if self.unit != "fma" and self.stored != ({"tf32": "f32"}.get(self.operand, self.operand),):
            raise ValueError(f"{self.name}: tensor cores multiply {self.operand} and cannot read {self.stored}")
        if self.unit != "fma" and self.min_sm < 70:
            raise ValueError(f"{self.name}: there are no tensor cores before sm_70, so min_sm = {self.min_sm} is wrong")

    def __hash__(self) -> int:
        # The rows are keys of caches that every rule asks; their fragments need not be hashed each time.
        return hash((self.unit, self.m, self.n, self.k, self.operand))

    @property
    def name(self) -> str:
        shape = f"{self.unit}_m{self.m}n{self.n}k{self.k}"
        return shape if self.unit == "fma" else f"{shape}_{self.operand}"

    def fragment(self, operand: OperandSide) -> Fragment:
        return self.a if operand == "a" else self.b

    def requirement(self, operand: OperandSide, layout: SharedLayout, element_bytes: int) -> Access | Refusal:
        """How this intrinsic reads ``operand`` from a tile laid out by ``layout`` (A: (m, k), B: (k, n)), or why not.

        Raises ValueError if no type that the intrinsic accepts has ``element_bytes`` bytes.
        """
        return _requirement(self, operand, layout, element_bytes)

    def reference(self, a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike) -> Float32Array:
        """d = a @ b + c for a (..., m, k), b (..., k, n), c (..., m, n).

        a and b are rounded to ``operand`` (tf32: nearest, ties away); products are exact in float64, and each is added
        to an f32 accumulator in the order of k. Hardware adds the products of one instruction in an order, and with a
        truncation, that the PTX ISA leaves open.
        """
        left, right = self._operand_values(a), self._operand_values(b)
        d = np.asarray(c, dtype=np.float32)
        if left.shape[-2:] != self.a.shape or right.shape[-2:] != self.b.shape or d.shape[-2:] != self.c.shape:
            raise ValueError(
                f"{self.name}: operands must end in {self.a.shape}, {self.b.shape}, {self.c.shape}, "
                f"not {left.shape}, {right.shape}, {d.shape}"
            )
        for k in range(self.k):
            d = (d + left[..., :, k, None] * right[..., k, None, :]).astype(np.float32)
        return d

    def execute_fragments(
        self, a: npt.NDArray[np.generic], b: npt.NDArray[np.generic], c: npt.NDArray[np.generic]
    ) -> Float32Array:
        """``reference`` on register files: a, b, c and the result are (lanes, values of a lane).

        Raises ValueError for wmma, whose fragments are opaque.
        """
        d = self.reference(self.a.collect(a), self.b.collect(b), self.c.collect(c))
        return d[self.c.positions]

    def _operand_values(self, values: npt.ArrayLike) -> FloatArray:
        if self.operand == "tf32":
            return round_to_tf32(values).astype(np.float64)
        stored = dtype(self.operand)
        return stored.load(stored.store(values))


@lru_cache(maxsize=2**16)
def _requirement(
    intrinsic: TensorIntrinsic, operand: OperandSide, layout: SharedLayout, element_bytes: int
) -> Access | Refusal:
    if element_bytes not in {FLOAT_DTYPES[name].bytes for name in intrinsic.stored}:
        raise ValueError(
            f"{intrinsic.name} reads {' or '.join(intrinsic.stored)}, not elements of {element_bytes} bytes"
        )
    rows, cols = intrinsic.fragment(operand).shape
    if layout.shape[0] % rows or layout.shape[1] % cols:
        return Refusal(
            f"{intrinsic.name} reads {operand.upper()} in fragments of {rows}x{cols}, which do not divide the tile of "
            f"{layout.shape[0]}x{layout.shape[1]}"
        )
    return intrinsic.load.check(intrinsic.load_name, operand, layout, element_bytes, (rows, cols))


# rows -----------------------------------------------------------------------------------------------------------------


def _distribution(
    outer: tuple[int, int], thread: tuple[int, int], element: tuple[int, int], strides: tuple[int, int]
) -> NestedLayout:
    return NestedLayout(
        subgroup_tile=(1, 1),
        batch_tile=(1, 1),
        outer_tile=outer,
        thread_tile=thread,
        element_tile=element,
        subgroup_strides=(0, 0),
        thread_strides=strides,
    )


def _fma(lanes_m: int, lanes_n: int, each: int) -> TensorIntrinsic:
    """lanes_m x lanes_n lanes, n fastest, each with each x each neighbouring results and an outer product."""
    m, n = lanes_m * each, lanes_n * each
    return TensorIntrinsic(
        unit="fma",
        m=m,
        n=n,
        k=1,
        operand="f32",
        stored=("f16", "bf16", "f32"),
        min_sm=0,
        a=Fragment((m, 1), each, _distribution((1, 1), (lanes_m, 1), (each, 1), (lanes_n, 0))),
        b=Fragment((1, n), each, _distribution((1, 1), (1, lanes_n), (1, each), (0, 1))),
        c=Fragment((m, n), each * each, _distribution((1, 1), (lanes_m, lanes_n), (each, each), (lanes_n, 1))),
        load=AnyLayout(each),
        load_name="ld.shared",
    )


def _wmma(k: int, operand: str, stored: str, min_sm: int, operand_registers: int) -> TensorIntrinsic:
    return TensorIntrinsic(
        unit="wmma",
        m=16,
        n=16,
        k=k,
        operand=operand,
        stored=(stored,),
        min_sm=min_sm,
        a=Fragment((16, k), operand_registers),
        b=Fragment((k, 16), operand_registers),
        c=Fragment((16, 16), 8),
        load=LeadingDimension(),
        load_name="wmma.load",
    )


# PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type": group g = lane / 4, t = lane % 4;
# a0 a1: (g, 2t..), a2 a3: (g+8, 2t..), a4 a5: (g, 2t+8..), a6 a7: (g+8, 2t+8..); b0 b1: (2t.., g), b2 b3: (2t+8.., g).
# The distributed order has (g, 2t+8..) before (g+8, 2t..), hence the register order.
def _mma_16_bit(operand: str) -> TensorIntrinsic:
    return TensorIntrinsic(
        unit="mma",
        m=16,
        n=8,
        k=16,
        operand=operand,
        stored=(operand,),
        min_sm=80,
        a=Fragment((16, 16), 4, _distribution((2, 2), (8, 4), (1, 2), (4, 1)), (0, 1, 4, 5, 2, 3, 6, 7)),
        b=Fragment((16, 8), 2, _distribution((2, 1), (4, 8), (2, 1), (1, 4))),
        c=_MMA_C,
        load=AlignedRows(),
        load_name="ldmatrix",
    )


_MMA_C = Fragment((16, 8), 4, _distribution((2, 1), (8, 4), (1, 2), (4, 1)))

# PTX ISA, "Matrix fragments for mma.m16n8k8" (.tf32): a0: (g, t), a1: (g+8, t), a2: (g, t+4), a3: (g+8, t+4);
# b0: (t, g), b1: (t+4, g).
_MMA_TF32 = TensorIntrinsic(
    unit="mma",
    m=16,
    n=8,
    k=8,
    operand="tf32",
    stored=("f32",),
    min_sm=80,
    a=Fragment((16, 8), 4, _distribution((2, 2), (8, 4), (1, 1), (4, 1)), (0, 2, 1, 3)),
    b=Fragment((8, 8), 2, _distribution((2, 1), (4, 8), (1, 1), (1, 4))),
    c=_MMA_C,
    load=AlignedRows(),
    load_name="ldmatrix",
)

INTRINSICS: dict[str, TensorIntrinsic] = {
    row.name: row
    for row in (
        _fma(4, 8, 4),
        _fma(8, 4, 4),
        _fma(8, 4, 1),
        _wmma(16, "f16", "f16", 70, 8),
        _wmma(16, "bf16", "bf16", 80, 4),
        _wmma(8, "tf32", "f32", 80, 4),
        _mma_16_bit("f16"),
        _mma_16_bit("bf16"),
        _MMA_TF32,
    )
}


def intrinsic(name: str) -> TensorIntrinsic:
    """The row called ``name``. Raises ValueError that lists the known ones."""
    if name not in INTRINSICS:
        raise ValueError(f"unknown tensor intrinsic {name!r}: use one of {', '.join(INTRINSICS)}")
    return INTRINSICS[name]


def intrinsics_for(dtype_name: str, tf32: bool) -> tuple[TensorIntrinsic, ...]:
    """The rows that multiply arrays stored as ``dtype_name``; those that round f32 to tf32 only with ``tf32``.

    ``tf32`` says what f32 arrays may be rounded to and changes nothing for other types. Raises ValueError for an
    unknown type.
    """
    stored = dtype(dtype_name).name
    return tuple(row for row in INTRINSICS.values() if stored in row.stored and (tf32 or row.operand != "tf32"))
