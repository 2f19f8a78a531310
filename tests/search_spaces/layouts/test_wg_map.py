"""WgMap agrees with the RFC's table and formula. Its round-robin distribution has the right properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.wg_map import WgMap

# C fragment of mma.m16n8k16 (PTX ISA, matrix fragments): thread t holds rows t / 4 + {0, 8} and columns 2 (t % 4) + {0,
# 1}.
MMA_C = NestedLayout((1, 1), (1, 1), (2, 1), (8, 4), (1, 2), (0, 0), (4, 1))


@st.composite
def maps_and_shapes(draw, max_size=4):
    """Draw a map and a shape. In each dimension, the number of sub-tiles divides that of subgroups, or vice versa."""
    layout, data, shape = [], [], []
    for _ in range(2):
        small = draw(st.integers(1, max_size))
        large = small * draw(st.integers(1, 3))
        subgroups, sub_tiles = draw(st.permutations([small, large]))
        layout.append(subgroups)
        data.append(draw(st.integers(1, 4)))
        shape.append(sub_tiles * data[-1])
    return WgMap(layout, data), tuple(shape)


class TestDocument:
    def test_table_of_the_128x128_tile(self):
        wg_map = WgMap((2, 2), (32, 128))
        table = {}
        for subgroup in range(4):
            for row, column in wg_map.offsets((128, 128), subgroup):
                table.setdefault((row, row + 31, column, column + 127), []).append(subgroup)
        assert table == {
            (0, 31, 0, 127): [0, 1],
            (32, 63, 0, 127): [2, 3],
            (64, 95, 0, 127): [0, 1],
            (96, 127, 0, 127): [2, 3],
        }
        assert wg_map.owners((128, 128)).tolist() == [[[0, 1]], [[2, 3]], [[0, 1]], [[2, 3]]]
        assert wg_map.rounds((128, 128)) == (2, 1)
        assert wg_map.sharers((128, 128)) == (1, 2)
        assert wg_map.wraps((128, 128)) == (False, True)
        assert wg_map.subgroup_coordinates(range(4)).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]

    def test_mma(self):
        d = WgMap((8, 4), (32, 64))
        assert d.mma_operands(32) == (WgMap((8, 4), (32, 32)), WgMap((8, 4), (32, 64)))

    def test_reduction(self):
        assert WgMap((32, 1), (8, 1)).reduction_input(dim=1, size=128) == WgMap((32, 1), (8, 128))
        assert WgMap((8, 4), (1, 32)).reduction_input(dim=0, size=32) == WgMap((8, 4), (32, 32))

    def test_broadcast(self):
        assert WgMap((16, 1), (16, 256)).broadcast_input(dim=1) == WgMap((16, 1), (16, 1))
        assert WgMap((2, 1), (32, 64)).broadcast_input(dim=0, size=32) == WgMap((2, 1), (1, 64))

    def test_transpose(self):
        assert WgMap((4, 8), (32, 64)).transpose_input() == WgMap((8, 4), (64, 32))

    def test_text(self):
        assert str(WgMap((2, 2), (32, 128))) == "#xetile.wg_map<sg_layout = [2, 2], sg_data = [32, 128]>"
        transposed = WgMap((2, 2), (32, 128), order=(0, 1))
        assert str(transposed) == (
            "#xetile.tile_attr<wg = #xetile.wg_map<sg_layout = [2, 2], sg_data = [32, 128]>, order = [0, 1]>"
        )
        assert WgMap.parse("#wg_map< sg_layout=[16,2], sg_data=[8,128]>") == WgMap((16, 2), (8, 128))
        assert WgMap.parse("#tile_attr<wg = #wg_map<sg_data=[8,128],sg_layout=[16,2]>>") == WgMap((16, 2), (8, 128))


class TestProperties:
    @given(maps_and_shapes())
    def test_offsets_are_the_formula(self, case):
        wg_map, shape = case
        everything = wg_map.all_offsets(shape)
        for subgroup in range(wg_map.subgroups):
            ids = (subgroup // wg_map.sg_layout[1], subgroup % wg_map.sg_layout[1])
            starts = []
            for d in range(2):
                n = shape[d] // wg_map.sg_data[d]
                steps = range(0, n, wg_map.sg_layout[d])
                starts.append([((i + ids[d]) % n) * wg_map.sg_data[d] for i in steps])
            expected = [(row, column) for row in starts[0] for column in starts[1]]
            assert wg_map.offsets(shape, subgroup) == expected
            assert everything[subgroup].tolist() == [list(origin) for origin in expected]
            assert len(expected) == wg_map.rounds(shape)[0] * wg_map.rounds(shape)[1]

    @given(maps_and_shapes())
    def test_every_sub_tile_has_equally_many_owners(self, case):
        wg_map, shape = case
        owners = {}
        for subgroup in range(wg_map.subgroups):
            origins = wg_map.offsets(shape, subgroup)
            assert len(set(origins)) == len(origins)
            for origin in origins:
                owners.setdefault(origin, []).append(subgroup)
        table = wg_map.owners(shape)
        assert table.shape == (*wg_map.sub_tiles(shape), wg_map.sharers(shape)[0] * wg_map.sharers(shape)[1])
        assert len(owners) == table.shape[0] * table.shape[1]
        for (row, column), subgroups in owners.items():
            assert table[row // wg_map.sg_data[0], column // wg_map.sg_data[1]].tolist() == subgroups

    @given(maps_and_shapes())
    def test_undistribute_inverts_distribute(self, case):
        wg_map, shape = case
        tile = np.arange(shape[0] * shape[1]).reshape(shape)
        held = wg_map.distribute(tile)
        for subgroup in range(wg_map.subgroups):
            for part, (row, column) in zip(held[subgroup], wg_map.offsets(shape, subgroup), strict=True):
                assert (part == tile[row : row + wg_map.sg_data[0], column : column + wg_map.sg_data[1]]).all()
        assert (wg_map.undistribute(held, shape) == tile).all()

    @given(maps_and_shapes(), st.integers(1, 5))
    def test_mma_maps_agree_with_numpy(self, case, k):
        """The product of a subgroup's parts of A and B is the subgroup's part of C."""
        c, (m, n) = case
        a, b = c.mma_operands(k)
        rng = np.random.default_rng(k)
        left, right = rng.integers(-9, 9, (m, k)), rng.integers(-9, 9, (k, n))
        rows, columns = c.rounds((m, n))
        held_a = a.distribute(left).reshape(c.subgroups, rows, 1, c.sg_data[0], k)
        held_b = b.distribute(right).reshape(c.subgroups, 1, columns, k, c.sg_data[1])
        held_c = (held_a @ held_b).reshape(c.subgroups, rows * columns, *c.sg_data)
        assert (c.undistribute(held_c, (m, n)) == left @ right).all()

    @given(maps_and_shapes(), st.integers(0, 1), st.integers(1, 4))
    def test_reduction_maps_agree_with_numpy(self, case, dim, size):
        result, shape = case
        wide = [n * size if d == dim else n for d, n in enumerate(shape)]
        source = result.reduction_input(dim, size)
        values = np.random.default_rng(size).integers(-9, 9, wide)
        split = [*wide[:dim], wide[dim] // size, size, *wide[dim + 1 :]]
        held = source.distribute(values)
        parts = held.reshape(*held.shape[: 2 + dim], result.sg_data[dim], size, *held.shape[3 + dim :])
        reduced = result.undistribute(parts.sum(axis=3 + dim), shape)
        assert (reduced == values.reshape(split).sum(axis=dim + 1)).all()

    @given(maps_and_shapes(), st.integers(0, 1), st.integers(1, 4))
    def test_broadcast_maps_agree_with_numpy(self, case, dim, size):
        result, narrow = case
        result = WgMap(result.sg_layout, [n * size if d == dim else n for d, n in enumerate(result.sg_data)])
        shape = [n * size if d == dim else n for d, n in enumerate(narrow)]
        source = result.broadcast_input(dim, size)
        values = np.arange(narrow[0] * narrow[1]).reshape(narrow)
        held = np.repeat(source.distribute(values), size, axis=2 + dim)
        assert (result.undistribute(held, shape) == np.repeat(values, size, axis=dim)).all()

    @given(maps_and_shapes())
    def test_transposed_map_owns_the_transposed_parts(self, case):
        result, shape = case
        source = result.transpose_input()
        assert source.transpose_input() == result
        tile = np.arange(shape[0] * shape[1]).reshape(shape)
        swapped = source.distribute(tile.T)
        held = result.distribute(tile)
        rows, columns = result.rounds(shape)
        for subgroup in range(result.subgroups):
            row, column = result.subgroup_coordinates(subgroup)
            other = column * result.sg_layout[0] + row
            parts = swapped[other].reshape(columns, rows, *source.sg_data).transpose(1, 0, 3, 2)
            assert (parts.reshape(held[subgroup].shape) == held[subgroup]).all()

    @given(maps_and_shapes(), st.booleans())
    def test_text_round_trip(self, case, transposed):
        wg_map = WgMap(case[0].sg_layout, case[0].sg_data, (0, 1) if transposed else (1, 0))
        assert WgMap.parse(str(wg_map)) == wg_map
        assert WgMap.parse(str(wg_map).replace(" ", "\n").replace("xetile.", "")) == wg_map


class TestLowering:
    @given(maps_and_shapes(max_size=2), st.integers(1, 2), st.integers(1, 2))
    def test_nested_layout_gives_each_subgroup_its_parts(self, case, rows, columns):
        small, shape = case
        data = (16 * rows * small.sg_data[0], 8 * columns * small.sg_data[1])
        wg_map = WgMap(small.sg_layout, data)
        shape = (shape[0] * 16 * rows, shape[1] * 8 * columns)
        dealt = [r > 1 and n > 1 for r, n in zip(wg_map.rounds(shape), wg_map.sg_layout, strict=True)]
        if any(dealt):
            with pytest.raises(ValueError, match="layout for each slab"):
                wg_map.to_nested(shape, MMA_C)
            return
        layout = wg_map.to_nested(shape, MMA_C)
        layout.verify(shape, subgroup_size=32, subgroups=wg_map.subgroups)
        tile = np.arange(shape[0] * shape[1]).reshape(shape)
        held = layout.distribute(tile, subgroups=wg_map.subgroups).reshape(wg_map.subgroups, -1)
        owned = wg_map.distribute(tile).reshape(wg_map.subgroups, -1)
        assert (np.sort(held, axis=1) == np.sort(owned, axis=1)).all()

    def test_example(self):
        layout = WgMap((2, 2), (64, 32)).to_nested((128, 64), MMA_C)
        assert layout == NestedLayout((2, 2), (4, 4), (2, 1), (8, 4), (1, 2), (2, 1), (4, 1))
        shared = WgMap((2, 2), (64, 32)).to_nested((128, 32), MMA_C)  # columns wrap: ids 0 and 1 share elements
        assert shared == NestedLayout((2, 1), (4, 4), (2, 1), (8, 4), (1, 2), (2, 0), (4, 1))

    def test_refusals(self):
        with pytest.raises(ValueError, match=r"sg_data\[0\] is 24, not a multiple of the fragment's 16"):
            WgMap((2, 2), (24, 32)).to_nested((48, 64), MMA_C)
        with pytest.raises(ValueError, match="fragment must be a layout of rank 2 within one subgroup"):
            WgMap((1, 1), (16, 8)).to_nested((16, 8), MMA_C.select([0]))


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (((2,), (32, 128)), r"sg_layout has 1 entries"),
            (((2, 2), (32, 0)), r"sg_data\[1\] is 0: it must be at least 1"),
            (((2, 2), (32, 8), (1, 1)), r"order is \[1, 1\]: it must be \[1, 0\]"),
        ],
    )
    def test_construction(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            WgMap(*arguments)

    @pytest.mark.parametrize(
        ("wg_map", "shape", "message"),
        [
            (WgMap((2, 2), (32, 128)), (128,), r"shape \[128\] has rank 1"),
            (WgMap((2, 2), (32, 128)), (100, 128), r"sg_data\[0\] is 32 but shape\[0\] is 100"),
            (
                WgMap((2, 2), (32, 128)),
                (96, 128),
                r"sg_layout\[0\] \* sg_data\[0\] is 2 \* 32 = 64 but shape\[0\] is 96",
            ),
            (WgMap((1, 3), (8, 8)), (8, 16), r"sg_layout\[1\] \* sg_data\[1\] is 3 \* 8 = 24 but shape\[1\] is 16"),
            # 2 * 48 is a multiple of 32, as the RFC asks, but a sub-tile of 48 does not fit a tile of 32
            (WgMap((2, 1), (48, 8)), (32, 8), r"sg_data\[0\] is 48 but shape\[0\] is 32"),
        ],
    )
    def test_verify(self, wg_map, shape, message):
        with pytest.raises(ValueError, match=message):
            wg_map.verify(shape)

    def test_the_rest(self):
        wg_map = WgMap((2, 2), (32, 128))
        with pytest.raises(ValueError, match=r"run from 0 to 3"):
            wg_map.offsets((128, 128), 4)
        with pytest.raises(ValueError, match="dim is 2: a tile has dimensions 0 and 1"):
            wg_map.reduction_input(2, 8)
        with pytest.raises(ValueError, match=r"broadcast_size is 64 but sg_data\[0\] of the result is 32"):
            wg_map.broadcast_input(0, 64)
        held = wg_map.distribute(np.zeros((128, 128)))
        held[1] += 1
        with pytest.raises(ValueError, match="holds a copy that differs"):
            wg_map.undistribute(held, (128, 128))
        with pytest.raises(ValueError, match=r"give \[4, 2, 32, 128\]"):
            wg_map.undistribute(held[:, :1], (128, 128))
