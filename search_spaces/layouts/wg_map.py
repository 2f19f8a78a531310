"""WgMap: distribution of a workgroup's tile over subgroups (Intel XeTile RFC, xetile.wg_map).

Subgroups form a grid ``sg_layout``, numbered row by row. Each dimension of the tile is divided into n = tile / sg_data
sub-tiles, which are distributed round-robin. If there are L subgroups along that dimension, subgroup s owns sub-tiles
s, s + L, s + 2L, ... If n < L, the distribution wraps around, and L / n subgroups share each sub-tile.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import IntArray
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.text import TextReader, format_fields, integer_tuple, parse_attribute

AnyArray = npt.NDArray[Any]

ROW_MAJOR = (1, 0)


@dataclass(frozen=True)
class WgMap:
    """Distribution of a tile over a grid of shape ``sg_layout`` of subgroups, in sub-tiles of shape ``sg_data``.

    ``order`` lists the tile's dimensions in memory, fastest-changing first: (1, 0) is row-major, (0, 1) column-major.
    ``order`` does not affect ownership, because subgroup ids are always row-major over ``sg_layout``. Derived maps have
    the default order, because they describe vectors, which have no memory order. Raises ValueError that names the
    invalid field.
    """

    sg_layout: tuple[int, int]
    sg_data: tuple[int, int]
    order: tuple[int, int] = ROW_MAJOR

    def __post_init__(self) -> None:
        for name, minimum in (("sg_layout", 1), ("sg_data", 1), ("order", 0)):
            values = integer_tuple(name, getattr(self, name), minimum)
            if len(values) != 2:
                raise ValueError(f"{name} has {len(values)} entries: give 2, because a wg_map is two-dimensional")
            object.__setattr__(self, name, values)
        if sorted(self.order) != [0, 1]:
            raise ValueError(f"order is {list(self.order)}: it must be [1, 0] (row-major) or [0, 1] (column-major)")

    @property
    def subgroups(self) -> int:
        """Number of subgroups of the map."""
        return self.sg_layout[0] * self.sg_layout[1]

    # Distribution

    def verify_memory(self, strides: Sequence[int]) -> None:
        """Check ``order`` against the strides of the base matrix, in elements per row and per column (RFC, appendix 1).

        Raises ValueError if the order does not match, or if no dimension is contiguous.
        """
        row, column = integer_tuple("strides", strides, 1)
        if column == 1 and row > 1 and self.order != (1, 0):
            raise ValueError("order is [0, 1] but the base matrix is row-major: its tiles need order [1, 0]")
        if row == 1 and column > 1 and self.order != (0, 1):
            raise ValueError("order is [1, 0] but the base matrix is column-major: its tiles need order [0, 1]")
        if 1 not in (row, column):
            raise ValueError(f"strides {[row, column]}: the innermost dimension of a base matrix must be contiguous")

    def verify(self, shape: Sequence[int]) -> None:
        """Check that a tile of ``shape`` can be distributed.

        Raises:
            ValueError: In some dimension, sg_data does not divide the tile; or the tile is neither a multiple nor a
                divisor of sg_layout * sg_data.
        """
        sizes = integer_tuple("shape", shape, 1)
        if len(sizes) != 2:
            raise ValueError(f"shape {list(sizes)} has rank {len(sizes)}: a wg_map distributes a tile of rank 2")
        for d, (size, layout, data) in enumerate(zip(sizes, self.sg_layout, self.sg_data, strict=True)):
            if size % data:
                raise ValueError(f"sg_data[{d}] is {data} but shape[{d}] is {size}: sg_data must divide the tile")
            if size % (layout * data) and (layout * data) % size:
                raise ValueError(
                    f"sg_layout[{d}] * sg_data[{d}] is {layout} * {data} = {layout * data} but shape[{d}] is {size}: "
                    "one must divide the other"
                )

    def subgroup_coordinates(self, subgroup_id: npt.ArrayLike) -> IntArray:
        """Return the row and column of subgroups in the grid, ``[..., 2]``.

        Raises ValueError for an id outside of the grid.
        """
        ids = np.asarray(subgroup_id, dtype=np.int64)
        if (ids < 0).any() or (ids >= self.subgroups).any():
            raise ValueError(f"subgroup ids of sg_layout {list(self.sg_layout)} run from 0 to {self.subgroups - 1}")
        return np.stack([ids // self.sg_layout[1], ids % self.sg_layout[1]], axis=-1)

    def sub_tiles(self, shape: Sequence[int]) -> tuple[int, int]:
        """Return the number of sub-tiles along each dimension of a tile of ``shape``."""
        self.verify(shape)
        return shape[0] // self.sg_data[0], shape[1] // self.sg_data[1]

    def rounds(self, shape: Sequence[int]) -> tuple[int, int]:
        """Return the number of sub-tiles that a subgroup owns along each dimension. The product is the total number."""
        n = self.sub_tiles(shape)
        return max(1, n[0] // self.sg_layout[0]), max(1, n[1] // self.sg_layout[1])

    def sharers(self, shape: Sequence[int]) -> tuple[int, int]:
        """Return the number of subgroups along each dimension that own the same sub-tile.

        The product is the total number of owners.
        """
        n = self.sub_tiles(shape)
        return max(1, self.sg_layout[0] // n[0]), max(1, self.sg_layout[1] // n[1])

    def wraps(self, shape: Sequence[int]) -> tuple[bool, bool]:
        """Return, for each dimension, True if the distribution wraps around, so that subgroups share data."""
        shared = self.sharers(shape)
        return shared[0] > 1, shared[1] > 1

    def offsets(self, shape: Sequence[int], subgroup_id: int) -> list[tuple[int, int]]:
        """Return the origins (row, column) of the sub-tiles that a subgroup owns, rows outermost."""
        return [(row, column) for row, column in self._offsets(shape, np.array([subgroup_id]))[0].tolist()]

    def all_offsets(self, shape: Sequence[int]) -> IntArray:
        """Return the result of ``offsets`` for every subgroup: ``[subgroups, sub-tiles owned, 2]``."""
        return self._offsets(shape, np.arange(self.subgroups))

    def owners(self, shape: Sequence[int]) -> IntArray:
        """Return the ids of the subgroups that own each sub-tile: ``[sub-tile rows, sub-tile columns, sharers]``."""
        n = self.sub_tiles(shape)
        share = self.sharers(shape)
        rows, columns = (
            np.arange(n[d])[:, None] % self.sg_layout[d] + n[d] * np.arange(share[d])[None, :] for d in (0, 1)
        )
        ids = rows[:, None, :, None] * self.sg_layout[1] + columns[None, :, None, :]
        return np.sort(ids.reshape(*n, -1), axis=-1).astype(np.int64)

    def distribute(self, array: npt.ArrayLike) -> AnyArray:
        """Return the elements of a tile that each subgroup owns: ``[subgroups, sub-tiles owned, *sg_data]``.

        Sub-tiles are in the order of ``offsets``.
        """
        tile = np.asarray(array)
        n = self.sub_tiles(tile.shape)
        cut = tile.reshape(n[0], self.sg_data[0], n[1], self.sg_data[1]).transpose(0, 2, 1, 3)
        origins = self.all_offsets(tile.shape) // np.array(self.sg_data)
        owned: AnyArray = cut[origins[..., 0], origins[..., 1]]
        return owned

    def undistribute(self, distributed: npt.ArrayLike, shape: Sequence[int]) -> AnyArray:
        """Return the tile of ``shape`` from the result of ``distribute``.

        Raises ValueError if copies of an element differ.
        """
        array = np.asarray(distributed)
        rounds = self.rounds(shape)
        expected = (self.subgroups, rounds[0] * rounds[1], *self.sg_data)
        if array.shape != expected:
            raise ValueError(f"the distributed array has shape {list(array.shape)}: give {list(expected)}")
        n = self.sub_tiles(shape)
        origins = self.all_offsets(shape) // np.array(self.sg_data)
        cut = np.empty((*n, *self.sg_data), dtype=array.dtype)
        cut[origins[..., 0], origins[..., 1]] = array
        again = cut[origins[..., 0], origins[..., 1]]
        differs = (again != array) & ((again == again) | (array == array))  # a NaN counts as equal to its copy
        if differs.any():
            raise ValueError(
                f"subgroup {np.argwhere(differs)[0][0]} holds a copy that differs from another's: "
                "subgroups that share a sub-tile must hold equal copies"
            )
        return cut.transpose(0, 2, 1, 3).reshape(*shape)

    def _offsets(self, shape: Sequence[int], subgroup_ids: IntArray) -> IntArray:
        n = self.sub_tiles(shape)
        coordinates = self.subgroup_coordinates(subgroup_ids)
        rows, columns = (
            (np.arange(0, n[d], self.sg_layout[d]) + coordinates[:, d, None]) % n[d] * self.sg_data[d] for d in (0, 1)
        )
        pairs = np.broadcast_arrays(rows[:, :, None], columns[:, None, :])
        return np.stack(pairs, axis=-1).reshape(len(subgroup_ids), -1, 2).astype(np.int64)

    # Maps of operands, derived from this map, which is the map of the result.

    def mma_operands(self, sg_data_k: int) -> tuple[Self, Self]:
        """Return the maps of A [m, k] and B [k, n] if this is the map of C or D [m, n].

        These maps have the sg_layout of C, the sg_data of C along m and n, and ``sg_data_k`` along k.
        """
        m, n = self.sg_data
        return self._derived(self.sg_layout, (m, sg_data_k)), self._derived(self.sg_layout, (sg_data_k, n))

    def reduction_input(self, dim: int, size: int) -> Self:
        """Return the input's map for a reduction along ``dim`` whose result has this map.

        Groups of ``size`` contiguous elements are reduced to one element each. ``size`` is the whole dimension, or
        ``reduction_size``.
        """
        _check_dim(dim)
        data = list(self.sg_data)
        data[dim] *= integer_tuple("size", [size], 1)[0]
        return self._derived(self.sg_layout, (data[0], data[1]))

    def broadcast_input(self, dim: int, size: int | None = None) -> Self:
        """Return the input's map for a broadcast along ``dim`` whose result has this map.

        By default, sg_data of the input is 1 along ``dim``. With ``size`` (``broadcast_size``), each element is copied
        ``size`` times, and sg_data along ``dim`` is divided by ``size``. Raises ValueError if ``size`` does not divide
        this sg_data.
        """
        _check_dim(dim)
        data = list(self.sg_data)
        if size is None:
            data[dim] = 1
        else:
            (factor,) = integer_tuple("size", [size], 1)
            if data[dim] % factor:
                raise ValueError(
                    f"broadcast_size is {factor} but sg_data[{dim}] of the result is {data[dim]}: "
                    "broadcast_size must divide sg_data, so that one sub-tile has all copies of an element"
                )
            data[dim] //= factor
        return self._derived(self.sg_layout, (data[0], data[1]))

    def transpose_input(self) -> Self:
        """Return the map that the input of a transpose needs for a result with this map: its dimensions are swapped.

        Subgroup ids are row-major in both maps. Therefore, elements move to other subgroups, unless the grid is a
        single row or column. The RFC avoids this with another map (appendix 2.3); see ``check_transpose``.
        """
        return self._derived(self.sg_layout[::-1], self.sg_data[::-1])

    def _derived(self, sg_layout: tuple[int, ...], sg_data: tuple[int, ...]) -> Self:
        return type(self)((sg_layout[0], sg_layout[1]), (sg_data[0], sg_data[1]))

    # Lowering

    def to_nested(self, shape: Sequence[int], fragment: NestedLayout) -> NestedLayout:
        """Return the layout of the whole tile if each subgroup processes its data in fragments.

        The layout adds subgroup and batch levels to the layout ``fragment`` of an intrinsic.

        Raises:
            ValueError: The fragment is distributed over subgroups, or does not divide sg_data. Also raised if a
                dimension is distributed over several subgroups in more than one round. A subgroup's data are then not a
                nested tile, and each slab of sg_layout * sg_data needs a separate layout.
        """
        rounds, sharers = self.rounds(shape), self.sharers(shape)
        if fragment.rank != 2 or any(n != 1 for n in fragment.subgroup_tile):
            raise ValueError("fragment must be a layout of rank 2 within one subgroup (subgroup_tile = [1, 1])")
        tile, batch, strides = [1, 1], [1, 1], [0, 0]
        for d in (0, 1):
            layout, data, piece = self.sg_layout[d], self.sg_data[d], fragment.shape[d]
            if data % piece:
                raise ValueError(f"sg_data[{d}] is {data}, not a multiple of the fragment's {piece} elements")
            if rounds[d] > 1 and layout > 1:
                raise ValueError(
                    f"dimension {d} is distributed in {rounds[d]} rounds over {layout} subgroups, which a nested "
                    f"layout cannot express: use a separate layout for each slab of {layout * data} elements, or set "
                    f"sg_data[{d}] to {shape[d] // layout}"
                )
            tile[d] = layout // sharers[d]
            batch[d] = rounds[d] * (data // piece) * fragment.batch_tile[d]
            # Ids wrap modulo the tile, so subgroups that share a sub-tile along d have the same virtual id.
            strides[d] = 0 if tile[d] == 1 else (self.sg_layout[1], 1)[d]
        return dataclasses.replace(
            fragment, subgroup_tile=tuple(tile), batch_tile=tuple(batch), subgroup_strides=tuple(strides)
        )

    # Text

    def __str__(self) -> str:
        """Return ``#xetile.wg_map<...>``, or ``#xetile.tile_attr<wg = ..., order = ...>`` for a non-default order."""
        text = f"#xetile.wg_map<{format_fields({'sg_layout': self.sg_layout, 'sg_data': self.sg_data})}>"
        if self.order == ROW_MAJOR:
            return text
        return f"#xetile.tile_attr<wg = {text}, {format_fields({'order': self.order})}>"

    @staticmethod
    def parse(text: str) -> WgMap:
        """Parse ``#xetile.wg_map<...>`` or ``#xetile.tile_attr<wg = ..., order = [..]>``.

        If ``text`` defines several maps as ``#alias = ...``, the last map is returned. ``wg`` is a map or an alias.
        ``xetile.`` may be omitted, as in the RFC's appendices. A ``tile_attr`` without ``wg`` belongs to one subgroup,
        with the map ([1, 1], [1, 1]).

        Raises:
            LayoutSyntaxError: The syntax is wrong. The message has the position.
            ValueError: The numbers are not a valid map.
        """
        return parse_attribute(text, _read)


_WG_MAP, _TILE_ATTR = ("#xetile.wg_map", "#wg_map"), ("#xetile.tile_attr", "#tile_attr")


def _read(reader: TextReader) -> WgMap:
    if reader.expect(*_WG_MAP, *_TILE_ATTR) in _WG_MAP:
        return _read_map(reader)

    def wg() -> WgMap:
        if any(reader.accept(name) for name in _WG_MAP):
            return _read_map(reader)
        map_: WgMap = reader.reference("'#xetile.wg_map', '#wg_map' or the alias of a map")
        return map_

    reader.expect("<")
    fields = reader.fields({"wg": wg, "order": reader.integers}, ">", optional=("wg", "order"))
    owner: WgMap = fields.get("wg") or WgMap((1, 1), (1, 1))
    return dataclasses.replace(owner, order=fields.get("order", owner.order))


def _read_map(reader: TextReader) -> WgMap:
    reader.expect("<")
    return WgMap(**reader.fields({"sg_layout": reader.integers, "sg_data": reader.integers}, ">"))


def _check_dim(dim: int) -> None:
    if dim not in (0, 1):
        raise ValueError(f"dim is {dim}: a tile has dimensions 0 and 1")
