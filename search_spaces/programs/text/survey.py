"""Collect the declarations of a listing before it is executed: arrays, names of extents, tiles, and grid loops.

Published listings give sizes as numbers. If a loop goes to the end of an array, the extent is named after the loop's
variable, so that the program can also be run with other sizes. Other extents are fixed to the numbers in the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from search_spaces.programs.language.ir import ProgramError
from search_spaces.programs.text.listing import Combined, Expression, Listing, Statement, Type

MAKES_TILE = ("xetile.init_tile", "memref.subview")
LOADS = ("xetile.load_tile", "vector.transfer_read")
PRODUCTS = ("xetile.tile_mma", "vector.contract")


@dataclass
class ArrayInfo:
    """An array of a listing. ``sizes`` are the names of the extents."""

    name: str
    type: Type
    role: str = ""
    sizes: tuple[str, ...] = ()

    @property
    def dims(self) -> tuple[int | str, ...]:
        """Extents in memory order."""
        dims = self.type.dims
        return (*dims[:-2], dims[-1], dims[-2]) if self.type.swapped else dims

    @property
    def argument(self) -> str:
        """The array's name, converted to a valid name in Python and CUDA."""
        text = re.sub(r"\W", "_", self.name.lstrip("%"))
        return text if text[:1].isalpha() else f"x_{text}"


@dataclass
class TileInfo:
    """A tile, with the statement that creates it."""

    name: str
    base: str
    statement: Statement
    rank: int = 2  # number of dimensions of the array


@dataclass
class Survey:
    """The declarations of a listing.

    Attributes:
        arrays: Arrays by memref name.
        tiles: Tiles by name.
        grid: Loops whose iterations become blocks of the grid.
    """

    listing: Listing
    arrays: dict[str, ArrayInfo] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)  # names of arrays, by the result of memref.cast or alloc
    tiles: dict[str, TileInfo] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)  # other names of tiles, each with the name that it stands for
    grid: list[Statement] = field(default_factory=list)
    body: tuple[Statement, ...] = ()
    used: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)  # names of the tiles that stores write
    notes: list[str] = field(default_factory=list)
    free_tiles: dict[str, ArrayInfo] = field(default_factory=dict)
    free_vectors: dict[str, ArrayInfo] = field(default_factory=dict)
    free_types: dict[str, Type] = field(default_factory=dict)
    # Pseudo-code has no stores. The key is a tile that no statement uses, and the value is the product to store to it.
    products: dict[str, str] = field(default_factory=dict)
    # for each unused result, the output array to which it is stored
    outputs: dict[str, ArrayInfo] = field(default_factory=dict)
    scalars: list[str] = field(default_factory=list)  # names of arguments of type index

    @property
    def fixed(self) -> bool:
        """True if the text was printed from a trace, so that its numbers are only valid for the trace's sizes."""
        return bool(self.listing.parameters) and all(p.sizes for p in self.listing.parameters)

    def note(self, statement: Statement, reading: str) -> None:
        """Record how an ambiguity of the statement was resolved."""
        text = f"{self.listing.file}:{statement.line}: {reading}"
        if text not in self.notes:
            self.notes.append(text)

    def refuse(self, statement: Statement, reason: str) -> ProgramError:
        """Return a ProgramError with the position of the statement."""
        return ProgramError(f"{self.listing.file}:{statement.line}: {statement.op.removeprefix('xetile.')}: {reason}")

    def tile(self, name: str) -> TileInfo | None:
        """Return the tile with this name or alias."""
        return self.tiles.get(self.root(name))

    def base(self, name: str) -> str:
        """Return the name of the array that ``name`` is a view of; ``name`` itself if it is not a view."""
        while name in self.views:
            name = self.views[name]
        return name

    def add_view(self, name: str, of: str) -> None:
        """Record that ``name`` is a view of an array. Cycles of views are not recorded."""
        root = self.base(of)
        if root != self.base(name):
            self.views[name] = root

    def root(self, tile: str) -> str:
        """Return the original name of a tile, given an alias."""
        while tile in self.aliases:
            tile = self.aliases[tile]
        return tile


def names_of(expression: Expression) -> set[str]:
    """Return the names in an expression."""
    if isinstance(expression, Combined):
        return set().union(*(names_of(a) for a in expression.args))
    return {expression} if isinstance(expression, str) else set()


def survey(listing: Listing) -> Survey:
    """Collect the declarations of a listing. Raises ProgramError if a declaration is incomplete."""
    result = Survey(listing)
    for p in listing.parameters:
        result.arrays[p.name] = ArrayInfo(p.name, p.type, p.role, p.sizes)
        if p.type.kind == "scalar" and p.type.element == "index":
            result.arrays[p.name] = ArrayInfo(p.name, Type("memref", (1,), "i32"), "input")
            result.scalars.append(p.name)
            result.notes.append(f"{listing.file}:1: {p.name} becomes an array of one non-negative i32")
    _find_tiles(result)
    _find_grid(result)
    _find_uses(result)
    _name_sizes(result)
    return result


def _find_tiles(survey: Survey) -> None:
    for s in survey.listing.walk():
        if s.op == "memref.cast":
            survey.add_view(s.results[0], str(s.operands[0]))
        elif s.op == "memref.alloc" and s.operands:
            survey.add_view(s.results[0], str(s.operands[0]))
            _declare(survey, s, str(s.operands[0]))
        elif s.op == "memref.alloc":
            _declare(survey, s, s.results[0])
        elif s.op in MAKES_TILE:
            name = s.results[0] if s.results else f"%tile_{s.line}"
            if not s.operands:
                raise survey.refuse(s, "the memref of the tile is missing")
            base = str(s.operands[0])
            if name not in survey.tiles or (s.gives and s.gives[-1].scattered):
                survey.tiles[name] = TileInfo(name, base, s)
            if survey.base(base) not in survey.arrays or _is_shared(s):
                _declare(survey, s, survey.base(base))
            elif not survey.fixed:
                _retype(survey, s, survey.base(base))
            own = survey.arrays.get(survey.base(base))
            survey.tiles[name].rank = len(own.dims) if own is not None else 2
        elif s.op == "xetile.update_tile_offset" and s.results and s.results[0] not in survey.tiles:
            if survey.root(str(s.operands[0])) == survey.root(s.results[0]):
                continue
            if str(s.operands[0]) in survey.tiles or str(s.operands[0]) in survey.aliases:
                survey.aliases[s.results[0]] = str(s.operands[0])
                survey.note(s, f"{s.results[0]} is read as another name of the moved tile {s.operands[0]}")
        elif s.op == "assign" and s.results == s.operands and survey.tile(s.results[0]) is not None:
            survey.note(s, f"{s.results[0]} is assigned to itself: the assignment is ignored")


def _is_shared(statement: Statement) -> bool:
    return bool(statement.takes) and statement.takes[0].shared


def _declare(survey: Survey, statement: Statement, name: str) -> None:
    """Declare an array for a memref that is not a function argument."""
    if not statement.takes:
        raise survey.refuse(statement, "the type of the memref is missing")
    type_ = statement.takes[0]
    if type_.shared:
        survey.arrays.setdefault(f"{name}.slm", ArrayInfo(name, type_, "shared"))
        return
    if type_.kind == "scalar" and statement.gives:
        survey.note(statement, f"{name} is an address: it is read as an array of {statement.gives[0].element}")
        type_ = Type("memref", ("?", "?"), statement.gives[0].element)
    unused = [
        p for p in survey.listing.parameters
        if p.type == type_ and not any(s.op in MAKES_TILE and s.operands and s.operands[0] == p.name
                                       for s in survey.listing.walk())
    ]  # fmt: skip
    if unused and name not in survey.arrays:
        survey.arrays.pop(unused[0].name, None)
        survey.note(statement, f"{name} is undefined: it is read as the unused argument {unused[0].name}")
    if name not in survey.arrays:
        survey.arrays[name] = ArrayInfo(name, type_)


def _retype(survey: Survey, statement: Statement, name: str) -> None:
    """If a statement gives an array another type than the declaration, use the statement's type."""
    array, type_ = survey.arrays[name], statement.takes[0] if statement.takes else None
    viewed = str(statement.operands[0]) != name
    if type_ is None or viewed or type_.kind != "memref" or (array.type.dims, array.type.swapped) == (
        type_.dims, type_.swapped
    ):  # fmt: skip
        return
    if len(type_.dims) != len(array.type.dims):
        survey.note(
            statement, f"{name} is declared as {array.type}, but is read as {type_}, as in the tile's statement"
        )
    array.type = type_


# The grid -------------------------------------------------------------------------------------------------------------


def _find_grid(survey: Survey) -> None:
    """Find the loops of the grid: outer loops that contain another loop, and ``scf.forall``."""
    body = survey.listing.statements
    while True:
        loops = [s for s in body if s.op in ("scf.for", "scf.forall")]
        if len(loops) != 1:
            break
        (loop,) = loops
        assert loop.body is not None
        inner = any(s.op == "scf.for" for s in loop.body)
        parallel = loop.op == "scf.forall" or inner
        if not parallel or any(s.op not in ("memref.alloc", "scf.for", "scf.forall") for s in body):
            break
        survey.grid.append(loop)
        body = loop.body
        if loop.op == "scf.forall":
            break
    survey.body = body


def _find_uses(survey: Survey) -> None:
    for s in survey.listing.walk():
        survey.used |= {str(o) for o in s.operands if isinstance(o, str)}
        if s.op in ("xetile.store_tile", "xetile.atomic_rmw", "xetile.store_scatter"):
            for operand in s.operands:
                tile = survey.tile(str(operand))
                if tile is not None:
                    survey.stored.add(tile.name)
                    break
    for tile in survey.tiles.values():  # pseudo-code has no stores: find the product that belongs to each tile
        shape = (*tile.statement.takes, *tile.statement.gives)[-1].dims
        for s in survey.listing.walk():
            unused = s.op in PRODUCTS and not {s.results[0], tile.name} & survey.used
            if unused and survey.grid and s.gives and s.gives[-1].dims == shape:
                survey.products[tile.name] = s.results[0]
                survey.stored.add(tile.name)
                survey.note(
                    tile.statement,
                    f"nothing is stored to {tile.name}, so the program stores {s.results[0]} to it after the loop",
                )


# Names of extents -----------------------------------------------------------------------------------------------------


def _name_sizes(survey: Survey) -> None:
    """Name each extent after a loop variable: the one by which tiles are positioned or moved along this extent."""
    known: dict[tuple[str, int], str] = {}
    moves: dict[tuple[str, int], str] = {}
    for loop in [s for s in survey.listing.walk() if s.op == "scf.for" and s not in survey.grid]:
        for s in loop.body or ():
            if s.op == "xetile.update_tile_offset":
                tile = survey.tile(str(s.operands[0]))
                for d, by in enumerate(s.operands[1:3]):
                    if tile is not None and isinstance(by, int) and by > 0:
                        moves.setdefault((tile.name, d), loop.results[0])
    ends = {s.results[0]: s.operands[1] for s in survey.listing.walk() if s.op == "scf.for"}
    for s in survey.grid:
        if s.op == "scf.forall":
            ends |= dict(zip(s.results, s.index[1], strict=True))
    for tile in survey.tiles.values():
        array = survey.arrays.get(survey.base(tile.base))
        if array is None or array.sizes or _is_shared(tile.statement):
            continue
        positions = tile_offsets(survey, tile)
        rank = len(array.dims)
        for d, position in enumerate(positions):
            loops = [n for n in sorted(names_of(position)) if n in ends]
            variable = loops[0] if loops else moves.get((tile.name, d))
            own = memory_dimension(tile, rank, d)
            if variable is None or own is None:
                continue
            extent = array.dims[own]
            if not isinstance(extent, int) or ends[variable] == extent:
                known.setdefault((array.name, own), variable.lstrip("%"))
    taken = set(known.values())
    for array in survey.arrays.values():
        if array.sizes or array.role == "shared":
            continue
        names = []
        for d, extent in enumerate(array.dims):
            name = extent if isinstance(extent, str) and extent != "?" else known.get((array.name, d))
            if name is None:
                name = f"{array.argument}_{d}"
                while name in taken:
                    name += "_"
            names.append(name)
        array.sizes = tuple(names)


def is_turned(tile: TileInfo) -> bool:
    """Return True if a window shows the transposed matrix, or a vector as one column."""
    s = tile.statement
    types = (*s.takes, *s.gives)
    column = any(t.kind == "memref" and len(t.dims) == 2 and t.dims[1] == 1 != t.dims[0] for t in s.takes)
    return (column and tile.rank == 1) or any(t.swapped or t.order == (0, 1) for t in types)


def memory_dimension(tile: TileInfo, rank: int, d: int) -> int | None:
    """Return the array's dimension along dimension ``d`` of a window.

    Return None if the array has one dimension and the window's extent along ``d`` is therefore 1.
    """
    own = 1 - d if is_turned(tile) else d
    return rank - 2 + own if rank > 1 else 0 if own == 1 else None


def tile_offsets(survey: Survey, tile: TileInfo) -> tuple[Expression, ...]:
    """Return the row and column at which a tile begins.

    For a vector that was cast to a matrix, the text may give only one of the two.
    """
    s = tile.statement
    offsets = s.index[0] if s.index else tuple(s.operands[1:])
    type_ = s.takes[0] if s.takes else None
    if len(offsets) == 1 and type_ is not None and len(type_.dims) == 2:
        columns = type_.dims[1] == 1
        return (offsets[0], 0) if columns else (0, offsets[0])
    return tuple(offsets[-2:]) if len(offsets) >= 2 else (0, 0)
