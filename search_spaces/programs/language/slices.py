"""Builder operations that slice, join and reshape tiles. Where possible, elements stay in their threads."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

from search_spaces.hardware.dtypes import E4M3, F32, I32, DType
from search_spaces.programs.language import ir
from search_spaces.programs.language.functions import ONE_OF_GROUP
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.ir import Shape
from search_spaces.programs.language.named_functions import NamedFunctions
from search_spaces.programs.language.values import Operand, State, Tile, caller, fail, shape_text, tile_of, value_text

SPAN_WORDS = 8  # 32-bit words per span; the four-bit numbers of a span become adjacent columns


class Slices(NamedFunctions):
    """Builder operations for slicing, joining and reshaping."""

    @abstractmethod
    def result(self, shape: Shape, type_: DType, make: Callable[[ir.Value], ir.Operation]) -> Tile:
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
    def transpose(self, value: Tile | State) -> Tile:
        """Return the transposed tile."""

    def reshape(self, value: Tile | State, shape: Shape) -> Tile:
        """Return the tile with another shape; the row-major order of the elements is unchanged.

        Args:
            value: The tile.
            shape: (rows, columns). The old number of rows must be a multiple or a divisor of the new number.

        Raises:
            ProgramError: If the numbers of elements differ, or neither number of rows divides the other.
        """
        tile = tile_of("reshape", value)
        if not isinstance(shape, tuple | list) or len(shape) != 2 or any(type(n) is not int or n < 1 for n in shape):
            fail("reshape", f"invalid shape {shape!r}: use a pair of positive whole numbers")
        rows, columns = shape
        if rows * columns != tile.shape[0] * tile.shape[1]:
            fail("reshape", f"cannot reshape {shape_text(tile.shape)} to {rows}x{columns}: keep the number of elements")
        if max(rows, tile.shape[0]) % min(rows, tile.shape[0]):
            fail("reshape", f"cannot reshape {tile.shape[0]} rows to {rows}: use a multiple or a divisor")
        if (rows, columns) == tile.shape:
            return tile
        return self.result((rows, columns), tile.value.dtype, lambda v: ir.Reshape(v, tile.value, caller()))

    def part_of(self, value: Tile | State, key: object) -> Tile:
        """Return the slice ``value[key]`` of an f32 or i32 tile, such as ``x[:, :32]`` or ``x[:, 1::2]``."""
        tile = tile_of("[..]", value)
        keys = key if isinstance(key, tuple) else (key, slice(None))
        if len(keys) != 2 or not all(isinstance(k, slice) for k in keys):
            fail("[..]", f"invalid index {key!r} of a tile: use two slices, such as x[:, 0:32] or x[:, 1::2]")
        if tile.value.dtype not in (F32, I32):
            fail(
                "[..]",
                f'a slice of a tile of {tile.value.dtype.name}: only f32 and i32 tiles can be sliced: use .cast("f32")',
            )
        for dimension, part in enumerate(keys):
            tile = self._part(tile, dimension, part)
        return tile

    def _part(self, tile: Tile, dimension: int, part: slice) -> Tile:
        extent = tile.shape[dimension]
        if any(n is not None and type(n) is not int for n in (part.start, part.stop, part.step)):
            fail(
                "[..]",
                f"invalid bounds {part!r} of a slice: use whole numbers, or p.window if the bounds depend on the block",
            )
        if part.step not in (None, 1):
            step, start, stop = part.step, part.start or 0, extent if part.stop is None else part.stop
            if step < 1 or extent % step or not 0 <= start < step or stop != extent:
                fail(
                    "[..]",
                    f"invalid slice {part!r}: use start::step with start < step and a step that divides {extent}",
                )
            return self._one_of(tile, dimension, step, start)
        start, stop, _ = part.indices(extent)
        width = stop - start
        if width < 1 or extent % width or start % width:
            fail("[..]", f"invalid slice {start}:{stop}: select one of several equal parts of {extent} elements")
        if width == extent:
            return tile
        if dimension == 0:
            return self.transpose(self._part(self.transpose(tile), 1, part))
        parts = extent // width
        return self._one_of(self.reshape(tile, (tile.shape[0] * parts, width)), 0, parts, start // width)

    def _one_of(self, tile: Tile, dimension: int, size: int, number: int) -> Tile:
        """Return element ``number`` of each group of ``size`` consecutive elements."""
        if size == 1:
            return tile
        extent = tile.shape[dimension]
        position = (self.rows if dimension == 0 else self.columns)(0, extent) % size
        value = tile_of("[..]", self.where(position == number, tile, 0)).value
        rows, columns = tile.shape
        shape = (rows // size, columns) if dimension == 0 else (rows, columns // size)
        return self.result(shape, value.dtype, lambda v: ir.ReduceTile(v, ONE_OF_GROUP, value, dimension, caller()))

    def nibbles(
        self,
        words: Tile | State,
        numbers: range = range(4),
        *,
        zero: Operand = 8,
        times: int = 1,
        to: str = "f16",
    ) -> Tile:
        """Unpack four-bit numbers from 32-bit words. Each entry of ``numbers`` selects one pair of numbers per word.

        Args:
            words: i32 tile of shape (rows, 8 * spans). Eight consecutive words of a row are called a span.
            numbers: Pairs to unpack, such as range(4). Pair e consists of the four bits from bit ``4 e`` on and the
                four bits from bit ``4 e + 16`` on.
            zero: Zero point that is subtracted, 0 to 15: a whole number, or a tile of i32.
            times: Factor by which the differences are multiplied, 1 or 16. For f16, 16 takes fewer instructions.
            to: Type of the result, "f16" or "bf16". The result is exact.

        Returns:
            A tile of shape (rows, 16 * len(numbers) * spans). Each span has 16 columns for each e of ``numbers``.
            Column ``2 c + h`` of the 16 comes from word c of the span (c from 0 to 7, h 0 or 1). It contains
            ``(v - zero) * times``, where v is the four-bit number that begins at bit ``4 e + 16 h`` of the word.

        Raises:
            ProgramError: If words are not i32, their number per row is not a multiple of 8, or another argument is
                invalid.
        """
        if times not in (1, 16):
            fail("nibbles", f"invalid times={times!r}: use 1 or 16")
        of_all, columns = self._fours("nibbles", words, numbers, to)
        return self.map(f"nibble_{to}", of_all, columns, numbers.start, len(numbers), zero, times)

    def fp4(self, words: Tile | State, scale: Tile | State, numbers: range = range(4), *, to: str = "f16") -> Tile:
        """Unpack e2m1 numbers from words, in the order of ``nibbles``, and multiply them by a scale.

        Args:
            words: i32 tile of shape (rows, 8 * spans), as in ``nibbles``.
            scale: e4m3 tile of shape (rows, len(numbers) * spans): a scale for each 16 columns of the result.
            numbers: As in ``nibbles``.
            to: "f16" or "bf16".

        Returns:
            A tile of shape (rows, 16 * len(numbers) * spans). The products are also multiplied by 2^-14, so that f16
            represents each of them exactly.

        Raises:
            ProgramError: As in ``nibbles``, or if the shape or type of ``scale`` is wrong.
        """
        of_all, columns = self._fours("fp4", words, numbers, to)
        of_numbers = tile_of("fp4", scale)
        rows, extent = of_all.shape
        if of_numbers.shape != (rows, extent // 16) or of_numbers.value.dtype != E4M3:
            fail("fp4", f"scale is {value_text(of_numbers.value)}: use {rows}x{extent // 16} e4m3")
        each = self.broadcast(of_numbers.cast("f32"), 1, extent)
        return self.map(f"fp4_{to}", of_all, columns, numbers.start, len(numbers), each)

    def _fours(self, operation: str, words: Tile | State, numbers: range, to: str) -> tuple[Tile, Tile]:
        """Return two tiles of the result's shape: the words with the elements' four-bit numbers, and the columns."""
        tile = tile_of(operation, words)
        if tile.value.dtype != I32:
            fail(operation, f"words are {tile.value.dtype.name}: use i32")
        if not isinstance(numbers, range) or numbers.step != 1 or not 0 <= numbers.start < numbers.stop <= 4:
            fail(operation, f"invalid numbers={numbers!r}: use a range within the four pairs of a word, 0 to 3")
        if tile.shape[1] % SPAN_WORDS:
            fail(operation, f"words has {tile.shape[1]} columns: use a multiple of {SPAN_WORDS}")
        if to not in ("f16", "bf16"):
            fail(operation, f"invalid result type {to}: use f16 or bf16")
        rows, spans, count = tile.shape[0], tile.shape[1] // SPAN_WORDS, len(numbers)
        pairs = self.broadcast(self.reshape(tile, (rows * spans, SPAN_WORDS)), 1, 2 * SPAN_WORDS)
        of_all = self.broadcast(pairs, 0, rows * spans * count)
        columns = 2 * SPAN_WORDS * count * spans
        return self.reshape(of_all, (rows, columns)), self.columns(0, columns)

    def join(self, parts: Sequence[Tile | State], *, dim: int, interleaved: bool = False) -> Tile:
        """Return one tile from several tiles of one shape, concatenated along a dimension or interleaved.

        Slices invert a join. For ``x = p.join((low, high), dim=1)``, ``x[:, :n]`` is ``low`` and ``x[:, n:]`` is
        ``high``. With ``interleaved``, ``x[:, 0::2]`` is ``low`` and ``x[:, 1::2]`` is ``high``.

        Args:
            parts: Two or more tiles of one shape and type.
            dim: 0 or 1.
            interleaved: True if elements of the parts alternate along the dimension.

        Raises:
            ProgramError: If there are fewer than two tiles, or their shapes or types differ.
        """
        if not isinstance(parts, tuple | list) or len(parts) < 2:
            fail("join", f"invalid parts {parts!r}: pass a tuple of two or more tiles")
        tiles = [tile_of("join", part) for part in parts]
        if len({(t.shape, t.value.dtype) for t in tiles}) > 1:
            fail("join", f"parts differ: {' and '.join(value_text(t.value) for t in tiles)}: use one shape and type")
        if dim not in (0, 1):
            fail("join", f"invalid dim={dim}: use 0 or 1")
        count, (rows, columns) = len(tiles), tiles[0].shape
        if interleaved:
            return self._interleaved(tiles, dim)
        if dim == 1:
            return self.reshape(self._interleaved(tiles, 0), (rows, count * columns))
        return self.transpose(self.join([self.transpose(t) for t in tiles], dim=1))

    def _interleaved(self, tiles: list[Tile], dim: int) -> Tile:
        count, extent = len(tiles), len(tiles) * tiles[0].shape[dim]
        position = (self.rows if dim == 0 else self.columns)(0, extent) % count
        interleaved = self.broadcast(tiles[-1], dim, extent)
        for number, tile in list(enumerate(tiles))[-2::-1]:
            interleaved = self.where(position == number, self.broadcast(tile, dim, extent), interleaved)
        return interleaved
