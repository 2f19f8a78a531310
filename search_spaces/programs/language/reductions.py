"""Builder operations for reductions along a dimension of a tile, argmax and argmin, and scans."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from search_spaces.hardware.dtypes import I32, DType
from search_spaces.layouts.wg_map import WgMap
from search_spaces.programs.language import ir
from search_spaces.programs.language.functions import ONE_OF_GROUP, PICKED, PICKS, REDUCTIONS, SCANS
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.ir import Shape
from search_spaces.programs.language.named_functions import NamedFunctions, index_operand
from search_spaces.programs.language.values import State, Tile, caller, fail, shape_text, tile_of

LAST_INDEX = 2**31 - 1  # index that top_k assigns to elements already picked; no other index is larger


class Reductions(NamedFunctions):
    """Builder operations for reductions and scans."""

    @abstractmethod
    def result(
        self, shape: Shape, type_: DType, make: Callable[[ir.Value], ir.Operation], map: ir.UserMap | None = None
    ) -> Tile:
        """Append an operation, and return its result as a tile."""

    @abstractmethod
    def rows(self, first: Index | int, count: int) -> Tile:
        """Return the row positions as a column."""

    @abstractmethod
    def columns(self, first: Index | int, count: int) -> Tile:
        """Return the column positions as a row."""

    @abstractmethod
    def broadcast(self, value: Tile | State, dim: int, size: int) -> Tile:
        """Return a tile in which each element is repeated along a dimension."""

    @abstractmethod
    def _map(self, operation: str, map: WgMap | None, shape: Shape) -> WgMap | None:
        """Return the map, or raise ProgramError if the map does not fit the shape."""

    def reduction(
        self, kind: str, value: Tile | State, dim: int, *, size: int | None = None, map: WgMap | None = None
    ) -> Tile:
        """Reduce a tile along a dimension (RFC, reduction).

        Args:
            kind: A key of REDUCTIONS, such as "add".
            value: A tile or a state.
            dim: Dimension that is reduced: 0 combines rows, 1 combines columns.
            size: Number of consecutive elements that are reduced to one (reduction_size); None: all elements.
            map: Distribution of the result over subgroups; None: the schedule chooses.

        Raises:
            ProgramError: If the kind is unknown or does not support the type, or ``size`` does not divide the extent.
        """
        tile = tile_of("reduction", value)
        kinds = {name: row for name, row in REDUCTIONS.items() if name != ONE_OF_GROUP}
        row = kinds.get(kind)
        if row is None:
            fail("reduction", f"unknown kind {kind}: use {', '.join(kinds)}")
        _check_type("reduction", kind, row.types, tile)
        shape = _reduced("reduction", tile, dim, size)
        return self.result(
            shape,
            tile.value.dtype,
            lambda v: ir.ReduceTile(v, kind, tile.value, dim, caller()),
            self._map("reduction", map, shape),
        )

    def argmax(self, value: Tile | State, dim: int, *, first: Index | int = 0, size: int | None = None) -> Tile:
        """Return the index (i32) of the largest element along a dimension.

        Among equal elements the smallest index is returned. NaN is larger than all numbers, as in numpy.

        Args:
            value: A tile or state of f32 or i32. The padding of ``value`` must be -inf, or the smallest i32.
            dim: 0 or 1.
            first: Index of the first row or column of the tile.
            size: Number of consecutive elements of which one is picked; None: all elements.

        Raises:
            ProgramError: If the type is not f32 or i32, or ``size`` does not divide the extent.
        """
        return self._picked("argmax", value, dim, first, size)[1]

    def argmin(self, value: Tile | State, dim: int, *, first: Index | int = 0, size: int | None = None) -> Tile:
        """Return the index (i32) of the smallest element along a dimension.

        Among equal elements the smallest index is returned. NaN is smaller than all numbers, as in numpy.

        Args:
            value: A tile or state of f32 or i32. The padding of ``value`` must be inf, or the largest i32.
            dim: 0 or 1.
            first: Index of the first row or column of the tile.
            size: Number of consecutive elements of which one is picked; None: all elements.

        Raises:
            ProgramError: If the type is not f32 or i32, or ``size`` does not divide the extent.
        """
        return self._picked("argmin", value, dim, first, size)[1]

    def max_with_index(self, value: Tile | State, dim: int, *, first: Index | int = 0) -> tuple[Tile, Tile]:
        """Return the largest elements along a dimension and their indices.

        The arguments are the same as for ``argmax``, without ``size``. The indices are the result of ``argmax``.

        Raises:
            ProgramError: If the type is not f32 or i32, or ``dim`` is not 0 or 1.
        """
        return self._picked("argmax", value, dim, first, None)

    def min_with_index(self, value: Tile | State, dim: int, *, first: Index | int = 0) -> tuple[Tile, Tile]:
        """Return the smallest elements along a dimension and their indices.

        The arguments are the same as for ``argmin``, without ``size``. The indices are the result of ``argmin``.

        Raises:
            ProgramError: If the type is not f32 or i32, or ``dim`` is not 0 or 1.
        """
        return self._picked("argmin", value, dim, first, None)

    def top_k(self, value: Tile | State, k: int, dim: int, *, first: Index | int = 0) -> tuple[tuple[Tile, Tile], ...]:
        """Return the ``k`` largest elements along a dimension with their indices, largest first.

        The program executes ``k`` reductions, so ``k`` should be small.

        Args:
            value: A tile or state of f32 or i32, padded as for ``argmax``.
            k: A number from 1 to the extent of the dimension.
            dim: 0 or 1.
            first: Index of the first row or column of the tile.

        Returns:
            ``k`` pairs (elements, indices). The tiles of a pair have one row for dim=0, one column for dim=1.

        Raises:
            ProgramError: If the type is not f32 or i32, or ``k`` is out of range.
        """
        tile = tile_of("top_k", value)
        _check_dim("top_k", dim)
        if type(k) is not int or not 1 <= k <= tile.shape[dim]:
            fail("top_k", f"invalid k={k!r}: use 1 to {tile.shape[dim]}, the extent of dimension {dim}")
        index, largest = self._indices(tile.shape, dim, index_operand("top_k", first)), list[tuple[Tile, Tile]]()
        _check_type("top_k", "argmax", tuple(PICKS["argmax"].start), tile)
        least = PICKS["argmax"].start[tile.value.dtype.name]
        for _ in range(k):
            best, at = self._pick("argmax", tile, index, dim, (1, tile.shape[1]) if dim == 0 else (tile.shape[0], 1))
            largest.append((best, at))
            is_picked = index == at
            tile, index = self.where(is_picked, least, tile), self.where(is_picked, LAST_INDEX, index)
        return tuple(largest)

    def scan(self, kind: str, value: Tile | State, dim: int, *, exclusive: bool = False, reverse: bool = False) -> Tile:
        """Return running sums, products, maxima or minima along a dimension.

        Args:
            kind: One of add, mul, maximumf, minimumf, maxsi and minsi, as in ``reduction``.
            value: A tile or a state.
            dim: 0 or 1.
            exclusive: True if each result excludes the element at its own position. The first result is then the
                neutral element, such as 0.
            reverse: True to start the scan at the last element.

        Returns:
            A tile of the same shape and type.

        Raises:
            ProgramError: If the kind is unknown or does not support the type.
        """
        tile = tile_of("scan", value)
        if kind not in SCANS:
            fail("scan", f"unknown kind {kind}: use {', '.join(SCANS)}")
        _check_type("scan", kind, REDUCTIONS[kind].types, tile)
        _check_dim("scan", dim)
        return self.result(
            tile.shape,
            tile.value.dtype,
            lambda v: ir.Scan(v, kind, tile.value, dim, bool(exclusive), bool(reverse), caller()),
        )

    def cumsum(self, value: Tile | State, dim: int, *, exclusive: bool = False, reverse: bool = False) -> Tile:
        """Return running sums along a dimension.

        The arguments are the same as for ``scan``, without ``kind``.

        Raises:
            ProgramError: If ``scan`` does not support sums of the type, or ``dim`` is not 0 or 1.
        """
        return self.scan("add", value, dim, exclusive=exclusive, reverse=reverse)

    def _indices(self, shape: Shape, dim: int, first: Index) -> Tile:
        one = self.rows(first, shape[0]) if dim == 0 else self.columns(first, shape[1])
        return self.broadcast(one, 1 - dim, shape[1 - dim])

    def _picked(
        self, kind: str, value: Tile | State, dim: int, first: Index | int, size: int | None
    ) -> tuple[Tile, Tile]:
        tile = tile_of(kind, value)
        _check_type(kind, kind, tuple(PICKS[kind].start), tile)
        shape = _reduced(kind, tile, dim, size)
        return self._pick(kind, tile, self._indices(tile.shape, dim, index_operand(kind, first)), dim, shape)

    def _pick(self, kind: str, tile: Tile, index: Tile, dim: int, shape: Shape) -> tuple[Tile, Tile]:
        """Return the picked elements and their indices."""
        value, positions = tile.value, index.value
        at = self.result(shape, I32, lambda v: ir.ReduceTile(v, kind, value, dim, caller(), positions))
        plain = next(name for name in PICKED[kind] if value.dtype.name in REDUCTIONS[name].types)
        best = self.result(shape, value.dtype, lambda v: ir.ReduceTile(v, plain, value, dim, caller()))
        return best, at


def _check_dim(operation: str, dim: object) -> None:
    if type(dim) is not int or dim not in (0, 1):
        fail(operation, f"invalid dim={dim!r}: use 0 or 1")


def _check_type(operation: str, kind: str, types: tuple[str, ...], tile: Tile) -> None:
    name = tile.value.dtype.name
    if name not in types:
        hint = f': use .cast("{types[0]}")' if tile.value.dtype.is_float and types[0] == "f32" else ""
        fail(operation, f"{kind} supports {' and '.join(types)}, not {name}{hint}")


def _reduced(operation: str, tile: Tile, dim: int, size: int | None) -> Shape:
    """Return the shape after a reduction. Raises ProgramError if ``size`` does not divide the dimension."""
    _check_dim(operation, dim)
    extent = tile.shape[dim]
    each = extent if size is None else size
    if type(each) is not int or each < 1 or extent % each:
        fail(
            operation,
            f"invalid size {each}: use a divisor of dimension {dim} of {shape_text(tile.shape)} (RFC, reduction_size)",
        )
    return (extent // each, tile.shape[1]) if dim == 0 else (tile.shape[0], extent // each)
