"""Generate code that computes the position of a staged tile in each iteration of a loop."""

from __future__ import annotations

from search_spaces.programs.inference.inference import Inference, Staged
from search_spaces.programs.inference.row_numbers import indices_of_rows
from search_spaces.programs.language import ir
from search_spaces.programs.language.functions import number_code
from search_spaces.programs.language.index import Index
from search_spaces.programs.lowering.emit_base import EmitterBase
from search_spaces.programs.lowering.function_code import function_code
from search_spaces.programs.planning.boxes import BoxedNumbers
from search_spaces.programs.planning.staging import StagedNumbers

PLACED, GATHERED = "placed", "gathered"


def located_per_iteration(staged: Staged) -> bool:
    """Return True if each iteration computes the tile's position; False if tiles advance by a fixed step."""
    return staged.advance in (PLACED, GATHERED)


def copy_type(n: StagedNumbers | BoxedNumbers) -> str:
    """Return the C++ type of the object that copies an operand's tiles in a ring."""
    name = n.staged.name
    if not located_per_iteration(n.staged):
        return f"Operand_{name}"
    kind = "Placed" if n.staged.advance == PLACED else "Gathered"
    kind += "Boxes" if isinstance(n, BoxedNumbers) else "Operand"
    return f"tile::{kind}<Operand_{name}, decltype(place_{name})>"


def position_code(emitter: EmitterBase, n: StagedNumbers | BoxedNumbers) -> list[str]:
    """Return the C++ lambda ``place_NAME`` from an iteration to the tile's position; [] for tiles with a fixed step."""
    staged = n.staged
    if not located_per_iteration(staged) or staged.loop is None:
        return []
    window = staged.load.window
    array, loop = window.array, staged.loop
    by_tma = isinstance(n, BoxedNumbers) and n.tma
    positions = ", ".join(emitter.positions(staged))
    matrix = lead_code(array.lead, array.full) if by_tma else emitter.base(array)
    type_ = "tile::BoxedPlace" if by_tma else f"tile::TilePlace<{array.dtype.c_name}>"
    result, row_of, rows = f"{type_}{{{matrix}, {positions}}}", list[str](), tuple[Index, ...]()
    if window.index is not None:
        rows = indices_of_rows(emitter.inference, window.index) or ()
        code = RowCode(emitter.inference, 1 - ir.line_dimension(window)).of(window.index)
        row_of = [f"const auto row_of = [=]([[maybe_unused]] int row) -> int {{ return {code}; }};"]
        result = f"tile::gathered<{array.dtype.c_name}>({matrix}, {emitter.positions(staged)[1]}, row_of)"
    needed = {number for position in (*array.lead, *window.at, *rows) for number in position.scalars}
    loaded = [
        emitter.scalar(operation)
        for number, operation in emitter.inference.scalars.items()
        if number in needed and loop in emitter.inference.scalars_in[number]
    ]
    return [
        f"const auto place_{staged.name} = [&](int turn) {{",
        f"  {emitter.iteration_code(loop, 'turn')}",
        *(f"  {line}" for line in loaded),
        *(f"  {line}" for line in row_of),
        f"  return {result};",
        "};",
    ]


def lead_code(lead: tuple[Index, ...], full: tuple[int, ...]) -> str:
    """Return the row-major index of a matrix in an array with leading dimensions, as CUDA C++."""
    code = "0"
    for extent, position in zip(full[: len(lead)], lead, strict=True):
        code = f"({code}) * {extent} + {position.code}" if code != "0" else position.code
    return code


class RowCode:
    """Generates CUDA C++ for elements of a tile of row numbers; the variable ``row`` is the position in the tile."""

    def __init__(self, inference: Inference, dimension: int) -> None:
        self.inference, self.dimension = inference, dimension

    def of(self, value: ir.Value, row: str = "row") -> str:
        """Return CUDA C++ for the element at ``row``; if the extent along ``dimension`` is 1, for the element at 0."""
        operation = self.inference.definitions[value.id]
        row = row if value.shape[self.dimension] > 1 else "0"
        match operation:
            case ir.Fill(_, number):
                return number_code(number, value.dtype)
            case ir.Coordinates(_, dimension, base):
                return f"({base.code} + {row})" if dimension == self.dimension else f"({base.code})"
            case ir.Broadcast(_, inner, dimension):
                return self.of(inner, f"({row} / {operation.size})" if dimension == self.dimension else row)
            case ir.LoadTile(_, window, padding):
                return self._loaded(window, padding, row)
            case ir.Map(_, _, arguments):
                of_number = next(a.dtype for a in reversed(arguments) if isinstance(a, ir.Value))
                codes = [self.of(a, row) if isinstance(a, ir.Value) else number_code(a, of_number) for a in arguments]
                return function_code(operation, self.inference, self.inference.trace.iterations()).format(*codes)
        raise TypeError(f"{operation} has no rows")

    def _loaded(self, window: ir.Window, padding: float, row: str) -> str:
        if window.index is not None:  # the row numbers were gathered from a vector
            position = self.of(window.index, row)
            array = window.array
            return f"tile::load_row({array.name}_array, {position}, {array.matrix[1]}, {int(padding)})"
        positions = [
            f"({at.code} + {row})" if d == self.dimension else f"({at.code})" for d, at in enumerate(window.at)
        ]
        terms = (f"static_cast<long long>({p}) * {s}" for p, s in zip(positions, window.strides, strict=True))
        inside = (f"unsigned({p}) < {extent}u" for p, extent in zip(positions, window.extent, strict=True))
        pointer = " + ".join([f"{window.array.name}_array", *terms])
        return f"tile::load_row({pointer}, {' && '.join(inside)}, {int(padding)})"
