"""Layouts of a tile in shared memory: injective functions from (row, col) to an element offset.

These layouts generalise the layouts of TVM's auto memory planning (identity, transpose, pad m elements every n lines,
xor). A tile is first linearised by rows, or by columns if transposed. Then steps transform the linear offset, from left
to right. A *line* is a row of the tile, or a column if transposed.

All properties of a layout are computed by evaluating its function. Every layout is periodic: it has a period
of q lines and an increment d such that f(line + q, position) = f(line, position) + d. So ``facts`` evaluates only one
period.
"""

import dataclasses
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, Self, overload

import numpy as np
import numpy.typing as npt

from search_spaces.layouts.text import TextReader

Axis = Literal["rows", "cols"]
OffsetArray = npt.NDArray[np.int32]

# maximum number of elements, so that sums of offsets fit into int32; shared memory has about 2^17 elements
_MOST_ELEMENTS = 2**26


def _check_int(value: object, least: int, most: int, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{name} must be a whole number from {least} to {most}, not {value!r}")


@dataclass(frozen=True)
class Pad:
    """``elements`` unused elements after every ``lines`` lines: x -> x + x // line // lines * elements.

    The function is strictly increasing, and therefore injective.
    """

    elements: int
    lines: int

    def __post_init__(self) -> None:
        _check_int(self.elements, 1, 2**16, "pad: elements")
        _check_int(self.lines, 1, 2**16, "pad: lines")

    @property
    def text(self) -> str:
        """Text of the step, in the syntax that ``SharedLayout.parse`` reads."""
        return f"pad({self.elements},{self.lines})"

    @property
    def c_name(self) -> str:
        """C++ type of the step."""
        return f"autosched::Pad<{self.elements}, {self.lines}>"

    def apply(self, offset: OffsetArray, line: int) -> OffsetArray:
        """Return the offsets after the step, for lines of ``line`` elements."""
        return offset + offset // np.int32(line * self.lines) * np.int32(self.elements)


@dataclass(frozen=True)
class Swizzle:
    """CuTe's Swizzle<bits, base, shift>: x -> x ^ ((x >> shift) & (((1 << bits) - 1) << base)), with shift > 0.

    Offsets are in elements, not bytes. CuTe requires shift >= bits, so that no bit is both read and written. The step
    is then its own inverse, and therefore injective.
    """

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        _check_int(self.bits, 1, 16, "swizzle: bits")
        _check_int(self.base, 0, 16, "swizzle: base")
        _check_int(self.shift, 1, 16, "swizzle: shift")
        if self.shift < self.bits:
            raise ValueError(
                f"swizzle: shift must be at least bits, so that no bit is both read and written; "
                f"bits = {self.bits}, shift = {self.shift}"
            )

        if self.base + self.bits > 31:
            raise ValueError(
                "swizzle: base + bits must be at most 31, the number of bits of an offset; "
                f"base = {self.base}, bits = {self.bits}"
            )

    @property
    def text(self) -> str:
        """Text of the step, in the syntax that ``SharedLayout.parse`` reads."""
        return f"swizzle({self.bits},{self.base},{self.shift})"

    @property
    def c_name(self) -> str:
        """C++ type of the step."""
        return f"autosched::Swizzle<{self.bits}, {self.base}, {self.shift}>"

    @property
    def mask(self) -> int:
        """Offset bits that the step may flip."""
        return ((1 << self.bits) - 1) << self.base

    @property
    def period(self) -> int:
        """Period of the step: swizzle(x + period) == swizzle(x) + period for every x."""
        return 1 << (self.base + self.shift + self.bits)

    def apply(self, offset: OffsetArray, line: int) -> OffsetArray:
        """Return the offsets after the step. ``line`` has no effect."""
        return offset ^ ((offset >> np.int32(self.shift)) & np.int32(self.mask))


Step = Pad | Swizzle


def xor(line: int) -> Swizzle:
    """Return TVM's layout f(i, j) = (i, j ^ i mod line) as a swizzle.

    Raises ValueError if ``line`` is not a power of two.
    """
    if line < 2 or line & (line - 1):
        raise ValueError(f"xor needs a line length that is a power of two (at least 2), not {line} elements")
    bits = line.bit_length() - 1
    return Swizzle(bits, 0, bits)


def hardware_swizzle(bytes_: Literal[32, 64, 128], element_bytes: int) -> Swizzle:
    """Return the swizzle of TMA and wgmma.

    The swizzle permutes the 16-byte chunks of a line of ``bytes_`` bytes: the index of a chunk is xor-ed with the
    address bits from bit 7 on. In CuTe, these swizzles are Swizzle<1,4,3>, <2,4,3> and <3,4,3> on byte addresses. The
    returned swizzle applies to element offsets.
    """
    if bytes_ not in (32, 64, 128):
        raise ValueError(f"a hardware swizzle has 32, 64 or 128 bytes, not {bytes_}")
    return Swizzle(bytes_.bit_length() - 5, 4 - _log2_bytes(element_bytes), 3)


@dataclass(frozen=True)
class SharedLayout:
    """Layout of a tile with ``shape`` (rows, cols). ``layout(row, col)`` is an element offset.

    The linear offset of (row, col) is row * cols + col, or col * rows + row if ``transposed``. ``steps`` transform it
    from left to right. Raises ValueError if the shape is not two positive sizes.
    """

    shape: tuple[int, int]
    transposed: bool = False
    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.shape, tuple) or len(self.shape) != 2:
            raise ValueError(f"layout: shape must be a tuple (rows, cols), not {self.shape!r}")
        for name, size in zip(("rows", "cols"), self.shape, strict=True):
            _check_int(size, 1, 2**20, f"layout: shape {name}")
        if not isinstance(self.steps, tuple) or not all(isinstance(s, Pad | Swizzle) for s in self.steps):
            raise ValueError(f"layout: steps must be a tuple of Pad and Swizzle, not {self.steps!r}")
        if self.extent > _MOST_ELEMENTS:
            raise ValueError(f"layout: a padded tile must have at most {_MOST_ELEMENTS} elements, not {self.extent}")

    # text -----------------------------------------------------------------------------------------------------------

    @classmethod
    def parse(cls, text: str, shape: tuple[int, int]) -> Self:
        """Parse the text of a layout for a tile of ``shape``.

        The text is ``identity``, or terms joined by ``+``: ``transpose`` (first), ``xor`` (before any pad or swizzle),
        ``pad(m,n)``, ``swizzle(bits,base,shift)``. Raises LayoutSyntaxError if the text is malformed, and ValueError
        for ``xor`` if the length of lines is not a power of two.
        """
        transposed, terms = _parse_terms(text)
        line = shape[0] if transposed else shape[1]
        return cls(shape, transposed, tuple(xor(line) if term == "xor" else term for term in terms))

    @property
    def text(self) -> str:
        """Canonical text, without the shape; ``parse(text, shape)`` returns this layout."""
        terms = (["transpose"] if self.transposed else []) + [step.text for step in self.steps]
        return "+".join(terms) or "identity"

    @property
    def c_name(self) -> str:
        """C++ type of the layout, see autosched/common/shared_layout.cuh."""
        fields = [*map(str, self.shape), str(self.transposed).lower(), *(step.c_name for step in self.steps)]
        return f"autosched::SharedLayout<{', '.join(fields)}>"

    # the function ---------------------------------------------------------------------------------------------------

    @property
    def line_axis(self) -> Axis:
        """Axis along which a line extends: "cols", or "rows" if transposed."""
        return "rows" if self.transposed else "cols"

    @property
    def line(self) -> int:
        """Number of elements of a line."""
        return self.shape[0] if self.transposed else self.shape[1]

    @property
    def lines(self) -> int:
        """Number of lines: rows, or columns if transposed."""
        return self.shape[1] if self.transposed else self.shape[0]

    @overload
    def __call__(self, row: int, col: int) -> int: ...
    @overload
    def __call__(self, row: npt.NDArray[np.integer], col: npt.NDArray[np.integer]) -> OffsetArray: ...
    def __call__(self, row: int | npt.NDArray[np.integer], col: int | npt.NDArray[np.integer]) -> int | OffsetArray:
        """Return offsets in elements. Arguments are numbers or broadcastable arrays.

        Raises ValueError outside of the tile.
        """
        r, c = np.asarray(row), np.asarray(col)
        for name, index, size in (("row", r, self.shape[0]), ("col", c, self.shape[1])):
            if index.size and (index.min() < 0 or index.max() >= size):
                raise ValueError(f"layout: {name} is outside of the tile of {self.shape[0]} x {self.shape[1]} elements")
        major, minor = (c, r) if self.transposed else (r, c)
        offset = self.apply_steps((major * self.line + minor).astype(np.int32))
        return int(offset) if offset.ndim == 0 and isinstance(row, int) else offset

    def apply_steps(self, linear: OffsetArray) -> OffsetArray:
        """Apply the steps to linear offsets (row * cols + col, or col * rows + row if transposed)."""
        for step in self.steps:
            linear = step.apply(linear, self.line)
        return linear

    def offsets(self) -> OffsetArray:
        """Return the offset of every element, as a cached read-only array of shape (rows, cols)."""
        return _offsets(self)

    def inverse(self) -> tuple[OffsetArray, OffsetArray]:
        """Return (row, col) of every offset below ``size``; -1 for unused offsets.

        Raises ValueError if not injective.
        """
        if not self.is_injective:
            raise ValueError(f"layout {self.text} has no inverse: it is not injective")
        table = np.full(self.size, -1, dtype=np.int32)
        table[self.offsets().ravel()] = np.arange(self.shape[0] * self.shape[1], dtype=np.int32)
        used = table >= 0
        row = np.where(used, table // np.int32(self.shape[1]), np.int32(-1))
        col = np.where(used, table % np.int32(self.shape[1]), np.int32(-1))
        return row, col

    def then(self, *steps: Step) -> "SharedLayout":
        """Return this layout followed by further ``steps``."""
        return SharedLayout(self.shape, self.transposed, self.steps + steps)

    # derived facts --------------------------------------------------------------------------------------------------

    @property
    def extent(self) -> int:
        """Number of elements of the tile with its pads, including a pad at the end.

        Swizzles do not affect the extent.
        """
        end = self.shape[0] * self.shape[1]
        for step in self.steps:
            if isinstance(step, Pad):
                end += end // (self.line * step.lines) * step.elements
        return end

    @property
    def size(self) -> int:
        """Number of elements to reserve: the largest offset + 1."""
        return facts(self).size

    @property
    def is_injective(self) -> bool:
        """True if different elements have different offsets."""
        return facts(self).injective

    @property
    def inside(self) -> bool:
        """True if every offset is below ``extent``.

        A swizzle whose period does not divide the tile may exceed the extent.
        """
        return facts(self).inside

    @property
    def period(self) -> tuple[int, int]:
        """Period (q, d): offsets increase by ``d`` every ``q`` lines. q may exceed the number of lines."""
        known = facts(self)
        return known.period, known.period_extent

    def first_lines(self, lines: int) -> "SharedLayout":
        """Return the same layout for a tile of only the first ``lines`` lines."""
        if lines == self.lines:
            return self
        shape = (self.line, lines) if self.transposed else (lines, self.line)
        return SharedLayout(shape, self.transposed, self.steps)

    def contiguity(self, axis: Axis) -> int:
        """Return the width in elements of the widest vectors into which the tile can be divided along ``axis``.

        The width is the largest power of two v that divides the tile along ``axis``, such that every aligned group of v
        elements has consecutive ascending offsets, which start at a multiple of v. With "cols", a group is in a row of
        the tile; with "rows", in a column.
        """
        known = facts(self)
        return known.contiguity_rows if axis == "rows" else known.contiguity_cols

    def why_illegal(self) -> str | None:
        """Return the reason why no kernel may use this layout, or None."""
        known = facts(self)
        rows, cols = self.shape
        if not known.injective:
            return f"layout {self.text} maps two elements of the {rows}x{cols} tile to one offset"
        if not known.inside:
            return (
                f"layout {self.text} exceeds the {rows}x{cols} tile: the largest offset is "
                f"{known.size - 1}, but the tile with its pads ends at {self.extent}"
            )
        return None


class LayoutFacts(NamedTuple):
    """Properties of a layout, computed by evaluating it. Counts are in elements.

    SharedLayout documents each property.
    """

    size: int
    injective: bool
    inside: bool
    contiguity_rows: int
    contiguity_cols: int
    line_axis: Axis
    period: int
    period_extent: int


@lru_cache(maxsize=2**16)
def facts(layout: SharedLayout) -> LayoutFacts:
    """Evaluate ``layout`` for one period (see ``_period``), and derive the properties of the whole tile."""
    line, lines = layout.line, layout.lines
    lasting, increment = _period(layout)
    period = min(lasting, lines)
    repeats = lines > period
    head = _facts_of_lines(layout.steps, line, period)

    whole, rest = divmod(lines, period)
    largest = head.largest + (whole - 1) * increment
    if rest:
        largest = max(largest, _facts_of_lines(layout.steps, line, rest).largest + whole * increment)

    along = min(head.along, increment & -increment) if repeats else head.along
    across = 1
    if lines % 2 == 0 and (head.second_line if period > 1 else head.first_line + increment) == head.first_line + 1:
        offsets = layout.offsets()
        across = _contiguity(offsets if layout.transposed else offsets.T)
    injective = head.injective
    if repeats and head.largest - head.smallest >= increment:
        # The ranges of offsets of different periods overlap, so the offsets of all periods are compared.
        injective = _is_injective(layout.offsets())
    return LayoutFacts(
        size=largest + 1,
        injective=injective,
        inside=largest < layout.extent,
        contiguity_rows=along if layout.transposed else across,
        contiguity_cols=across if layout.transposed else along,
        line_axis=layout.line_axis,
        period=lasting,
        period_extent=increment,
    )


class _FactsOfLines(NamedTuple):
    """Properties of some lines of a layout."""

    smallest: int
    largest: int
    along: int
    injective: bool
    first_line: int
    second_line: int


@lru_cache(maxsize=2**13)
def _facts_of_lines(steps: tuple[Step, ...], line: int, lines: int) -> _FactsOfLines:
    """Return properties of the first ``lines`` lines of a layout. Tiles of different sizes share the cached result."""
    layout = SharedLayout((lines, line), False, steps)
    head = layout.apply_steps(np.arange(lines * line, dtype=np.int32)).reshape(lines, line)
    return _FactsOfLines(
        smallest=int(head.min()),
        largest=int(head.max()),
        along=_contiguity(head),
        injective=_is_injective(head),
        first_line=int(head[0, 0]),
        second_line=int(head[min(1, lines - 1), 0]),
    )


def _period(layout: SharedLayout) -> tuple[int, int]:
    """Return (q, d) with f(line + q, position) == f(line, position) + d for all lines and positions.

    Steps are processed in order, and q and d are multiplied until each step repeats. A pad repeats if d is a multiple
    of its unit, a swizzle if d is a multiple of its period.
    """
    period = increment = layout.line
    for step in layout.steps:
        unit = layout.line * step.lines if isinstance(step, Pad) else step.period
        times = unit // math.gcd(unit, increment)
        period *= times
        increment *= times
        if isinstance(step, Pad):
            increment += increment // unit * step.elements
    return period // layout.line, increment


def _contiguity(offsets: OffsetArray) -> int:
    """Return the contiguity along the last axis: the vector width is doubled while adjacent groups are contiguous."""
    width, starts = 1, offsets
    while starts.shape[-1] % 2 == 0:
        left, right = starts[..., 0::2], starts[..., 1::2]
        if ((left & np.int32(2 * width - 1)).any()) or not np.array_equal(right, left + np.int32(width)):
            break
        width, starts = 2 * width, left
    return width


def _is_injective(offsets: OffsetArray) -> bool:
    used = np.zeros(int(offsets.max()) + 1, dtype=np.bool_)
    used[offsets.ravel()] = True
    return int(np.count_nonzero(used)) == offsets.size


@lru_cache(maxsize=128)
def _offsets(layout: SharedLayout) -> OffsetArray:
    linear = np.arange(layout.shape[0] * layout.shape[1], dtype=np.int32)
    offset = layout.apply_steps(linear).reshape(layout.lines, layout.line)
    if layout.transposed:
        offset = np.ascontiguousarray(offset.T)
    offset.setflags(write=False)
    return offset


# text -----------------------------------------------------------------------------------------------------------------

_STEPS = "xor (before other steps), pad(m,n) or swizzle(bits,base,shift)"


@lru_cache(maxsize=4096)
def _parse_terms(text: str) -> tuple[bool, tuple[Step | Literal["xor"], ...]]:
    """Return True if the text contains ``transpose`` (otherwise False), and the list of steps.

    The step ``xor`` stays text, because it depends on the tile.
    """
    reader = TextReader(text)
    if reader.accept("identity"):
        reader.end()
        return False, ()
    transposed = reader.accept("transpose")
    terms: list[Step | Literal["xor"]] = []
    while not ((transposed or terms) and reader.at_end()):
        if transposed or terms:
            reader.expect("+")
        if not terms and reader.accept("xor"):
            terms.append("xor")
        elif reader.accept("pad"):
            terms.append(_read_step(reader, Pad))
        elif reader.accept("swizzle"):
            terms.append(_read_step(reader, Swizzle))
        else:
            raise reader.fail(_STEPS if transposed or terms else f"identity, transpose, {_STEPS}")
    return transposed, tuple(terms)


def _read_step(reader: TextReader, step: type[Pad] | type[Swizzle]) -> Step:
    start, word = reader.position, step.__name__.lower()
    numbers, names = reader.integers("(", ")"), [field.name for field in dataclasses.fields(step)]
    if len(numbers) != len(names):
        raise reader.fail(f"{word}({','.join(names)})", start)
    try:
        return step(*numbers)
    except ValueError as error:
        raise reader.fail(f"arguments that {word} allows: {error}", start) from None


@lru_cache(maxsize=2**16)
def parse_layout(text: str, rows: int, cols: int) -> SharedLayout | str:
    """Parse the text of a layout for a tile. If no kernel may use the layout, return the reason in one sentence."""
    try:
        layout = SharedLayout.parse(text, (rows, cols))
    except ValueError as error:
        return str(error)
    return layout.why_illegal() or layout


# sampling -------------------------------------------------------------------------------------------------------------


def _log2_bytes(element_bytes: int) -> int:
    if element_bytes not in (1, 2, 4, 8, 16):
        raise ValueError(f"element_bytes must be 1, 2, 4, 8 or 16, not {element_bytes!r}")
    return element_bytes.bit_length() - 1


@lru_cache(maxsize=8)
def sampled_layouts(element_bytes: int) -> tuple[str, ...]:
    """Return the texts of the layouts from which a search samples: first untransposed, then transposed layouts.

    Pads have 4 bytes (one bank), 8, 16 or 32 bytes, but at least one element. Most swizzles move 16-byte chunks, the
    unit of ldmatrix and cp.async. A few swizzles move single elements; only loads for CUDA cores can use them. Raises
    ValueError unless elements have 1, 2, 4, 8 or 16 bytes.
    """
    chunk = 16 // (1 << _log2_bytes(element_bytes))
    base = chunk.bit_length() - 1
    pads = [f"pad({b // element_bytes},{lines})" for b in (4, 8, 16, 32) for lines in (1, 2, 4) if b >= element_bytes]
    swizzles = [f"swizzle({bits},{base},{shift})" for bits in (1, 2, 3) for shift in (3, 4, 5)]
    fine = [text for text in ("swizzle(3,0,5)", "swizzle(4,0,6)", "swizzle(5,0,5)") if text not in swizzles]
    both = [f"pad({chunk},4)+swizzle(1,{base},3)", f"pad({2 * chunk},2)+swizzle(2,{base},3)"]
    steps = [*pads, *swizzles, *fine, "xor", *both]
    return ("identity", *steps, "transpose", *(f"transpose+{step}" for step in steps))
