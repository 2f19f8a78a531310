"""Parts of tiles, tiles joined from parts, and reshaped tiles; where possible, values stay in their threads."""

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

SPAN_WORDS = 8  # words in a span, whose four-bit numbers become neighbouring columns


class Slices(NamedFunctions):
    """Slicing, joining and reshaping operations of the builder."""

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
        """Return the same elements in row-major order with another shape.

        Args:
            value: The tile.
            shape: (rows, columns); the old number of rows must be a multiple or a divisor of the new one.

        Raises:
            ProgramError: If the number of elements or of rows does not fit.
        """
        tile = tile_of("reshape", value)
        if not isinstance(shape, tuple | list) or len(shape) != 2 or any(type(n) is not int or n < 1 for n in shape):
            fail("reshape", f"a shape is a pair of whole numbers from 1 up, not {shape!r}")
        rows, columns = shape
        if rows * columns != tile.shape[0] * tile.shape[1]:
            fail("reshape", f"{shape_text(tile.shape)} and {rows}x{columns} have different numbers of elements")
        if max(rows, tile.shape[0]) % min(rows, tile.shape[0]):
            fail("reshape", f"one number of rows must divide the other, but they are {tile.shape[0]} and {rows}")
        if (rows, columns) == tile.shape:
            return tile
        return self.result((rows, columns), tile.value.dtype, lambda v: ir.Reshape(v, tile.value, caller()))

    def part_of(self, value: Tile | State, key: object) -> Tile:
        """Return ``value[rows, columns]`` of f32 or i32: an equal part (``[:, :32]``) or every n-th (``[:, 1::2]``)."""
        tile = tile_of("[..]", value)
        keys = key if isinstance(key, tuple) else (key, slice(None))
        if len(keys) != 2 or not all(isinstance(k, slice) for k in keys):
            fail("[..]", f"the index of a tile is two slices, such as x[:, 0:32] or x[:, 1::2], not {key!r}")
        if tile.value.dtype not in (F32, I32):
            fail("[..]", f'only f32 and i32 tiles can be sliced, not {tile.value.dtype.name}: use .cast("f32")')
        for dimension, part in enumerate(keys):
            tile = self._part(tile, dimension, part)
        return tile

    def _part(self, tile: Tile, dimension: int, part: slice) -> Tile:
        extent = tile.shape[dimension]
        if any(n is not None and type(n) is not int for n in (part.start, part.stop, part.step)):
            fail("[..]", f"bounds of a slice are whole numbers, not {part!r}: use p.window if they depend on the block")
        if part.step not in (None, 1):
            step, start, stop = part.step, part.start or 0, extent if part.stop is None else part.stop
            if step < 1 or extent % step or not 0 <= start < step or stop != extent:
                fail("[..]", f"expected start::step with a step that divides {extent} and start < step, not {part!r}")
            return self._one_of(tile, dimension, step, start)
        start, stop, _ = part.indices(extent)
        width = stop - start
        if width < 1 or extent % width or start % width:
            fail("[..]", f"a slice must be one of several equal parts of {extent}, not {start}:{stop}")
        if width == extent:
            return tile
        if dimension == 0:
            return self.transpose(self._part(self.transpose(tile), 1, part))
        parts = extent // width
        return self._one_of(self.reshape(tile, (tile.shape[0] * parts, width)), 0, parts, start // width)

    def _one_of(self, tile: Tile, dimension: int, size: int, number: int) -> Tile:
        """Return element ``number`` of each group of ``size`` neighbours."""
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
        """Unpack four-bit numbers from words: for each entry of ``numbers``, two from each word.

        Args:
            words: (rows, 8 spans) of i32.
            numbers: Pairs to unpack, such as range(4). Pair e has the numbers at bits ``4 e`` and ``4 e + 16``.
            zero: Zero point that is subtracted, 0 to 15: a whole number, or a tile of i32.
            times: Factor of the differences, 1 or 16. For f16, 16 takes fewer instructions.
            to: "f16" or "bf16", which represent every such number exactly.

        Returns:
            (rows, 16 len(numbers) spans). For each span of eight words and each e of ``numbers`` there are 16 columns.
            Column 2 c + h is the number at bit ``4 e + 16 h`` of word c of the span, minus zero, times ``times``.

        Raises:
            ProgramError: For words of another type or number, or other numbers.
        """
        if times not in (1, 16):
            fail("nibbles", f"times is 1 or 16, not {times!r}")
        of_all, columns = self._fours("nibbles", words, numbers, to)
        return self.map(f"nibble_{to}", of_all, columns, numbers.start, len(numbers), zero, times)

    def fp4(self, words: Tile | State, scale: Tile | State, numbers: range = range(4), *, to: str = "f16") -> Tile:
        """Unpack e2m1 numbers from words, in the order of ``nibbles``, and multiply them by a scale.

        Args:
            words: (rows, 8 spans) of i32.
            scale: (rows, len(numbers) spans) of e4m3, one for each 16 columns.
            numbers: As in ``nibbles``.
            to: "f16" or "bf16".

        Returns:
            (rows, 16 len(numbers) spans), times 2^-14, so that f16 represents every product exactly.

        Raises:
            ProgramError: As in ``nibbles``, and for another number of scales.
        """
        of_all, columns = self._fours("fp4", words, numbers, to)
        of_numbers = tile_of("fp4", scale)
        rows, extent = of_all.shape
        if of_numbers.shape != (rows, extent // 16) or of_numbers.value.dtype != E4M3:
            fail("fp4", f"scale must be {rows}x{extent // 16} e4m3, not {value_text(of_numbers.value)}")
        each = self.broadcast(of_numbers.cast("f32"), 1, extent)
        return self.map(f"fp4_{to}", of_all, columns, numbers.start, len(numbers), each)

    def _fours(self, operation: str, words: Tile | State, numbers: range, to: str) -> tuple[Tile, Tile]:
        """Return the word of each four-bit number, and the column numbers."""
        tile = tile_of(operation, words)
        if tile.value.dtype != I32:
            fail(operation, f"words must be i32, not {tile.value.dtype.name}")
        if not isinstance(numbers, range) or numbers.step != 1 or not 0 <= numbers.start < numbers.stop <= 4:
            fail(operation, f"numbers is a range of the pairs 0 to 3 of a word, not {numbers!r}")
        if tile.shape[1] % SPAN_WORDS:
            fail(operation, f"the columns of words must be a multiple of {SPAN_WORDS}, not {tile.shape[1]}")
        if to not in ("f16", "bf16"):
            fail(operation, f"the result is f16 or bf16, not {to}")
        rows, spans, count = tile.shape[0], tile.shape[1] // SPAN_WORDS, len(numbers)
        pairs = self.broadcast(self.reshape(tile, (rows * spans, SPAN_WORDS)), 1, 2 * SPAN_WORDS)
        of_all = self.broadcast(pairs, 0, rows * spans * count)
        columns = 2 * SPAN_WORDS * count * spans
        return self.reshape(of_all, (rows, columns)), self.columns(0, columns)

    def join(self, parts: Sequence[Tile | State], *, dim: int, interleaved: bool = False) -> Tile:
        """Return tiles of one shape next to each other along a dimension, or interleaved.

        ``p.join((low, high), dim=1)`` is undone by ``x[:, :n]`` and ``x[:, n:]``, and with ``interleaved`` by ``x[:,
        0::2]`` and ``x[:, 1::2]``.

        Args:
            parts: Two or more tiles of one shape and type.
            dim: 0 or 1.
            interleaved: True if elements of the parts alternate.

        Raises:
            ProgramError: For tiles of different shapes or types.
        """
        if not isinstance(parts, tuple | list) or len(parts) < 2:
            fail("join", f"expected a tuple of two or more tiles, not {parts!r}")
        tiles = [tile_of("join", part) for part in parts]
        if len({(t.shape, t.value.dtype) for t in tiles}) > 1:
            fail("join", f"parts must have the same type, not {' and '.join(value_text(t.value) for t in tiles)}")
        if dim not in (0, 1):
            fail("join", f"dim is 0 or 1, not {dim}")
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
