"""The builder ``p`` that a traced function receives: each method call on it adds an operation to the trace.

Shapes and types are checked when an operation is added. Every error names the file, the line, the operation and the
rule. If a rule comes from the XeTile RFC, the message says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn

from search_spaces.hardware.block_scaling import BLOCK_FORMATS
from search_spaces.hardware.dtypes import BF16, E4M3, E5M2, F16, F32, I8, I32, U8, DType, dtype
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.wg_map import WgMap
from search_spaces.programs.language import ir
from search_spaces.programs.language.functions import FUNCTIONS
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.ir import Shape
from search_spaces.programs.language.layout_distributions import subgroup_lanes
from search_spaces.programs.language.loops import Loops
from search_spaces.programs.language.memory import ARRAY_DTYPES, ArrayOperations, shape_of
from search_spaces.programs.language.named_functions import index_operand
from search_spaces.programs.language.reductions import Reductions
from search_spaces.programs.language.slices import Slices
from search_spaces.programs.language.values import (
    Operand,
    State,
    Tile,
    caller,
    constant_text,
    fail,
    nearest,
    shape_text,
    tile_of,
    value_text,
)

DEPTH = 32  # extent of k of one block-scaled instruction, counted in array elements (a byte may hold two values)
MULTIPLIED = (F16, BF16, F32, E4M3, E5M2, I8)


class Builder(Loops, Slices, Reductions, ArrayOperations):
    """The builder that a traced function receives as ``p``."""

    def __init__(self, chosen: Mapping[str, int]) -> None:
        self.chosen = dict(chosen)
        self.domains: dict[str, tuple[int, ...]] = {}
        self.extent: tuple[int, ...] | None = None
        self.tile: tuple[int, ...] = ()
        self.dynamic: tuple[Index | None, ...] = ()
        super().__init__()
        self._count = 0
        self._shared = 0

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        known = [n for n in dir(type(self)) if n not in ("add", "either", "map", "new_id", "part_of", "result")]
        fail(name, f"unknown operation: {nearest(name, known)}")

    @property
    def unused_id(self) -> int:
        """The smallest id that no value, window, state, loop or scalar has."""
        return self._count + 1

    def new_id(self) -> int:
        """Return an unused id for a value, window, state, loop or scalar."""
        self._count += 1
        return self._count

    def result(
        self, shape: Shape, type_: DType, make: Callable[[ir.Value], ir.Operation], map: ir.UserMap | None = None
    ) -> Tile:
        """Append an operation, and return its result as a tile.

        Args:
            shape: Shape of the tile.
            type_: Element type.
            make: Function that returns the operation for a given result value.
            map: Distribution of the result over subgroups; None: the schedule chooses.
        """
        value = ir.Value(self.new_id(), shape, type_, map)
        self.add(make(value))
        return Tile(self, value)

    # Sizes and positions

    def choose(self, **domains: tuple[int, ...]) -> int | tuple[int, ...]:
        """Let the search choose sizes: ``bm, bn = p.choose(bm=(64, 128), bn=(64, 128))``."""
        for name, values in domains.items():
            if not name.isidentifier() or name in self.domains:
                fail("choose", f"{name} is chosen twice")
            if not isinstance(values, tuple | list) or not values or any(type(v) is not int or v < 0 for v in values):
                fail(
                    "choose",
                    f"invalid values of {name}, {values!r}: use a tuple of whole numbers from 0 up, such as (64, 128)",
                )
            self.domains[name] = tuple(sorted(set(values)))
        sizes = tuple(self.chosen.get(name, self.domains[name][0]) for name in domains)
        return sizes[0] if len(sizes) == 1 else sizes

    def blocks(self, extent: tuple[Index | int, ...], tile: tuple[int, ...]) -> tuple[Index, ...]:
        """Divide ``extent`` (1 to 3 dimensions) into tiles, one per block. Return the position of the block's tile."""
        if self.extent is not None:
            fail("blocks", "a second call of p.blocks: call it once per program")
        if not isinstance(extent, tuple | list) or not isinstance(tile, tuple | list):
            fail(
                "blocks",
                f"invalid arguments {extent!r} and {tile!r}: pass two tuples, as in p.blocks((m, n), (bm, bn))",
            )
        if len(extent) != len(tile) or not 1 <= len(tile) <= 3:
            fail(
                "blocks",
                f"extent has {len(extent)} dimensions and tile {len(tile)}: use the same number, one to three",
            )
        sizes = tuple(n if isinstance(n, Index) and n.kind == "size" else None for n in extent)
        here = tuple(n.args[0].number if isinstance(n, Index) and n.kind == "size" else n for n in extent)
        for size in (*here, *tile):
            if type(size) is not int:
                fail("blocks", f"invalid extent or tile size {constant_text(size)}: use whole numbers")
        if min(tile) < 1:
            fail("blocks", f"invalid tile {'x'.join(map(str, tile))}: use sizes of at least 1")
        self.extent, self.tile = tuple(n for n in here if isinstance(n, int)), tuple(tile)
        self.dynamic = sizes if any(sizes) else ()
        return tuple(Index("block", axis) * size for axis, size in enumerate(tile))

    def cover(self, extent: int) -> int:
        """Return the smallest power of two >= ``extent``, as the size of a tile that contains whole rows or columns.

        Raises:
            ProgramError: If ``extent`` is a dynamic size.
        """
        if type(extent) is not int:
            fail("cover", f"{extent} is a dynamic size: divide it into tiles instead")
        return 1 << max(extent - 1, 0).bit_length()

    def _map(self, operation: str, map: WgMap | None, shape: Shape) -> WgMap | None:
        if map is not None:
            self._verify_map(operation, map, shape)
        return map

    def _verify_map(self, operation: str, map: ir.UserMap, shape: Shape) -> None:
        try:
            if isinstance(map, NestedLayout):
                map.verify(shape, subgroup_lanes(map))
            else:
                map.verify(shape)
        except ValueError as error:
            fail(operation, str(error))

    # Values

    def zeros(self, shape: Shape, type_: str = "f32") -> Tile:
        """Return a tile of zeros."""
        return self.full(shape, 0.0, type_)

    def full(self, shape: Shape, number: float, type_: str = "f32") -> Tile:
        """Return a tile filled with one number."""
        shape = shape_of("full", shape)
        if not isinstance(number, int | float):
            fail("full", f"invalid value {number!r}: use one number")
        try:
            element = dtype(type_, ARRAY_DTYPES)
        except ValueError as error:
            fail("full", str(error))
        return self.result(shape, element, lambda v: ir.Fill(v, float(number), caller()))

    def rows(self, first: Index | int, count: int) -> Tile:
        """Return ``first``, ``first + 1``, ... as one column of i32: the positions of a window's rows."""
        return self._coordinates(0, first, (count, 1))

    def columns(self, first: Index | int, count: int) -> Tile:
        """Return ``first``, ``first + 1``, ... as one row of i32: the positions of a window's columns."""
        return self._coordinates(1, first, (1, count))

    def _coordinates(self, dimension: int, first: Index | int, shape: Shape) -> Tile:
        base, shape = index_operand("rows" if dimension == 0 else "columns", first), shape_of("rows, columns", shape)
        return self.result(shape, I32, lambda v: ir.Coordinates(v, dimension, base, caller()))

    def mma(
        self,
        a: Tile | State,
        b: Tile | State,
        c: Tile | State | None = None,
        *,
        map: WgMap | None = None,
        tf32: bool = False,
        scale_a: Tile | State | None = None,
        scale_b: Tile | State | None = None,
    ) -> Tile:
        """Return a @ b + c, summed in f32, or in i32 for i8 (RFC, tile_mma).

        Args:
            a: Left operand, of shape (m, k).
            b: Right operand, of shape (k, n) and the type of ``a``.
            c: Summand, of shape (m, n) and the type of the result; None: zeros.
            map: Distribution of the result over subgroups; None: the schedule chooses.
            tf32: True if f32 operands may be rounded to tf32 (11 significant bits) for tensor cores.
            scale_a: u8 tile of shape (m, blocks): one scale for each block along k. A block consists of 32 e4m3 (mxf8),
                16 pairs of e2m1 (mxf4) or 8 pairs of e2m1 (nvf4). For mxf8 and mxf4, a scale is an exponent biased by
                127, and 255 is NaN. For nvf4, a scale is an e4m3 number.
            scale_b: u8 tile of shape (blocks, n), in the format of ``scale_a``.

        Raises:
            ProgramError: If shapes or types do not fit.
        """
        left, right = tile_of("mma", a), tile_of("mma", b)
        (m, k), (depth, n) = left.shape, right.shape
        if k != depth:
            fail(
                "mma",
                f"shapes do not match (RFC, tile_mma): {shape_text(left.shape)} @ {shape_text(right.shape)}",
            )
        if left.value.dtype != right.value.dtype:
            fail("mma", f"a is {left.value.dtype.name}, but b is {right.value.dtype.name}: use one type")
        if left.value.dtype not in MULTIPLIED and (scale_a is None or left.value.dtype.values == 1):
            fail("mma", f"a and b are {left.value.dtype.name}: use {' or '.join(t.name for t in MULTIPLIED)}")
        if tf32 and left.value.dtype != F32:
            fail("mma", f"tf32=True with operands of {left.value.dtype.name}: use f32")
        added, sums = None if c is None else tile_of("mma", c), I32 if left.value.dtype == I8 else F32
        if added is not None and (added.shape, added.value.dtype) != ((m, n), sums):
            fail("mma", f"c is {value_text(added.value)}: use {m}x{n} {sums.name}")
        if map is not None:
            self._verify_map("mma", map, (m, n))
        last = None if added is None else added.value
        scales = self._scales(left, right, scale_a, scale_b)
        return self.result(
            (m, n), sums, lambda v: ir.Mma(v, left.value, right.value, last, caller(), tf32, scales), map
        )

    def _scales(
        self, left: Tile, right: Tile, scale_a: Tile | State | None, scale_b: Tile | State | None
    ) -> tuple[ir.Value, ir.Value] | None:
        """Return the scales of both operands of a product, or None if there are none.

        Raises:
            ProgramError: If only one operand has scales, or the types or shapes of the scales are not supported.
        """
        if scale_a is None and scale_b is None:
            return None
        if scale_a is None or scale_b is None:
            fail("mma", "only one operand has scales: pass scale_a and scale_b, or neither")
        (m, k), n = left.shape, right.shape[1]
        of_a, of_b = (tile_of("mma", scale).value for scale in (scale_a, scale_b))
        row = ir.block_format(left.value, of_a)
        if row is None or k % DEPTH:
            known = ", ".join(f"{r.block_elements} {r.element.name} ({r.name})" for r in BLOCK_FORMATS.values())
            fail(
                "mma",
                f"unsupported scales: {value_text(left.value)} with {value_text(of_a)}: a scale covers {known} along "
                f"k, and k must be a multiple of {DEPTH}",
            )
        blocks = k // row.block_elements
        for name, value, shape in (("a", of_a, (m, blocks)), ("b", of_b, (blocks, n))):
            if (value.shape, value.dtype) != (shape, U8):
                fail("mma", f"scale_{name} is {value_text(value)}: use {shape_text(shape)} u8")
        return of_a, of_b

    def transpose(self, value: Tile | State, *, map: WgMap | None = None) -> Tile:
        """Return the transposed tile (RFC, transpose)."""
        tile = tile_of("transpose", value)
        rows, columns = tile.shape
        return self.result(
            (columns, rows),
            tile.value.dtype,
            lambda v: ir.TransposeTile(v, tile.value, caller()),
            self._map("transpose", map, (columns, rows)),
        )

    def broadcast(self, value: Tile | State, dim: int, size: int, *, map: WgMap | None = None) -> Tile:
        """Repeat elements along a dimension (RFC, broadcast, broadcast_size).

        Args:
            value: A tile or a state.
            dim: 0 or 1.
            size: New extent, a multiple of the old extent. The old extent may be 1.
            map: Distribution of the result over subgroups; None: the schedule chooses.

        Raises:
            ProgramError: If ``size`` is not a multiple of the extent.
        """
        if dim not in (0, 1):
            fail("broadcast", f"invalid dim={dim}: use 0 or 1")
        tile = tile_of("broadcast", value)
        extent = tile.shape[dim]
        if size < 1 or size % extent:
            fail(
                "broadcast",
                f"invalid size {size}: use a multiple of dimension {dim} of {shape_text(tile.shape)} (RFC, "
                "broadcast_size)",
            )
        shape = (size, tile.shape[1]) if dim == 0 else (tile.shape[0], size)
        return self.result(
            shape,
            tile.value.dtype,
            lambda v: ir.Broadcast(v, tile.value, dim, caller()),
            self._map("broadcast", map, shape),
        )

    def convert_layout(self, value: Tile | State, map: ir.UserMap | None = None, *, shared: bool = False) -> Tile:
        """Redistribute a value over threads as in ``map``; if None, the search chooses the map (RFC, convert_layout).

        ``shared``: True to go through shared memory even where register moves would suffice (IREE VectorExt,
        shared_memory_conversion).
        """
        tile = tile_of("convert_layout", value)
        if map is not None:
            self._verify_map("convert_layout", map, tile.shape)
        return self.result(tile.shape, tile.value.dtype, lambda v: ir.Convert(v, tile.value, shared, caller()), map)

    def map(self, function: str, *operands: object) -> Tile:
        """Apply an element-wise function to tiles and numbers; extents of 1 are broadcast."""
        row = FUNCTIONS.get(function)
        if row is None:
            fail(function, f"unknown function: use {', '.join(FUNCTIONS)}")
        read = [
            a.tile() if isinstance(a, Tile | State) else self.rows(a, 1) if isinstance(a, Index) else a
            for a in operands
        ]
        if len(read) != row.arity:
            fail(function, f"expected {row.arity} arguments, not {len(read)}")
        tiles = [a for a in read if isinstance(a, Tile)]
        if not tiles:
            fail(function, "no operand is a tile: pass at least one")
        shape = tuple(max(t.shape[d] for t in tiles) for d in (0, 1))
        if any(t.shape[d] not in (1, shape[d]) for t in tiles for d in (0, 1)):
            operands_text = " and ".join(value_text(t.value) for t in tiles)
            fail(function, f"shapes of {operands_text} differ: use one shape, extents of 1, or p.broadcast")
        of_numbers = next((t.value.dtype for t in reversed(tiles)), F32)
        if row.types == "chosen" and not any(isinstance(a, Tile) for a in read[1:]):
            of_numbers = F32
        types = tuple(a.value.dtype if isinstance(a, Tile) else of_numbers for a in read)
        result = row.result(types)
        if isinstance(result, str):
            shown = " and ".join(t.value.dtype.name for t in tiles)
            hint = ': use .cast("f32")' if any(t.value.dtype not in (F32, I32) for t in tiles) else ""
            hint = ': use // or .cast("f32")' if function == "divide" and of_numbers == I32 else hint
            fail(function, f"the operands are {shown}, but must be {result}{hint}")
        values: list[ir.Value | float] = []
        for a in read:
            if isinstance(a, Tile):
                stretched = a
                for d in (0, 1):
                    if stretched.shape[d] != shape[d]:
                        stretched = self.broadcast(stretched, d, shape[d])
                values.append(stretched.value)
            elif isinstance(a, (int, float)):
                if of_numbers == I32 and a != int(a):
                    fail(function, f"operand {a} with an i32 tile: use a whole number")
                values.append(float(a))
            else:
                shown = f"the array {a.name}: load a window of it" if isinstance(a, ir.Array) else repr(a)
                fail(function, f"an operand is not a tile or a number: {shown}")
        return self.result((shape[0], shape[1]), result, lambda v: ir.Map(v, function, tuple(values), caller()))

    def either(self, truths: str, bits: str, a: Operand, b: Operand) -> Tile:
        """Apply ``&`` or ``|`` to truth values, or to the bits of whole numbers.

        Args:
            truths: Name of the function for truth values.
            bits: Name of the function for whole numbers.
            a: A tile, a state or a number.
            b: A tile, a state or a number.
        """
        left = a.tile() if isinstance(a, (Tile, State)) else None
        return self.map(bits if left is not None and left.value.dtype == I32 else truths, a, b)

    def cast(self, value: Tile | State, to: str) -> Tile:
        """Convert a tile to another type, with rounding if necessary.

        Casts to integer types truncate towards zero; call ``p.round`` first to round to the nearest number. Casts to
        i8, u8, e4m3 and e5m2 saturate at the largest number of the type.
        """
        tile = tile_of("cast", value)
        if tile.value.dtype.values > 1:
            fail(
                "cast",
                f"a cast of {tile.value.dtype.name}, which only p.mma with scales can use: declare the array in "
                "another type",
            )
        try:
            type_ = dtype(to, ARRAY_DTYPES)
        except ValueError as error:
            fail("cast", str(error))
        if type_ == tile.value.dtype:
            return tile
        return self.result(tile.shape, type_, lambda v: ir.Map(v, "cast", (tile.value,), caller()))
