"""Execute the statements of a listing that create, move, load, store and prefetch tiles.

A tile type of a listing corresponds to a window of the builder, on an array or on shared memory.
"""

from __future__ import annotations

from search_spaces.layouts.wg_map import WgMap
from search_spaces.programs.language import index as indices
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.ir import Array
from search_spaces.programs.language.values import State, Tile, WindowHandle
from search_spaces.programs.text.listing import Statement, Type
from search_spaces.programs.text.name_values import Names, shape_of, tile_shape
from search_spaces.programs.text.survey import (
    LOADS,
    TileInfo,
    is_turned,
    names_of,
    tile_offsets,
)

Held = Tile | State | WindowHandle | Index


class Windows(Names):
    """Executes statements that create, move, load, store and prefetch tiles."""

    # Memory

    def _array(self, s: Statement, name: str) -> Array:
        array = self.arrays.get(f"{name}.slm" if s.takes and s.takes[0].shared else name)
        if array is None:
            self.refuse(s, f"{name} is not an array")
        return array

    def _make_tile(self, s: Statement) -> None:
        tile = self.survey.tiles[s.results[0] if s.results else f"%tile_{s.line}"]
        name = self.survey.base(tile.base)
        array = self._array(s, name)
        types = (*s.takes, *s.gives)
        turned = is_turned(tile)
        memref, own = (types[0], types[-1]) if types else (None, None)
        if memref is None or own is None:
            self.refuse(s, "the type of the tile is missing")
        if memref.kind == "memref" and own.kind == "tile" and len(memref.dims) >= 2:
            ordered = own.order == (0, 1)
            if memref.swapped != ordered and min(d if isinstance(d, int) else 2 for d in memref.dims[-2:]) > 1:
                stored = "column" if memref.swapped else "row"
                self.refuse(s, f"a {stored}-major memref has no tile of order {list(own.order)} (RFC, appendix 1)")
        if array.role == "shared":
            self.value_of[tile.name] = self._slot(s, tile, array)
            return
        offsets = s.index[0] if s.index else () if own.scattered else tuple(s.operands[1:])
        lead = offsets[: len(array.full) - 2] if len(array.full) > 2 else ()
        for position in lead:
            array = array[self._index(s, position)]
        if own.scattered:
            self.value_of[tile.name] = self._scattered(s, array, turned)
            return
        rows, columns = (self._index(s, position) for position in tile_offsets(self.survey, tile))
        column = len(array.full) == 1 and turned
        window = self.p.window(
            array, (rows, columns), tile_shape(s), turned=turned and not column, column=column, map=own.layout
        )
        self.value_of[tile.name] = window

    def _scattered(self, s: Statement, array: Array, turned: bool) -> WindowHandle:
        """Return the window of a scattered tile, whose positions are given by a vector."""
        if len(s.operands) < 2:
            self.refuse(s, "expected a vector of indices")
        name = str(s.operands[1])
        again = f"{name}_{s.line}"  # name of the vector if a value of another type already has ``name``
        index = self._positions_of(s, again if again in self.survey.free_vectors else name)
        if len(array.shape) == 1:
            return self.p.window(array, index, tile_shape(s), turned=turned)
        rows, columns = (self._index(s, position) for position in (s.index[0] if s.index else (0, 0))[-2:])
        return self.p.window(array, (rows, index) if turned else (index, columns), tile_shape(s), turned=turned)

    def _positions_of(self, s: Statement, name: str) -> Tile:
        """Return the vector of indices ``name``.

        If it is undefined, load it from the input of this name, with padding -1 (no element).
        """
        if name in self.survey.free_vectors and name not in self.value_of:
            shape = shape_of(s, self.survey.free_types[name])
            self.value_of[name] = self.p.load(self.p.window(self.arrays[name], (0, 0), shape), padding=-1)
        return self._value(s, name)

    def _gather(self, s: Statement) -> Tile:
        """Execute load_gather. Where the mask is false, the result is the padding."""
        window = self._masked(s, self._handle(s, str(s.operands[0])), 1)
        padding = s.attribute("padding", 0.0)
        assert isinstance(padding, int | float)
        return self.p.load(window, padding=float(padding))

    def _scatter(self, s: Statement) -> None:
        """Execute ``store_scatter %vector, %mask, %tile``; the mask may be missing."""
        window = self._masked(s, self._handle(s, str(s.operands[-1])), 1 if len(s.operands) == 3 else None)
        self.p.store(self._value(s, s.operands[0]), window)

    def _masked(self, s: Statement, handle: WindowHandle, at: int | None) -> WindowHandle:
        """Return the window with its indices replaced by -1 where the mask is false.

        The mask is operand number ``at``, if the statement has it.
        """
        if at is None or len(s.operands) <= at:
            return handle
        window = handle.window
        if window.index is None or window.array.matrix[0] != 1:
            self.refuse(s, "the mask cannot be applied: only tiles with an index per element support masks")
        positions = Tile(self.p, window.index)
        return self.p.window(window.array, self.p.where(self._value(s, s.operands[at]), positions, -1.0), window.shape)

    def _handle(self, s: Statement, name: str) -> WindowHandle:
        while name not in self.value_of and name in self.survey.aliases:
            name = self.survey.aliases[name]
        value = self.value_of.get(name)
        if value is None and name in self.survey.free_tiles:
            type_ = self.survey.free_types[name]
            if type_.scattered:
                self.value_of[name] = self.p.window(
                    self.arrays[name], self._positions_of(s, f"{name}_places"), shape_of(s, type_)
                )
                return self._handle(s, name)
            value = self.value_of[name] = self.p.window(
                self.arrays[name], (0, 0), shape_of(s, type_), turned=type_.order == (0, 1), map=type_.layout
            )
        if name in self.slots:
            tile = self.survey.tiles[name]
            return self._slot(s, tile, self._array(tile.statement, self.survey.base(tile.base)))
        if not isinstance(value, WindowHandle):
            self.refuse(s, f"{name} is not a tile")
        return value

    def _load(self, s: Statement) -> Tile:
        window = self._handle(s, str(s.operands[0]))
        for type_ in (*s.takes, *s.gives):
            if type_.kind in ("tile", "vector") and type_.dims != window.shape:
                extents = "x".join(map(str, type_.dims))
                self.survey.note(s, f"type {extents} is ignored: the tile is {window.shape[0]}x{window.shape[1]}")
            elif type_.kind in ("tile", "vector") and type_.element != window.window.array.dtype.name:
                self.survey.note(s, f"type {type_.element} is ignored: the tile has {window.window.array.dtype.name}")
        if s.takes and s.takes[0].layout not in (None, window.window.map) and window.window.map is None:
            window = self._with_map(window, s.takes[0].layout)
        padding = s.attribute("padding", 0.0)
        assert isinstance(padding, int | float)
        value = self.loaded[window.window.id] = self.p.load(window, padding=float(padding))
        if window.window.map is not None:
            self.maps[value.value.id] = window.window.map
        return value

    def _with_map(self, handle: WindowHandle, layout: WgMap | None) -> WindowHandle:
        """Return a copy of the window with the map ``layout``."""
        own = handle.window
        mapped = self.p.window(own.array, own.at, own.shape, turned=own.turned, map=layout)
        return mapped

    def _store(self, s: Statement) -> None:
        names = [*(str(o) for o in s.operands), *(s.results if len(s.operands) == 1 else ())]
        tiles = [n for n in names if isinstance(self.value_of.get(n), WindowHandle) or n in self.survey.aliases
                 or n in self.survey.free_tiles]  # fmt: skip
        if not tiles:
            self.refuse(s, "expected a tile")
        if s.op == "xetile.atomic_rmw" and set(s.results) & self.survey.used:
            self.refuse(s, f"{s.results[0]} is used, but listings do not support old values of atomics")
        window = self._handle(s, tiles[0])
        unknown = [n for n in names if n not in tiles]
        if unknown:
            value = self._value(s, unknown[0])
        else:
            if window.shape not in self.last:
                self.refuse(s, f"{tiles[-1]} is a tile, not a vector, and no vector of its shape has been computed")
            value = self.last[window.shape]
            self.survey.note(s, f"{tiles[-1]} is a tile, not a vector, so the latest vector of its shape is stored")
        wanted = window.window.array.dtype
        if value.value.dtype != wanted:
            self.survey.note(s, f"a {value.value.dtype.name} vector is stored to a {wanted.name} tile: it is rounded")
            value = value.cast(wanted.name)
        if s.op == "xetile.atomic_rmw":
            kind = "addf" if s.kind in ("add", "addf") and wanted.is_float else s.kind
            kind = "addi" if s.kind == "add" and wanted.name == "i32" else kind
            self.p.atomic_rmw(kind, value, window)
        elif window.window.array.role == "inout":
            missing = [n for n in self.grid if not any(n in names_of(position) for tile in self.survey.tiles.values()
                       for position in tile_offsets(self.survey, tile) if tile.name == tiles[0])]  # fmt: skip
            axes = " and ".join(missing) or "other axes"
            self.survey.note(
                s, f"all blocks along {axes} store to the same elements: the store is read as atomic_rmw <addf>"
            )
            self.p.atomic_rmw("addf", value, window)
        else:
            self.p.store(value, window, rows_below=self._index(s, s.index[0][0]) if s.index else None)

    def _prefetch(self, s: Statement) -> None:
        name = str(s.operands[0])
        window = self._handle(s, name)
        said = s.takes[0] if s.takes else None
        if said is not None and said.layout not in (None, window.window.map):
            other = self._meant(name, window, said)
            if other is not None:
                self.survey.note(
                    s,
                    f"the statement prefetches {name} with another map than its own, so {other}, which has that map, "
                    "is prefetched",
                )
                window = self._handle(s, other)
        locality = s.attribute("locality", 3)
        assert isinstance(locality, int)
        self.p.prefetch(window, locality=locality)

    def _meant(self, name: str, window: WindowHandle, said: Type) -> str | None:
        """Return an unused tile of the same array and shape, which the statement probably refers to, or None."""
        used = {str(o) for s in self.survey.listing.walk() for o in s.operands
                if s.op in (*LOADS, "xetile.prefetch_tile", "xetile.store_tile")}  # fmt: skip
        for other, tile in self.survey.tiles.items():
            value = self.value_of.get(other)
            if other != name and other not in used and isinstance(value, WindowHandle):
                same = (value.window.array, value.window.shape) == (window.window.array, window.window.shape)
                if same and tile.name == other:
                    return other
        return None

    def _move(self, s: Statement) -> None:
        name, *by = s.operands
        if str(name) in self.slots or any(isinstance(b, str) and b in self.rings for b in by):
            return  # the variable with the ring's offset determines the position of this tile
        window = self._handle(s, str(name))
        if any(not isinstance(b, int) for b in by):
            known = [b for b in by if isinstance(b, str) and b not in self.value_of]
            for b in known:
                self.survey.note(s, f"{b} is undefined: 0 is used")
        rows, columns = (b if isinstance(b, int) else 0 for b in (*by, 0, 0)[:2])
        window.move(rows, columns)
        if s.results and s.results[0] not in self.survey.tiles and s.results[0] not in self.value_of:
            self.value_of[s.results[0]] = window

    # Shared memory

    def _make_shared(self, name: str) -> None:
        """Declare a shared-memory tile that is large enough for all windows on it."""
        info = self.survey.arrays[name]
        if self.survey.fixed:
            extents = [int(d) for d in info.type.dims]
        else:
            extents = [0, 0]
            for tile in self.survey.tiles.values():
                if self.survey.base(tile.base) == info.name and tile.statement.takes[0].shared:
                    for d, at in enumerate(self._slot_start(tile)):
                        extents[d] = max(extents[d], at + tile_shape(tile.statement)[d])
        self.arrays[name] = self.p.shared(extents[0], extents[1], info.type.element)

    def _slot_start(self, tile: TileInfo) -> tuple[int, int]:
        """Return the position of a window on shared memory. A coordinate that is not constant is replaced by 0."""
        rows, columns = (p if isinstance(p, int) else 0 for p in tile_offsets(self.survey, tile))
        return rows, columns

    def _slot(self, s: Statement, tile: TileInfo, array: Array) -> WindowHandle:
        own = tile.statement
        offsets_ = tile_offsets(self.survey, tile)
        if self.survey.fixed:
            at: list[Index | int] = [self._index(own, p) for p in offsets_]
        else:
            at = list(self._slot_start(tile))
        ring = self.slots.get(tile.name)
        if ring is not None:
            offset, dimension = self.rings[ring][0], int(self.rings[ring][1].number)
            extent = array.full[dimension]
            at[dimension] = (at[dimension] + offset) % extent
        return self.p.window(array, (at[0], at[1]), tile_shape(own), turned=is_turned(tile), map=own.gives[-1].layout)

    def _open_rings(self, s: Statement, iteration: Index) -> None:
        """Find the variables that a loop increments modulo a ring's extent, and the tiles whose offsets they are."""
        body = s.body or ()
        for first in body:
            if first.op != "add" or first.operands[:1] != (first.results[0],):
                continue
            name, step = first.results[0], first.operands[1]
            modulo = [b for b in body if b.op == "mod" and b.results == first.results]
            value = self.value_of.get(name)
            if not modulo or not isinstance(value, Index) or not isinstance(step, int):
                continue
            extent = self._number(modulo[0], modulo[0].operands[1])
            start = value
            self.value_of[name] = (start + iteration * step) % extent
            dimension = 0
            for b in body:
                if b.op == "xetile.update_tile_offset" and name in b.operands[1:]:
                    dimension = b.operands[1:].index(name)
                    for tile in (str(b.operands[0]), *b.results):
                        self.slots[tile] = f"{name}.{dimension}"
                    self.survey.note(
                        b, f"{name} is read as an offset in a ring of {extent}: the tile moves to its first position "
                        f"plus this offset, modulo {extent}"
                    )  # fmt: skip
            for d in (0, 1):
                self.rings[f"{name}.{d}"] = (indices.as_index(self.value_of[name]), indices.constant(d))  # type: ignore[arg-type]
            self.rings[name] = self.rings[f"{name}.0"]

    def _assign(self, s: Statement) -> None:
        name, value = s.results[0], s.operands[0]
        if s.op in ("add", "mod"):
            return  # the statement updates the offset of a ring, which ``_open_rings`` has already read
        if isinstance(value, int):
            self.value_of[name] = indices.constant(value)
        elif self.survey.tile(str(value)) is not None or str(value) in self.slots:
            return  # the statement only gives a tile another name
        else:
            self.value_of[name] = self._value(s, value)
