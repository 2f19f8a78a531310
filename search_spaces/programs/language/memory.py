"""Builder operations for windows on arrays: loads, stores, atomics and prefetches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace

from search_spaces.hardware.dtypes import BF16, E2M1X2, E4M3, E5M2, F16, F32, I8, I32, U8, DType, dtype
from search_spaces.layouts.memory_order import MemoryOrder
from search_spaces.layouts.wg_map import WgMap
from search_spaces.programs.language import index, ir
from search_spaces.programs.language.functions import ATOMICS
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.ir import Shape
from search_spaces.programs.language.named_functions import NamedFunctions, index_operand
from search_spaces.programs.language.values import (
    IndexLike,
    Recorder,
    State,
    Tile,
    WindowHandle,
    caller,
    constant_text,
    fail,
    shape_text,
    tile_of,
    value_text,
)

ARRAY_DTYPES = {t.name: t for t in (F16, BF16, F32, E4M3, E5M2, I32, I8, U8)}
# e2m1x2: pairs of 4-bit numbers, which only block-scaled products use
INPUT_DTYPES = ARRAY_DTYPES | {E2M1X2.name: E2M1X2}
LOCALITIES = (0, 1, 2, 3)
MOST_ELEMENTS = 2**31  # largest number of elements of a matrix that is indexed by tiles: indices in tiles are i32


def _check_tiles(array: ir.Array, order: MemoryOrder, at: object, shape: Shape, turned: bool) -> None:
    """Raise ProgramError unless a window on a packed array consists of whole tiles of the array's memory order."""
    sizes, positions = (order.rows, order.columns), at if isinstance(at, tuple | list) else (at,)
    if turned or any(isinstance(position, Tile | State) for position in positions):
        fail("window", f"{array.name} is packed: its windows cannot be transposed or indexed by tiles")
    divisors = [index_operand("window", position).divisor for position in positions]
    if any(divisor % size or extent % size for divisor, size, extent in zip(divisors, sizes, shape, strict=True)):
        fail("window", f"{array.name} is packed: windows are whole tiles of {order.rows}x{order.columns}")


def _window_of(operation: str, window: object) -> ir.Window:
    """Return the window of a window handle. Raises ProgramError if ``window`` is not a handle."""
    if not isinstance(window, WindowHandle):
        shown = window.name if isinstance(window, ir.Array) else repr(window)
        fail(operation, f"expected a window, not {shown}: use p.window(array, (row, column), (rows, columns))")
    return window.window


def shape_of(operation: str, shape: object) -> Shape:
    """Return ``shape``. Raises ProgramError unless ``shape`` is two positive whole numbers."""
    if not isinstance(shape, tuple | list) or len(shape) != 2:
        fail(operation, f"invalid shape {shape!r}: use a pair (rows, columns)")
    for size in shape:
        if type(size) is not int:
            fail(operation, f"invalid size {constant_text(size)} in a shape: use a whole number")
    if min(shape) < 1:
        fail(operation, f"invalid shape {shape_text((shape[0], shape[1]))}: rows and columns must be at least 1")
    return shape[0], shape[1]


class ArrayOperations(NamedFunctions, Recorder):
    """Builder operations on arrays."""

    _shared: int  # number of shared-memory tiles declared so far

    @abstractmethod
    def new_id(self) -> int:
        """Return an unused id for a value, window, state, loop or scalar."""

    @abstractmethod
    def result(
        self, shape: Shape, type_: DType, make: Callable[[ir.Value], ir.Operation], map: ir.UserMap | None = None
    ) -> Tile:
        """Append an operation, and return its result as a tile."""

    @abstractmethod
    def broadcast(self, value: Tile | State, dim: int, size: int) -> Tile:
        """Return a tile in which each element is repeated along a dimension."""

    @abstractmethod
    def _verify_map(self, operation: str, map: ir.UserMap, shape: Shape) -> None:
        """Raise ProgramError if a map does not fit the shape."""

    def ordered(self, array: ir.Array, order: MemoryOrder) -> ir.Array:
        """Declare that an array is packed in memory in the given order.

        The program continues to use the rows and columns of the unpacked matrix.

        Args:
            array: An input matrix, whose extents are multiples of the order's tile.
            order: Order of the packed elements in memory.

        Returns:
            The array with this memory order.

        Raises:
            ProgramError: If the array is not an input matrix of fixed sizes, or its extents are not multiples of the
                tile.
        """
        rows, columns = array.matrix
        if array.role != "input" or len(array.full) != 2 or array.dynamic is not None or array.line is not None:
            fail("ordered", f"{array.name} cannot be packed: only an Input with two constant extents can")
        if rows % order.rows or columns % order.columns:
            fail(
                "ordered",
                f"{array.name} is {rows}x{columns}: packed arrays need multiples of {order.rows}x{order.columns}",
            )
        return replace(array, order=order)

    def window(
        self,
        array: ir.Array,
        at: Tile | tuple[IndexLike, IndexLike],
        shape: Shape,
        *,
        turned: bool = False,
        column: bool = False,
        map: WgMap | None = None,
    ) -> WindowHandle:
        """Return a window, a tile-shaped part of an array (RFC, init_tile).

        The window may extend beyond the array. Outside of the array, loads return their ``padding``, and stores have no
        effect.

        Args:
            array: The array.
            at: Position (row, column) of the window's first element. To gather or scatter (RFC, #scatter), pass i32
                tiles instead of numbers. A tile for the row selects a row of the array for each row of the window. In a
                ``turned`` window, a tile for the column selects a row of the array for each column of the window. If
                row and column are both tiles, they select single elements, and extents of 1 are broadcast. For a
                vector, pass one i32 tile with the position of each element.
            shape: (rows, columns). A vector is one row.
            turned: True if the window shows the transposed array (order = [0, 1]).
            column: True if a vector is one column instead.
            map: Distribution of loaded elements over subgroups; None: the schedule chooses.

        Raises:
            ProgramError: If an argument is invalid.
        """
        if not isinstance(array, ir.Array):
            fail("window", f"a window on {array!r}: pass an array of the program")
        shape = shape_of("window", shape)
        if not isinstance(at, Tile | State | tuple | list) or (not isinstance(at, Tile | State) and len(at) != 2):
            fail("window", f"invalid position {at!r} of a window: use a pair (row, column)")
        if len(array.shape) > 2:
            fail(
                "window",
                f"{array.name} has {len(array.shape)} dimensions: index all but the last two, {array.name}[i]",
            )
        if column and len(array.sizes) != 1:
            fail(
                "window",
                f"column=True for {array.name}, which has {len(array.sizes)} extents: only vectors can be columns",
            )
        if map is not None:
            self._verify_map("window", map, shape)
        turned = turned or column
        if array.order is not None:
            _check_tiles(array, array.order, at, shape, turned)
        if isinstance(at, Tile | State) or any(isinstance(a, Tile | State) for a in at):
            return self._scattered(array, at, shape, turned, map)
        positions = index_operand("window", at[0]), index_operand("window", at[1])
        return WindowHandle(self, ir.Window(self.new_id(), array, positions, shape, turned, map))

    def _scattered(
        self,
        array: ir.Array,
        at: Tile | State | tuple[IndexLike, IndexLike],
        shape: Shape,
        turned: bool,
        map: WgMap | None,
    ) -> WindowHandle:
        """Return a window whose elements are selected by a tile of indices."""
        if map is not None or array.role == "shared":
            fail(
                "window",
                "a window that is indexed by tiles needs an array in global memory and cannot have a map",
            )
        if len(array.shape) == 1:
            if not isinstance(at, Tile | State):
                fail("window", f"{array.name} is a vector: pass one tile of indices, not a pair")
            indices, positions, wanted = at.tile(), (index.constant(0), index.constant(0)), shape
        else:
            if isinstance(at, Tile | State):
                fail("window", f"{array.name} is a matrix: pass a pair, (tile of row indices, column)")
            across, line = at if not turned else at[::-1]
            if isinstance(line, Tile | State) and isinstance(across, Tile | State):
                return self._of_elements(array, across.tile(), line.tile(), shape)
            if isinstance(line, Tile | State) or not isinstance(across, Tile | State):
                fail(
                    "window",
                    f"invalid position in {array.name}: pass a tile of row numbers and the index of the first column",
                )
            indices, along = across.tile(), index_operand("window", line)
            positions = (along, index.constant(0)) if turned else (index.constant(0), along)
            wanted = (1, shape[1]) if turned else (shape[0], 1)
        if (indices.shape, indices.value.dtype) != (wanted, I32):
            fail("window", f"the indices are {value_text(indices.value)}: use {shape_text(wanted)} i32")
        return WindowHandle(self, ir.Window(self.new_id(), array, positions, shape, turned, None, indices.value))

    def _of_elements(self, array: ir.Array, row: Tile, column: Tile, shape: Shape) -> WindowHandle:
        """Return a window with a row index and a column index for each element.

        The window's index is the row-major position in the matrix, or -1 for elements outside of the matrix.
        """
        rows, columns = array.matrix
        if array.dynamic is not None or array.pitch is not None:
            fail("window", f"{array.name} has a dynamic size or stride: index only one dimension by a tile")
        for name, tile in (("rows", row), ("columns", column)):
            if tile.value.dtype != I32 or any(n not in (1, size) for n, size in zip(tile.shape, shape, strict=True)):
                fail("window", f"indices of {name} are {value_text(tile.value)}: use {shape_text(shape)} i32")
        if rows * columns > MOST_ELEMENTS:
            fail("window", f"{array.name} has more than 2^31 elements, which 32-bit indices cannot address")
        inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
        position = self.map("where", inside, row * columns + column, -1)
        for d in (0, 1):
            position = position if position.shape[d] == shape[d] else self.broadcast(position, d, shape[d])
        line = ir.Array(
            array.name, array.role, array.dtype, array.sizes, (*array.full[:-2], 1, rows * columns), array.lead
        )
        zero = index.constant(0)
        return WindowHandle(
            self, ir.Window(self.new_id(), line, (zero, zero), shape, False, None, position.value, True)
        )

    def shared(self, rows: int, columns: int, type_: str) -> ir.Array:
        """Return a tile in shared memory (RFC, a memref with slm), which is stored and loaded through windows.

        A block may load elements that it has stored in the tile. The compiler inserts barriers between stores and
        loads. The search chooses the tile's layout in shared memory.
        """
        shape_of("shared", (rows, columns))
        try:
            element = dtype(type_, ARRAY_DTYPES)
        except ValueError as error:
            fail("shared", str(error))
        if element.bits < 16:
            fail("shared", f"invalid type {type_} of a tile in shared memory: use f16, bf16, f32 or i32")
        self._shared += 1
        return ir.Array(f"shared_{self._shared}", "shared", element, (), (rows, columns))

    def load(self, window: WindowHandle, *, padding: float = 0.0) -> Tile:
        """Return the elements of a window, with ``padding`` outside of the array (RFC, load_tile).

        A load of an InOut array sees earlier stores of this block. A block must not load elements that another block
        stores.
        """
        target = _window_of("load", window)
        if target.array.role == "output":
            fail("load", f"{target.array.name} is an Output, which has no initial values: declare it as an InOut")
        return self.result(
            target.shape, target.array.dtype, lambda v: ir.LoadTile(v, target, float(padding), caller()), target.map
        )

    def store(self, value: Tile | State, window: WindowHandle, *, rows_below: Index | int | None = None) -> None:
        """Store a value of the window's shape and type (RFC, store_tile).

        Elements outside of the array are not written.

        Rows of the array from ``rows_below`` on are not written. Use this argument for arrays of concatenated sequences
        or groups, in which the next rows belong to another sequence or group.

        A store to an indexed window (RFC, store_scatter) needs distinct positions and an InOut array; all other
        positions keep the caller's values.
        """
        tile, to = tile_of("store", value), _window_of("store", window)
        self._check_target("store", "store_tile", tile, to)
        if to.index is not None and to.array.role != "inout":
            fail(
                "store",
                f"{to.array.name} is an Output, but an indexed store writes only some elements: declare it as an InOut",
            )
        end = None if rows_below is None else index_operand("store", rows_below)
        if end is not None and (to.index is not None or to.array.role == "shared"):
            fail(
                "store",
                "rows_below with an indexed window or shared memory: use a window on a parameter, without indices",
            )
        self.add(ir.StoreTile(tile.value, to, caller(), end))

    def atomic_rmw(self, kind: str, value: Tile | State, window: WindowHandle) -> Tile:
        """Combine each element of the window with the value, in any order (RFC, atomic_rmw).

        Old values depend on the order in which blocks and threads combine elements. Results must not depend on this
        order. The only exception is the order of elements in an ``unordered`` array, such as a queue.

        Args:
            kind: For f32, f16 and bf16: addf, mulf, maximumf, minimumf, maxnumf or minnumf. For i32: addi, muli, maxs,
                mins, maxu, minu, andi, ori or xori. For all these types: assign; each element may be assigned by only
                one block.
            value: A tile or a state.
            window: A window on an InOut array.

        Returns:
            The old elements; 0 outside of the array. The kernel fetches them only if some operation uses them.

        Raises:
            ProgramError: If the kind does not support the type, or if the shapes or types of value and window differ.
        """
        tile, to = tile_of("atomic_rmw", value), _window_of("atomic_rmw", window)
        self._check_target("atomic_rmw", "atomic_rmw", tile, to)
        if to.array.role != "inout":
            fail(
                "atomic_rmw",
                f"{to.array.name} is an Output, but atomics combine with existing values: declare it as an InOut",
            )
        name = to.array.dtype.name
        if kind not in ATOMICS or name not in ATOMICS[kind].types:
            known = ", ".join(k for k, row in ATOMICS.items() if name in row.types)
            fail("atomic_rmw", f"{kind} does not support {name}: use {known or 'another type'}")
        return self.result(tile.shape, tile.value.dtype, lambda v: ir.AtomicFetch(kind, tile.value, to, caller(), v))

    def atomic_add(self, value: Tile | State, window: WindowHandle) -> Tile:
        """Add a value to the elements of the window atomically. Return the old elements, like ``atomic_rmw``."""
        tile = tile_of("atomic_add", value)
        return self.atomic_rmw("addf" if tile.value.dtype.is_float else "addi", tile, window)

    def _check_target(self, operation: str, rule: str, tile: Tile, to: ir.Window) -> None:
        if to.array.role == "input":
            fail(operation, f"{to.array.name} is an Input, which programs only load: declare it as an InOut")
        if tile.shape != to.shape:
            fail(
                operation,
                f"the value is {value_text(tile.value)}, but the window is {shape_text(to.shape)}: use one shape (RFC,"
                f" {rule})",
            )
        if tile.value.dtype != to.array.dtype:
            name = to.array.dtype.name
            fail(operation, f'the value is {tile.value.dtype.name}, but {to.array.name} is {name}: use .cast("{name}")')

    def prefetch(self, window: WindowHandle, *, locality: int = 3) -> None:
        """Prefetch a window that is loaded later (RFC, prefetch_tile).

        ``locality`` is 0 to 3: 3 prefetches to L1, 1 and 2 to L2.
        """
        target = _window_of("prefetch", window)
        if target.index is not None:
            fail("prefetch", "a window indexed by tiles cannot be prefetched")
        if locality not in LOCALITIES:
            fail("prefetch", f"invalid locality {locality}: use 0 to 3 (RFC, prefetch_tile)")
        self.add(ir.Prefetch(target, locality, caller()))
