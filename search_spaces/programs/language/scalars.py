"""Scalars that a block loads and uses as indices: loop bounds, expert numbers, entries of block tables."""

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
    """Operations of the builder for data-dependent indices."""

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
        """Load a number of an array as an index, the same for all threads of a block.

        It may be a loop bound, the start of a window, or an array index (an expert, a page). It is clamped to the range
        from ``low`` to ``high``, so that no access leaves an array. Inputs for verification lie within the range.

        Args:
            array: An i32 input.
            position: Position along each dimension of the array. Outside of the array the number is ``low``.
            high: The largest number.
            low: The smallest number.
            ordered: True if the numbers ascend along the last dimension from ``low`` to ``high``, as offsets do.

        Raises:
            ProgramError: For another array, another number of positions, or an empty range.
        """
        if not isinstance(array, ir.Array):
            fail("load_scalar", f"expected an array of the program, not {array!r}")
        if array.role != "input" or array.dtype != I32:
            fail("load_scalar", f"{array.name} must be an Input of i32, not {array.role} {array.dtype.name}")
        if array.pitch is not None:
            fail(
                "load_scalar",
                f"the launch passes the row stride of {array.name}: load from another array",
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
        """Return the number of a 1x1 tile as an index, such as a group that the program has found by its offsets.

        The number is clamped to the range from ``low`` to ``high``.

        Args:
            value: A 1x1 tile of i32.
            high: The largest number.
            low: The smallest number.
            usual: A typical number, from which the time model estimates work; None for ``high``.

        Raises:
            ProgramError: For another tile, or an empty range.
        """
        tile = tile_of("uniform", value)
        if (tile.shape, tile.value.dtype) != ((1, 1), I32):
            fail("uniform", f"expected a tile of one i32, not {value_text(tile.value)}: use p.reduction")
        _check_range("uniform", low, high)
        typical = constant(high) if usual is None else index_operand("uniform", usual)
        index = Index("scalar", self.new_id(), (constant(low), constant(high), typical))
        self.add(ir.Uniform(index, tile.value, caller()))
        return index

    def find_tile(self, offsets: ir.Array, tile: Index | int, size: int, *, high: int) -> tuple[Index, Index]:
        """Find the group of a tile, for groups of different sizes that are each cut into tiles of ``size`` elements.

        Group g has the elements from ``offsets[g]`` to ``offsets[g + 1]``, and may be empty. Each warp searches on its
        own, so the result may be the start of a window, an array index or a loop bound.

        Args:
            offsets: A vector of i32, an input: one more than there are groups, ascending from 0 to ``high``.
            tile: Number of the tile, counted over all groups.
            size: Elements of a tile. The last tile of a group may be partial.
            high: The largest offset, to which offsets are clamped.

        Returns:
            The number of the tile's group, and the number of this group's first tile. For a tile beyond the last one,
            the number of groups and the number of all tiles.

        Raises:
            ProgramError: For another array, a size below 1, or an empty range.
        """
        if not isinstance(offsets, ir.Array):
            fail("find_tile", f"expected an array of the program, not {offsets!r}")
        if offsets.role != "input" or offsets.dtype != I32 or len(offsets.full) != 1 or offsets.dynamic is not None:
            fail("find_tile", f"{offsets.name} must be an Input of i32 with one extent of a fixed size")
        if type(size) is not int or size < 1:
            fail("find_tile", f"tiles have at least one element, not {size!r}")
        _check_range("find_tile", 0, high)
        position, groups = index_operand("find_tile", tile), offsets.full[0] - 1
        if groups < 1:
            fail(
                "find_tile",
                f"{offsets.name} needs at least 2 offsets, one more than groups, not {offsets.full[0]}",
            )
        most = high // size + groups  # each group has at most one partial tile
        usual = minimum(position * size * groups // max(high, 1), groups)
        group = Index("scalar", self.new_id(), (constant(0), constant(groups), usual))
        first = Index("scalar", self.new_id(), (constant(0), constant(most), minimum(position, most), constant(high)))
        self.add(ir.FindTile(group, first, offsets, position, size, caller()))
        return group, first


def _check_range(operation: str, low: object, high: object) -> None:
    """Raise ProgramError for a range without a 32-bit number."""
    for name, bound in (("low", low), ("high", high)):
        if not isinstance(bound, int) or isinstance(bound, bool) or not LEAST <= bound <= MOST:
            fail(operation, f"{name} must be a whole number of 32 bits, not {bound!r}")
    if low > high:  # type: ignore[operator]  # both are whole numbers
        fail(operation, f"the range {low} to {high} is empty: low must not exceed high")
