"""to_simt, to_simd and to_layout convert numpy arrays to the target layout, with each method of exchanging elements."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.layouts.conversion import Exchange, exchange, to_layout, to_simd, to_simt
from search_spaces.layouts.nested_layout import NestedLayout

# accumulator C of mma.m16n8k16, and the same tile in row-major vectors of 16 bytes
ACCUMULATOR = NestedLayout((1, 1), (1, 4), (2, 1), (8, 4), (1, 2), (0, 0), (4, 1))
VECTORS = NestedLayout((1, 1), (2, 1), (1, 1), (8, 4), (1, 8), (0, 0), (4, 1))
HALVES = NestedLayout((2, 1), (1, 1), (1, 1), (8, 4), (1, 8), (1, 0), (4, 1))


def row_major(row, col):
    return row * 32 + col


def padded(row, col):
    return row * 40 + col


def swizzled(row, col):
    return row * 32 + (col ^ ((row & 3) << 3))


@st.composite
def layout_pairs(draw):
    """Draw two layouts of one small tile. Each distributes the dimensions' prime factors over five levels."""
    rank = draw(st.integers(1, 2))
    factors = [draw(st.lists(st.sampled_from([2, 3]), max_size=4)) for _ in range(rank)]
    pair = []
    for _ in range(2):
        tiles = np.ones((5, rank), dtype=int)
        for d in range(rank):
            for factor in factors[d]:
                tiles[draw(st.integers(0, 4)), d] *= factor
        strides = []
        for level in (0, 3):
            order, stride = draw(st.permutations(range(rank))), 1
            row = [0] * rank
            for d in order:
                if tiles[level, d] > 1:
                    row[d], stride = stride, stride * int(tiles[level, d])
            strides.append(row)
        pair.append(NestedLayout(*tiles.tolist(), *strides))
    return pair


def common_threads(a, b):
    return math.lcm(a.subgroups, b.subgroups), math.lcm(a.threads, b.threads)


class TestProperties:
    @given(layout_pairs())
    def test_converting_equals_distributing_anew(self, pair):
        source, target = pair
        subgroups, threads = common_threads(*pair)
        tile = np.arange(math.prod(source.shape)).reshape(source.shape)
        held = to_simt(tile, source, subgroups, threads, replicate_threads=True)
        strides = np.cumprod([1, *[n + 1 for n in source.shape[:0:-1]]])[::-1]  # padded by one in each dimension
        converted = to_layout(
            held, source, target, lambda *at: sum(a * s for a, s in zip(at, strides, strict=True)), True
        )
        assert (converted.values == to_simt(tile, target, subgroups, threads, replicate_threads=True)).all()
        assert (to_simd(converted.values, target, replicate_threads=True) == tile).all()
        in_registers = converted.exchange in (Exchange.NONE, Exchange.REGISTERS)
        assert (converted.shared_elements == 0) == in_registers

    @given(layout_pairs())
    def test_exchange_by_brute_force(self, pair):
        source, target = pair
        subgroups, threads = common_threads(*pair)
        tile = np.arange(math.prod(source.shape)).reshape(source.shape)
        has, needs = (
            layout.distribute(tile, subgroups, threads, replicate_threads=True).reshape(subgroups, threads, -1)
            for layout in pair
        )
        if has.shape == needs.shape and (has == needs).all():
            expected = Exchange.NONE
        elif all(set(needs[s, t]) <= set(has[s, t]) for s in range(subgroups) for t in range(threads)):
            expected = Exchange.REGISTERS
        elif all(set(needs[s].ravel()) <= set(has[s].ravel()) for s in range(subgroups)):
            expected = Exchange.SUBGROUP
        else:
            expected = Exchange.WORKGROUP
        assert exchange(source, target, subgroups, threads, replicate_threads=True) is expected

    @given(layout_pairs())
    def test_exchange_agrees_with_the_layouts_own_comparisons(self, pair):
        source, target = pair
        how = exchange(source, target, *common_threads(*pair), replicate_threads=True)
        if source.same_owners(target):
            assert how in (Exchange.NONE, Exchange.REGISTERS)
        if not source.needs_shared_memory(target):
            assert source.same_owners(target)


class TestRoutes:
    TILE = np.arange(16 * 32, dtype=np.float32).reshape(16, 32)

    @pytest.mark.parametrize(("shared", "size"), [(row_major, 512), (padded, 632), (swizzled, 512)])
    def test_through_shared_memory(self, shared, size):
        held = to_simt(self.TILE, ACCUMULATOR)
        converted = to_layout(held, ACCUMULATOR, VECTORS, shared)
        assert converted.exchange is Exchange.SUBGROUP
        assert converted.shared_elements == size
        assert (converted.values == to_simt(self.TILE, VECTORS)).all()
        assert converted.values.dtype == np.float32

    def test_between_subgroups(self):
        held = to_simt(self.TILE, HALVES, subgroups=2)
        assert exchange(HALVES, VECTORS, 2) is Exchange.WORKGROUP
        converted = to_layout(held, HALVES, VECTORS, row_major)
        assert (converted.values == to_simt(self.TILE, VECTORS, subgroups=2)).all()
        # in the opposite direction each subgroup already holds all elements that it needs
        assert exchange(VECTORS, HALVES, 2) is Exchange.REGISTERS

    def test_registers_are_renamed_without_shared_memory(self):
        other = NestedLayout((1, 1), (2, 4), (1, 1), (8, 4), (1, 2), (0, 0), (4, 1))
        mixed = NestedLayout((1, 1), (1, 2), (2, 2), (8, 4), (1, 2), (0, 0), (4, 1))
        held = to_simt(self.TILE, other)
        assert to_layout(held, other, mixed).exchange is Exchange.REGISTERS
        assert (to_layout(held, other, mixed).values == to_simt(self.TILE, mixed)).all()
        assert to_layout(held, other, other).exchange is Exchange.NONE


class TestRefusals:
    HELD = to_simt(np.arange(512).reshape(16, 32), ACCUMULATOR)

    def test_shared_memory_is_needed(self):
        with pytest.raises(ValueError, match="pass `shared`, the layout of shared memory"):
            to_layout(self.HELD, ACCUMULATOR, VECTORS)

    def test_overlapping_shared_layout(self):
        with pytest.raises(ValueError, match="shared must be injective, but it maps 2 elements to offset 16"):
            to_layout(self.HELD, ACCUMULATOR, VECTORS, lambda row, col: row * 16 + col)

    def test_negative_offsets(self):
        with pytest.raises(ValueError, match="shared maps an element to offset -31"):
            to_layout(self.HELD, ACCUMULATOR, VECTORS, lambda row, col: row * 32 - col)

    def test_other_shape(self):
        with pytest.raises(ValueError, match=r"tile of \[16, 32\], but the target a tile of \[32, 16\]"):
            to_layout(self.HELD, ACCUMULATOR, ACCUMULATOR.select([1, 0]), row_major)
