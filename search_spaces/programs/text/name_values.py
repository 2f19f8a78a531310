"""Values of names while a listing is executed: grid coordinates, positions, and vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from search_spaces.hardware.dtypes import DType, dtype
from search_spaces.layouts.wg_map import WgMap
from search_spaces.programs.builder import ARRAY_DTYPES, Builder
from search_spaces.programs.language import index as indices
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.ir import Array, ProgramError, Shape
from search_spaces.programs.language.values import State, Tile, WindowHandle
from search_spaces.programs.text.listing import Expression, Statement, Type
from search_spaces.programs.text.ranks import matrix_shape
from search_spaces.programs.text.survey import (
    Survey,
    TileInfo,
    names_of,
    tile_offsets,
)

Held = Tile | State | WindowHandle | Index


class Names:
    """Values of the names of a listing during its execution with one choice of sizes.

    Args:
        survey: Survey of the listing.
        p: Builder of the program.
        arrays: Arrays by name.
        sizes: Sizes by name.
    """

    def __init__(self, survey: Survey, p: Builder, arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> None:
        self.survey, self.p, self.arrays, self.sizes = survey, p, dict(arrays), dict(sizes)
        self.value_of: dict[str, Held] = {}
        self.maps: dict[int, WgMap] = {}  # wg_maps of values, by the id of the value
        self.grid: dict[str, Index] = {}
        self.loaded: dict[int, Tile] = {}  # the latest vector that was loaded from each window
        self.last: dict[Shape, Tile] = {}  # the latest computed value of each shape
        # Offset and extent of each ring in shared memory, by the name of the variable that holds the offset.
        self.rings: dict[str, tuple[Index, Index]] = {}
        self.slots: dict[str, str] = {}  # for each tile in a ring, the key of its offset in ``rings``

    def refuse(self, s: Statement, reason: str) -> NoReturn:
        """Raise ProgramError with the statement's position."""
        raise self.survey.refuse(s, reason)

    # Scalar arguments

    def _read_scalars(self) -> None:
        """Load each index argument from an array of one element, clamped to the largest extent of any array."""
        largest = max(extent for array in self.arrays.values() for extent in array.full)
        for name in self.survey.scalars:
            self.value_of[name] = self.p.load_scalar(self.arrays[name], 0, high=largest)

    # The grid

    def _open_grid(self) -> None:
        axes: list[tuple[str, int, int]] = []
        for s in self.survey.grid:
            if s.op == "scf.forall":
                for name, stop, step in zip(s.results, s.index[1], s.index[2], strict=True):
                    axes.append((name, self._stop(name, stop), self._number(s, step)))
            else:
                stop, step = s.operands[1], s.operands[2]
                number = self._step(s, s.results[0], step)
                axes.append((s.results[0], self._stop(s.results[0], stop), number))
        if self.survey.listing.chosen:
            self.p.choose(**{n: (v,) for n, v in self.survey.listing.chosen})
        if not axes:
            self.p.blocks((1,), (1,))
            return
        starts = self.p.blocks(tuple(a[1] for a in axes), tuple(a[2] for a in axes))
        for (name, _, _), position in zip(axes, starts, strict=True):
            self.value_of[name] = self.grid[name] = position

    def _stop(self, name: str, stop: Expression) -> int:
        """Return the end of a loop: the size named ``stop``, else the size of the loop's variable, else ``stop``."""
        if isinstance(stop, str) and stop.lstrip("%") in self.sizes:
            return self.sizes[stop.lstrip("%")]
        own = self.sizes.get(name.lstrip("%"))
        if own is not None and not self.survey.fixed:
            return own
        if not isinstance(stop, int):
            raise ProgramError(
                f"{self.survey.listing.file}: {name} ends at {stop}, whose value is unknown: use a number"
            )
        return stop

    def _step(self, s: Statement, name: str, step: Expression) -> int:
        if isinstance(step, int):
            widest = [self._tile_step(name, t) for t in self.survey.tiles.values()]
            wide = max((w for w in widest if w is not None), default=step)
            if wide > step and s in self.survey.grid:
                self.survey.note(s, f"{name} has step {step}, but its tiles have extent {wide}: step {wide} is used")
                return wide
            return step
        for tile in self.survey.tiles.values():
            tile_step = self._tile_step(name, tile)
            if tile_step is not None:
                return tile_step
        self.refuse(s, f"the step {step} of {name} is unknown, as no tile determines it: use a number")

    def _tile_step(self, name: str, tile: TileInfo) -> int | None:
        for d, position in enumerate(tile_offsets(self.survey, tile)):
            if name in names_of(position):
                return tile_shape(tile.statement)[d]
        return None

    def _number(self, s: Statement, value: Expression) -> int:
        if not isinstance(value, int):
            self.refuse(s, f"{value} is not a number")
        return value

    # Positions

    def _index(self, s: Statement, expression: Expression) -> Index | int:
        match expression:
            case int():
                return expression
            case float():
                self.refuse(s, f"{expression} is not a position")
            case str():
                value = self.value_of.get(expression, self.value_of.get(f"%{expression}"))
                if isinstance(value, Index):
                    return value
                if value is not None:
                    self.refuse(s, f"{expression} is not a position")
                self.survey.note(s, f"{expression} is undefined: 0 is used")
                return 0
        args = [self._index(s, a) for a in expression.args]
        first, second = args
        match expression.sign:
            case "+":
                return first + second
            case "min":
                return indices.minimum(first, second)
            case "max":
                return indices.maximum(first, second)
        if not isinstance(second, int):
            self.refuse(s, f"{expression}: the right operand is not a number")
        left = indices.as_index(first)
        if expression.sign == "*":
            return left * second
        return left // second if expression.sign == "floordiv" else left % second

    # Vectors

    def _give(self, s: Statement, value: Tile) -> None:
        if not s.results:
            self.refuse(s, "the result is missing")
        name = s.results[0]
        before = self.value_of.get(name)
        if isinstance(before, State):
            before.set(value)
        else:
            self.value_of[name] = value
        self.last[value.shape] = value

    def _value(self, s: Statement, expression: Expression, layout: WgMap | None = None) -> Tile:
        """Return the vector that ``expression`` names.

        If the vector is undefined, load it from its input array, with the map that the statement requires.
        """
        name = str(expression)
        value = self.value_of.get(name)
        if value is None and name in self.survey.free_vectors:
            array, type_ = self.arrays[name], self.survey.free_types[name]
            shape = shape_of(s, type_)
            value = self.p.load(self.p.window(array, (0, 0), shape, map=layout))
            if type_.element == "i1":
                value = self.p.map("less", 0.0, value.cast("i32"))
            self.value_of[name] = value
            if layout is not None:
                self.maps[value.value.id] = layout
        if isinstance(value, State):
            return value.read()
        if isinstance(value, WindowHandle) and value.window.id in self.loaded:
            self.survey.note(s, f"{name} is a tile, but a vector is needed: the vector loaded from this tile is used")
            return self.loaded[value.window.id]
        if not isinstance(value, Tile):
            self.refuse(s, f"{name} is not a vector" if value is not None else f"{name} is undefined")
        return value


def tile_shape(s: Statement) -> Shape:
    """Return the shape of the tile that a statement creates."""
    return shape_of(s, (*s.takes, *s.gives)[-1])


def shape_of(s: Statement, type_: Type) -> Shape:
    """Return the shape of the tile for a vector type. Raises ProgramError if an extent is not a number."""
    shape = matrix_shape(type_.dims)
    if shape is None:
        raise ProgramError(f"line {s.line}: the extents of {type_} are not all numbers")
    return shape


def element(type_: Type) -> DType:
    """Return the element type of a type."""
    return dtype(type_.element, ARRAY_DTYPES)
