"""Builder operations that load scalars for use as indices: loop bounds, expert numbers, entries of block tables."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

from search_spaces.hardware.dtypes import I32
from search_spaces.programs.language import ir
from search_spaces.programs.language.index import Index, constant, minimum
from search_spaces.programs.language.named_functions import NamedFunctions, index_operand
from search_spaces.programs.language.values import State, Tile, caller, fail, tile_of, value_text

LEAST, MOST = -(2**31), 2**31 - 1


class Scalars(NamedFunctions):
    """Builder operations for data-dependent indices."""

    @abstractmethod
    def add(self, operation: ir.Operation) -> None:
        """Append an operation to the program."""

    @abstractmethod
    def new_id(self) -> int:
        """Return an unused id for a value, window, state, loop or scalar."""

    def load_scalar(
        self,
        array: ir.Array,
        *position: Index | int,
        high: int,
        low: int = 0,
        ordered: bool = False,
    ) -> Index:
        """Load one number of an array per block, as an index.

        The index may be a loop bound, the start of a window, or an array index (an expert, a page). The number is
        clamped to the range from ``low`` to ``high``, so that no access leaves an array. Inputs for verification lie
        within the range.

        Args:
            array: An i32 input.
            position: Position along each dimension of the array. At a position outside of the array, the result is
                ``low``.
            high: Upper end of the range.
            low: Lower end of the range.
            ordered: True if the numbers ascend along the last dimension from ``low`` to ``high``, as offsets do.

        Raises:
            ProgramError: If the array is not an i32 input, the number of positions is wrong, or the range is empty.
        """
        if not isinstance(array, ir.Array):
            fail("load_scalar", f"invalid array {array!r}: pass an array of the program")
        if array.role != "input" or array.dtype != I32:
            fail("load_scalar", f"{array.name} is {array.role}, {array.dtype.name}: use an Input of i32")
        if array.pitch is not None:
            fail(
                "load_scalar",
                f"{array.name} is strided: load scalars from an array that is not strided",
            )
        at = (*array.lead, *(index_operand("load_scalar", index) for index in position))
        if len(at) != len(array.full):
            fail("load_scalar", f"{array.name} needs {len(array.shape)} positions, not {len(position)}")
        _check_range("load_scalar", low, high)
        usual = constant(high)
        if ordered and array.full[-1] > 1:
            usual = minimum(at[-1] * (high - low) // (array.full[-1] - 1) + low, high)
        index = Index("scalar", self.new_id(), (constant(low), constant(high), usual, *at))
        self.add(ir.LoadScalar(index, replace(array, lead=()), ordered, caller()))
        return index

    def uniform(self, value: Tile | State, *, high: int, low: int = 0, usual: Index | int | None = None) -> Index:
        """Convert a 1x1 tile to an index, for example to the index of a group that the program has computed.

        The number is clamped to the range from ``low`` to ``high``.

        Args:
            value: A 1x1 tile of i32.
            high: Upper end of the range.
            low: Lower end of the range.
            usual: A typical number, for the time model's estimate of work; None: ``high``.

        Raises:
            ProgramError: If the tile is not a 1x1 tile of i32, or the range is empty.
        """
        tile = tile_of("uniform", value)
        if (tile.shape, tile.value.dtype) != ((1, 1), I32):
            fail("uniform", f"expected a 1x1 tile of i32, not {value_text(tile.value)}: use p.reduction")
        _check_range("uniform", low, high)
        typical = constant(high) if usual is None else index_operand("uniform", usual)
        index = Index("scalar", self.new_id(), (constant(low), constant(high), typical))
        self.add(ir.Uniform(index, tile.value, caller()))
        return index

    def find_tile(self, offsets: ir.Array, tile: Index | int, size: int, *, high: int) -> tuple[Index, Index]:
        """Find the group that contains a tile. Groups of different sizes are divided into tiles of ``size`` elements.

        Group g has the elements from ``offsets[g]`` to ``offsets[g + 1]``, and may be empty. Every warp executes the
        same search, so that no barrier is needed. The result may be the start of a window, an array index or a loop
        bound.

        Args:
            offsets: An input vector of i32, with one element more than there are groups. It ascends from 0 to ``high``.
            tile: Index of the tile, counted over all groups.
            size: Number of elements per tile. The last tile of a group may be partial.
            high: The largest offset; larger offsets are clamped to it.

        Returns:
            The index of the tile's group, and the index of this group's first tile. If ``tile`` is beyond the last
            tile: the number of groups, and the number of tiles.

        Raises:
            ProgramError: If ``offsets`` is not an i32 input vector, ``size`` is below 1, or the range is empty.
        """
        if not isinstance(offsets, ir.Array):
            fail("find_tile", f"invalid offsets {offsets!r}: pass an array of the program")
        if offsets.role != "input" or offsets.dtype != I32 or len(offsets.full) != 1 or offsets.dynamic is not None:
            fail("find_tile", f"invalid offsets {offsets.name}: use an Input of i32 with one constant extent")
        if type(size) is not int or size < 1:
            fail("find_tile", f"invalid size {size!r} of a tile: use a whole number of at least 1")
        _check_range("find_tile", 0, high)
        position, groups = index_operand("find_tile", tile), offsets.full[0] - 1
        if groups < 1:
            fail(
                "find_tile",
                f"{offsets.name} has {offsets.full[0]} offset: use at least 2, one more than the number of groups",
            )
        most = high // size + groups  # upper limit of the number of tiles: each group has at most one partial tile
        usual = minimum(position * size * groups // max(high, 1), groups)
        group = Index("scalar", self.new_id(), (constant(0), constant(groups), usual))
        first = Index("scalar", self.new_id(), (constant(0), constant(most), minimum(position, most), constant(high)))
        self.add(ir.FindTile(group, first, offsets, position, size, caller()))
        return group, first


def _check_range(operation: str, low: object, high: object) -> None:
    """Raise ProgramError if a range is empty, or an end of the range is not a 32-bit integer."""
    for name, bound in (("low", low), ("high", high)):
        if not isinstance(bound, int) or isinstance(bound, bool) or not LEAST <= bound <= MOST:
            fail(operation, f"invalid {name}={bound!r}: use a whole number of 32 bits")
    if low > high:  # type: ignore[operator]  # both are whole numbers
        fail(operation, f"the range {low} to {high} is empty: low must not exceed high")
