"""NestedLayout agrees with the source document's examples, and its distributions have the right properties."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.text import LayoutSyntaxError

# "A full example": vector<64x64xf16>
EXAMPLE = NestedLayout(
    subgroup_tile=(2, 1),
    batch_tile=(2, 4),
    outer_tile=(1, 1),
    thread_tile=(16, 4),
    element_tile=(1, 4),
    subgroup_strides=(1, 0),
    thread_strides=(1, 16),
)


@st.composite
def strides_of(draw, tile):
    strides, stride = [0] * len(tile), 1
    for d in draw(st.permutations([d for d, n in enumerate(tile) if n > 1])):
        strides[d] = stride * draw(st.sampled_from([1, 1, 1, 2, 3]))
        stride = strides[d] * tile[d]
    for d, n in enumerate(tile):
        if n == 1 and draw(st.booleans()):
            strides[d] = draw(st.integers(1, 5))  # the stride of a single tile has no effect
    return tuple(strides)


@st.composite
def layouts(draw, min_rank=0, max_rank=3):
    rank = draw(st.integers(min_rank, max_rank))
    tiles = np.ones((5, rank), dtype=int)
    if rank:
        factors = st.tuples(st.integers(0, 4), st.integers(0, rank - 1), st.sampled_from([2, 3]))
        for level, dimension, factor in draw(st.lists(factors, max_size=6)):
            tiles[level, dimension] *= factor
    subgroup, batch, outer, thread, element = (tuple(tile) for tile in tiles.tolist())
    return NestedLayout(subgroup, batch, outer, thread, element, draw(strides_of(subgroup)), draw(strides_of(thread)))


def linear_tile(layout):
    return np.arange(math.prod(layout.shape)).reshape(layout.shape)


class TestDocument:
    def test_order_of_subgroups(self):
        layout = NestedLayout((4, 2), (1, 1), (1, 1), (1, 1), (1, 1), (1, 4), (0, 0))
        virtual = [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1], [3, 0], [3, 1]]
        assert layout.subgroup_ids(virtual).tolist() == [0, 4, 1, 5, 2, 6, 3, 7]
        assert layout.subgroup_ids(virtual, hardware_subgroups=4).tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
        assert layout.virtual_subgroup_ids([0, 4, 1, 5, 2, 6, 3, 7]).tolist() == virtual

    def test_folding_onto_four_subgroups(self):
        layout = NestedLayout((4, 2), (1, 1), (1, 1), (1, 1), (1, 1), (1, 4), (0, 0))
        folded = layout.fold_subgroups(4)
        assert folded == NestedLayout((4, 1), (1, 2), (1, 1), (1, 1), (1, 1), (1, 0), (0, 0))
        assert folded.distribute([[0, 0], [1, 1], [2, 2], [3, 3]], subgroup_size=1).reshape(4, 2).tolist() == [
            [0, 0],
            [1, 1],
            [2, 2],
            [3, 3],
        ]

    def test_outer_duplicates_the_thread_layout(self):
        layout = NestedLayout((1, 1), (1, 1), (2, 1), (2, 5), (1, 1), (0, 0), (5, 1))
        assert layout.owners()[1].tolist() == [
            [0, 1, 2, 3, 4],
            [5, 6, 7, 8, 9],
            [0, 1, 2, 3, 4],
            [5, 6, 7, 8, 9],
        ]

    def test_shapes(self):
        assert EXAMPLE.shape == (64, 64)
        assert EXAMPLE.distributed_packed_shape == (2, 4, 1, 1, 1, 4)
        assert EXAMPLE.distributed_shape == (2, 16)
        assert (EXAMPLE.subgroups, EXAMPLE.threads, EXAMPLE.elements_per_thread) == (2, 64, 32)

    @pytest.mark.parametrize(("subgroup", "part"), [(0, 0), (1, 1), (2, 0), (3, 1)])
    @pytest.mark.parametrize(("thread", "virtual"), [(0, (0, 0)), (1, (1, 0)), (16, (0, 1))])
    def test_64x64_example(self, subgroup, part, thread, virtual):
        tile = np.arange(64 * 64).reshape(64, 64)
        # both rows and columns are split into subgroup x batch x outer x thread x element
        nested = tile.reshape(2, 2, 1, 16, 1, 1, 4, 1, 4, 4)
        expected = nested[part, :, :, virtual[0], :, 0, :, :, virtual[1], :]  # axes: batch, outer, element
        held = EXAMPLE.distribute(tile, subgroups=4, subgroup_size=64)[subgroup, thread]
        assert held.shape == (2, 4, 1, 1, 1, 4)
        assert (held == expected.transpose(0, 3, 1, 4, 2, 5)).all()
        assert (EXAMPLE.indices(subgroup, thread) @ [64, 1] == held.ravel()).all()

    def test_the_documents_modulo_is_wrong_with_gaps(self):
        """For virtual thread 3, the document's formula gives thread 2, but thread 2 has the virtual id 1.

        The formula is thread_id = sum(stride * virtual) % product(tile).
        """
        gaps = NestedLayout((1,), (1,), (1,), (4,), (1,), (0,), (2,))
        assert gaps.thread_ids([3]) == 6
        assert gaps.virtual_thread_ids(6).tolist() == [3]
        assert gaps.virtual_thread_ids(6 % 4).tolist() == [1]


class TestProperties:
    @given(layouts())
    def test_packed_order_defines_the_coordinates(self, layout):
        """Compare with coordinates from the subgroup, batch, outer, thread and element indices of every dimension."""
        coordinates = layout.coordinates()
        for subgroup in range(layout.subgroups):
            for thread in range(layout.threads):
                for position, held in enumerate(np.ndindex(layout.distributed_packed_shape)):
                    expected = []
                    for d in range(layout.rank):
                        tiles = [tile[d] for tile in layout.tiles]
                        s = 0 if tiles[0] == 1 else subgroup // layout.subgroup_strides[d] % tiles[0]
                        t = 0 if tiles[3] == 1 else thread // layout.thread_strides[d] % tiles[3]
                        b, o, e = held[d], held[layout.rank + d], held[2 * layout.rank + d]
                        expected.append((((s * tiles[1] + b) * tiles[2] + o) * tiles[3] + t) * tiles[4] + e)
                    assert coordinates[subgroup, thread, position].tolist() == expected

    @given(layouts(), st.integers(0, 5))
    def test_undistribute_inverts_distribute(self, layout, surplus):
        tile = linear_tile(layout)
        held = layout.distribute(tile, layout.subgroups + surplus, layout.threads, replicate_threads=True)
        assert held.shape == (layout.subgroups + surplus, layout.threads, *layout.distributed_packed_shape)
        assert (layout.undistribute(held, replicate_threads=True) == tile).all()
        for subgroup in range(layout.subgroups, layout.subgroups + surplus):
            assert (held[subgroup] == held[subgroup % layout.subgroups]).all()

    @given(layouts())
    def test_distribution_is_a_partition(self, layout):
        """All elements have the same number of holders: one if ids have no gaps. No thread holds an element twice."""
        linear = layout.distribute(linear_tile(layout), None, layout.threads, replicate_threads=True)
        holders = layout.subgroups * layout.threads // math.prod(layout.subgroup_tile + layout.thread_tile)
        assert (np.bincount(linear.ravel(), minlength=math.prod(layout.shape)) == holders).all()
        per_thread = np.sort(linear.reshape(layout.subgroups, layout.threads, -1), axis=-1)
        assert (np.diff(per_thread, axis=-1) > 0).all()

    @given(layouts())
    def test_ids_invert(self, layout):
        for ids, virtual, inverse in (
            (layout.subgroups, layout.virtual_subgroup_ids, layout.subgroup_ids),
            (layout.threads, layout.virtual_thread_ids, layout.thread_ids),
        ):
            once = virtual(np.arange(ids))
            lowest = inverse(once)
            assert (virtual(lowest) == once).all()
            assert (lowest <= np.arange(ids)).all()

    @given(layouts())
    def test_owners_point_back(self, layout):
        tile = linear_tile(layout)
        held = layout.distribute(tile, None, layout.threads, replicate_threads=True)
        subgroup, thread, position = layout.owners()
        assert (held.reshape(layout.subgroups, layout.threads, -1)[subgroup, thread, position] == tile).all()

    @given(layouts(), st.data())
    def test_selecting_all_dimensions_transposes(self, layout, data):
        order = data.draw(st.permutations(range(layout.rank)))
        moved = layout.select(order).coordinates()
        coordinates = layout.coordinates()
        assert {tuple(c) for c in moved[0, 0]} == {tuple(c[order]) for c in coordinates[0, 0]}
        assert layout.select(order).select(np.argsort(order).tolist()) == layout

    @given(layouts(min_rank=1), st.data())
    def test_projection_drops_coordinates(self, layout, data):
        dimensions = data.draw(st.lists(st.integers(0, layout.rank - 1), unique=True, max_size=layout.rank))
        projected = layout.select(dimensions)
        for subgroup in range(layout.subgroups):
            for thread in range(min(layout.threads, 8)):
                all_coordinates = {tuple(c[dimensions]) for c in layout.indices(subgroup, thread)}
                assert {tuple(c) for c in projected.indices(subgroup, thread)} == all_coordinates

    @given(layouts(max_rank=2))
    def test_append_adds_leading_dimensions(self, layout):
        ones = (1,) * 1
        bigger = layout.append(ones, (3,), ones, ones, (2,), (0,), (0,))
        assert bigger.shape == (6, *layout.shape)
        held = bigger.coordinates().reshape(layout.subgroups, layout.threads, -1, bigger.rank)
        inner = layout.coordinates()
        for subgroup, thread in np.ndindex(held.shape[:2]):
            assert {tuple(c[1:]) for c in held[subgroup, thread]} == {tuple(c) for c in inner[subgroup, thread]}

    @given(layouts(max_rank=2), st.data())
    def test_fewer_subgroups_repeat_by_their_id_modulo_the_count(self, layout, data):
        """If ids wrap around a smaller count, ``distribute`` and ``subgroup_ids`` agree on the owners of elements."""
        count = data.draw(st.sampled_from([n for n in range(1, layout.subgroups + 1) if layout.subgroups % n == 0]))
        tile = linear_tile(layout)
        held = layout.distribute(tile, count, layout.threads, replicate_threads=True)
        assert (layout.undistribute(held, replicate_threads=True) == tile).all()
        parts = held.reshape(count, -1)
        full = layout.distribute(tile, None, layout.threads, replicate_threads=True).reshape(layout.subgroups, -1)
        if layout.rounds(count) > 1:
            for subgroup in range(count):
                assert set(parts[subgroup]) == set(full[subgroup::count].ravel())
        for virtual in np.ndindex(layout.subgroup_tile):
            assert set(full[layout.subgroup_ids(virtual)]) <= set(parts[layout.subgroup_ids(virtual, count)])

    @given(layouts(max_rank=2), st.data())
    def test_fold_assigns_a_subgroup_the_tiles_of_all_ids_mapped_to_it(self, layout, data):
        count = data.draw(st.sampled_from([n for n in range(1, layout.subgroups + 1) if layout.subgroups % n == 0]))
        try:
            folded = layout.fold_subgroups(count)
        except ValueError as error:
            assert "use distribute" in str(error)
            return
        if layout.rounds(count) == 1:
            assert folded == layout
            return
        tile = linear_tile(layout)
        parts = folded.distribute(tile.reshape(folded.shape), count, layout.threads, replicate_threads=True)
        rounds = layout.distribute(tile, count, layout.threads, replicate_threads=True)
        for subgroup, thread in np.ndindex(count, layout.threads):
            assert set(parts[subgroup, thread].ravel()) == set(rounds[subgroup, thread].ravel())

    @given(layouts(), st.data())
    def test_strides_without_gaps_always_fold_onto_a_part_of_their_digits(self, layout, data):
        """A layout folds onto n subgroups if n is the product of its lowest digits and a divisor of the next digit."""
        digits = sorted((s, n) for s, n in zip(layout.subgroup_strides, layout.subgroup_tile, strict=True) if n > 1)
        if not digits:
            return
        stride, n = data.draw(st.sampled_from(digits))
        count = stride * data.draw(st.sampled_from([f for f in range(1, n + 1) if n % f == 0]))
        folded = layout.fold_subgroups(count)
        assert math.prod(folded.shape) == math.prod(layout.shape)
        assert layout.rounds(count) == 1 or folded.subgroups <= count

    def test_fold_deals_a_split_dimension_out_in_rounds(self):
        layout = NestedLayout((2, 4), (1, 1), (1, 1), (1, 1), (1, 1), (4, 1), (0, 0))
        folded = layout.fold_subgroups(2)  # subgroup 0 has virtual columns 0 and 2, subgroup 1 has 1 and 3
        assert folded == NestedLayout((1, 1, 2), (2, 2, 1), (1, 1, 1), (1, 1, 1), (1, 1, 1), (0, 0, 1), (0, 0, 0))
        tile = np.arange(8).reshape(2, 4)
        assert layout.distribute(tile, 2, 1).reshape(2, 4).tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]]
        assert folded.distribute(tile.reshape(2, 2, 2), 2, 1).reshape(2, 4).tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]]

    def test_a_wrap_across_dimensions_is_distributed_but_not_folded(self):
        layout = NestedLayout((2, 3), (1, 1), (1, 1), (1, 1), (1, 1), (1, 2), (0, 0))
        virtual = [[0, 0], [1, 0], [0, 1], [1, 1], [0, 2], [1, 2]]
        assert layout.subgroup_ids(virtual, hardware_subgroups=3).tolist() == [0, 1, 2, 0, 1, 2]
        held = layout.distribute(np.arange(6).reshape(2, 3), subgroups=3, subgroup_size=1)
        assert held.reshape(3, 2).tolist() == [[0, 4], [3, 2], [1, 5]]
        with pytest.raises(ValueError, match=r"tile\[0\] is 2 with stride 1: with 3 subgroups, .* use distribute"):
            layout.fold_subgroups(3)

    @given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 12)), min_size=1, max_size=3))
    def test_strides_are_accepted_exactly_if_ids_round_trip(self, dims):
        tile, strides = zip(*dims, strict=True)
        ones, zeros = (1,) * len(tile), (0,) * len(tile)

        def virtual_of(number):
            return tuple(number // max(s, 1) % n for n, s in zip(tile, strides, strict=True))

        round_trips = all(n == 1 or s for n, s in dims) and all(
            virtual_of(sum(s * v for s, v in zip(strides, virtual, strict=True))) == virtual
            for virtual in np.ndindex(tile)
        )
        for fields in ((tile, ones, strides, zeros), (ones, tile, zeros, strides)):
            subgroup, thread, subgroup_strides, thread_strides = fields
            try:
                layout = NestedLayout(subgroup, ones, ones, thread, ones, subgroup_strides, thread_strides)
            except ValueError:
                assert not round_trips
                continue
            assert round_trips
            values = np.arange(math.prod(tile)).reshape(tile)
            held = layout.distribute(values, subgroup_size=layout.threads, replicate_threads=True)
            assert (layout.undistribute(held, replicate_threads=True) == values).all()
            assert NestedLayout.parse(str(layout)) == layout

    def test_strides_outside_mixed_radix_may_round_trip(self):
        layout = NestedLayout((2, 2), (1, 1), (1, 1), (1, 1), (1, 1), (8, 3), (0, 0))
        assert layout.subgroup_ids([[0, 0], [0, 1], [1, 0], [1, 1]]).tolist() == [0, 3, 8, 11]
        assert layout.virtual_subgroup_ids([0, 3, 8, 11]).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
        tile = np.arange(4).reshape(2, 2)
        assert layout.rounds(12) == 1  # the largest id is 11
        assert (layout.undistribute(layout.distribute(tile, 12, 1)) == tile).all()
        single = NestedLayout((1,), (1,), (1,), (1,), (4,), (1,), (1,))
        assert (single.subgroups, single.threads) == (1, 1)

    @given(layouts())
    def test_text_round_trip(self, layout):
        assert NestedLayout.parse(str(layout)) == layout
        assert NestedLayout.parse(layout.dialect_text()) == layout
        assert NestedLayout.parse(str(layout).replace(" ", "").replace("<", " :\n<\t")) == layout


class TestComparison:
    def test_owners_do_not_distinguish_batch_from_outer(self):
        batched = NestedLayout((1, 1), (2, 2), (1, 1), (8, 4), (1, 2), (0, 0), (4, 1))
        outers = NestedLayout((1, 1), (1, 1), (2, 2), (8, 4), (1, 2), (0, 0), (4, 1))
        mixed = NestedLayout((1, 1), (1, 2), (2, 1), (8, 4), (1, 2), (0, 0), (4, 1))
        assert (batched.numbers() == outers.numbers()).all()
        assert (batched.numbers() != mixed.numbers()).any()
        assert batched.same_owners(mixed)
        assert not batched.needs_shared_memory(mixed)

    def test_the_documents_rule_is_on_the_safe_side(self):
        batch = NestedLayout((1, 1), (4, 1), (1, 1), (1, 32), (1, 1), (0, 0), (0, 1))
        element = NestedLayout((1, 1), (1, 1), (1, 1), (1, 32), (4, 1), (0, 0), (0, 1))
        assert batch.needs_shared_memory(element)
        assert batch.same_owners(element)

    def test_other_threads_are_another_distribution(self):
        rows = NestedLayout((1, 1), (1, 1), (1, 1), (8, 4), (1, 1), (0, 0), (4, 1))
        columns = NestedLayout((1, 1), (1, 1), (1, 1), (8, 4), (1, 1), (0, 0), (1, 8))
        assert not rows.same_owners(columns)
        assert rows.needs_shared_memory(columns)
        assert not rows.same_owners(rows.select((1, 0)))

    @given(layouts(max_rank=2), st.data())
    def test_layouts_without_shared_memory_have_the_same_owners(self, layout, data):
        """IREE's rule: if a conversion needs no shared memory, every element keeps its owner."""
        batches, outers = [], []
        for total in (b * o for b, o in zip(layout.batch_tile, layout.outer_tile, strict=True)):
            batches.append(data.draw(st.sampled_from([n for n in range(1, total + 1) if total % n == 0])))
            outers.append(total // batches[-1])
        fields = {
            "subgroup_tile": layout.subgroup_tile,
            "thread_tile": layout.thread_tile,
            "element_tile": layout.element_tile,
            "subgroup_strides": layout.subgroup_strides,
            "thread_strides": layout.thread_strides,
        }
        other = NestedLayout(batch_tile=tuple(batches), outer_tile=tuple(outers), **fields)
        assert not layout.needs_shared_memory(other)
        assert layout.same_owners(other)


def fields(**changes):
    plain = {
        "subgroup_tile": (2, 1),
        "batch_tile": (1, 1),
        "outer_tile": (1, 1),
        "thread_tile": (8, 4),
        "element_tile": (1, 2),
        "subgroup_strides": (1, 0),
        "thread_strides": (4, 1),
    }
    return plain | changes


class TestRefusals:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"outer_tile": (1,)}, r"outer_tile has 1 entries but subgroup_tile has 2"),
            ({"batch_tile": (0, 1)}, r"batch_tile\[0\] is 0: it must be at least 1"),
            ({"thread_strides": (-1, 1)}, r"thread_strides\[0\] is -1: it must be at least 0"),
            ({"element_tile": (1, 2.0)}, r"element_tile\[1\] is 2.0: give an integer"),
            ({"element_tile": (1, True)}, r"element_tile\[1\] is True: give an integer"),
            ({"element_tile": "12"}, r"element_tile is '12': give a sequence"),
            ({"subgroup_strides": (0, 0)}, r"subgroup_strides\[0\] is 0 but subgroup_tile\[0\] is 2"),
            (
                {"thread_strides": (2, 1)},
                r"thread_strides \[2, 1\] with thread_tile \[8, 4\]: the thread ids of two dimensions overlap: virtual "
                r"ids \[0, 2\] and \[1, 2\] have the same id",
            ),
            ({"thread_strides": (6, 1)}, r"overlap"),
            ({"thread_strides": (1, 1)}, r"overlap"),
            ({"thread_tile": (2**9, 2**9), "thread_strides": (3, 1)}, r"thread_tile .* has over 65536 ids"),
        ],
    )
    def test_construction(self, changes, message):
        with pytest.raises(ValueError, match=message):
            NestedLayout(**fields(**changes))

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"shape": (16,)}, r"shape \[16\] has rank 1 but the layout has rank 2"),
            ({"shape": (16, 16)}, r"shape\[1\] is 16 but .* is 1 \* 1 \* 1 \* 4 \* 2 = 8"),
            ({"subgroup_size": 64}, r"thread_tile \[8, 4\] has 32 threads but subgroup_size is 64"),
            ({"subgroup_size": 48, "replicate_threads": True}, r"repeats every 32 threads"),
            ({"subgroups": 0}, r"0 subgroups cannot share the 2 subgroup ids"),
        ],
    )
    def test_verify(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            NestedLayout(**fields()).verify(**arguments)

    def test_verify_accepts_matching_shapes(self):
        layout = NestedLayout(**fields())
        layout.verify((16, 8), subgroup_size=32, subgroups=3)
        layout.verify((16, 8), subgroup_size=64, replicate_threads=True)

    def test_gaps_need_replication(self):
        scale = NestedLayout((1,), (1,), (1,), (8,), (1,), (0,), (4,))  # four threads share a row's scale
        with pytest.raises(ValueError, match=r"thread_tile .* has 8 threads but subgroup_size is 32"):
            scale.distribute(np.arange(8))
        with pytest.raises(ValueError, match="leave gaps, so thread ids up to 31 are needed"):
            scale.verify(subgroup_size=8)
        held = scale.distribute(np.arange(8), replicate_threads=True)
        assert held.reshape(32).tolist() == [t // 4 for t in range(32)]

    def test_differing_copies_are_rejected(self):
        layout = NestedLayout(**fields())
        held = layout.distribute(np.arange(128.0).reshape(16, 8), subgroups=4)
        held[3, 5] += 1
        with pytest.raises(ValueError, match="subgroup 3 thread 5 holds a copy that differs"):
            layout.undistribute(held)
        held[3, 5] = held[1, 5] = np.nan
        assert np.isnan(layout.undistribute(held)).sum() == 2

    def test_differing_copies_in_rounds_are_rejected(self):
        gaps = NestedLayout((2,), (1,), (1,), (1,), (1,), (2,), (0,))  # ids 0 and 1 hold one element, 2 and 3 another
        held = gaps.distribute(np.arange(2), subgroups=1, subgroup_size=1)
        assert held.reshape(4).tolist() == [0, 0, 1, 1]
        held[0, 0, 3] = 7
        with pytest.raises(ValueError, match="subgroup 0 thread 0 holds a copy that differs"):
            gaps.undistribute(held)

    def test_misshapen_distributed_array(self):
        with pytest.raises(ValueError, match=r"give \[subgroups, threads, 1, 1, 1, 1, 1, 2\]"):
            NestedLayout(**fields()).undistribute(np.zeros((2, 32, 2)))

    def test_ids(self):
        layout = NestedLayout(**fields())
        with pytest.raises(ValueError, match="thread_id is -1: ids start at 0"):
            layout.virtual_thread_ids([-1])
        with pytest.raises(ValueError, match=r"a virtual subgroup id is outside of the tile \[2, 1\]"):
            layout.subgroup_ids([2, 0])
        with pytest.raises(ValueError, match="the last axis must have length 2"):
            layout.subgroup_ids([0, 0, 0])
        with pytest.raises(ValueError, match="must be a multiple of the number of subgroups"):
            NestedLayout(**fields(subgroup_tile=(3, 1))).subgroup_ids([0, 0], hardware_subgroups=2)
        with pytest.raises(ValueError, match=r"dimensions \[0, 0\] must be distinct and below the rank 2"):
            layout.select([0, 0])

    def test_invalid_layout_text_is_reported_with_its_rule(self):
        text = str(NestedLayout(**fields())).replace("[4, 1]", "[2, 1]")
        with pytest.raises(ValueError, match="overlap") as caught:
            NestedLayout.parse(text)
        assert not isinstance(caught.value, LayoutSyntaxError)
