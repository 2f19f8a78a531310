"""The configs of IREE issue 22153 are read verbatim. Expanding a config does not change which elements threads load."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.layouts.lowering_config import Basis, LoweringConfig

# The matvec of the issue: tensor<4x16384xf16>, tensor<6656x16384xf16> -> tensor<4x6656xf32>
MATVEC = """#iree_gpu.lowering_config<{
 lane_basis = [[1, 1, 64], [0, 1, 2]],
 partial_reduction = [0, 0, 512],
 subgroup_basis = [[1, 1, 1], [0, 1, 2]],
 thread = [0, 0, 8],
 workgroup = [2, 1, 0]}>"""
SHAPE = (4, 6656, 16384)

# The expanded config, verbatim. Its workgroup has one entry fewer than there are dimensions, and its thread
# entries are 0 (untiled) where IREE's later code has 1.
EXPANDED = """#iree_gpu.lowering_config<{
            lane_basis = [[1, 1, 64, 1], [0, 1, 2, 3]], 
            expand_dims = [0, 0, 0 ,8], 
            partial_reduction = [0, 0, 64, 0], 
            subgroup_basis = [[1, 1, 1, 1], [0, 1, 2, 3]], 
            thread = [0, 0, 0, 8], 
            workgroup = [2, 1, 0]}>"""


@st.composite
def bases(draw, counts=(1, 2, 3)):
    rank = draw(st.integers(1, 4))
    values = draw(st.lists(st.sampled_from(counts), min_size=rank, max_size=rank))
    return Basis(values, draw(st.permutations(range(rank))))


@st.composite
def configs(draw):
    """Draw a config of 1 to 3 dimensions with at least one reduction, and an iteration space of whole tiles."""
    rank = draw(st.integers(1, 3))
    reduced = draw(st.lists(st.booleans(), min_size=rank, max_size=rank).filter(any))
    order = st.permutations(range(rank))
    lanes, subgroups = (
        Basis(draw(st.lists(st.sampled_from([1, 1, 2, 4]), min_size=rank, max_size=rank)), draw(order)) for _ in "ab"
    )
    thread = draw(st.lists(st.sampled_from([0, 1, 2, 4]), min_size=rank, max_size=rank))
    tile = [
        subgroups.tile[d] * lanes.tile[d] * max(1, thread[d]) * draw(st.sampled_from([1, 2, 3])) for d in range(rank)
    ]
    config = LoweringConfig(
        workgroup=[0 if r else n for r, n in zip(reduced, tile, strict=True)],
        thread=thread,
        lane_basis=lanes,
        subgroup_basis=subgroups,
        partial_reduction=[n if r else 0 for r, n in zip(reduced, tile, strict=True)],
    )
    return config, tuple(n * draw(st.sampled_from([1, 2])) for n in tile)


class TestDocument:
    def test_expansion_512_to_64_8(self):
        config = LoweringConfig.parse(MATVEC)
        expanded = config.expand()
        assert expanded == LoweringConfig(
            workgroup=(2, 1, 0, 0),
            thread=(0, 0, 1, 8),
            lane_basis=Basis((1, 1, 64, 1), (0, 1, 2, 3)),
            subgroup_basis=Basis((1, 1, 1, 1), (0, 1, 2, 3)),
            partial_reduction=(0, 0, 64, 0),
            expand_dims=(0, 0, 0, 8),
        )
        assert config.expanded_shape(SHAPE) == (4, 6656, 2048, 8)
        assert config.loop_steps(SHAPE) == expanded.loop_steps((4, 6656, 2048, 8)) == 16384 // 512 == 2048 // 64

    def test_accumulators_before_and_after(self):
        """A thread's vector<2x8xf32> becomes vector<2x1xf32>, and tensor<2x1x512xf32> becomes tensor<2x1x64xf32>."""
        config = LoweringConfig.parse(MATVEC)
        assert config.accumulators_per_thread() == 16
        expanded = config.expand()
        assert expanded.accumulators_per_thread() == 2

    def test_the_documents_expanded_config_means_the_same(self):
        written, derived = LoweringConfig.parse(EXPANDED), LoweringConfig.parse(MATVEC).expand()
        assert written.workgroup == (2, 1, 0, 0)
        assert LoweringConfig.parse(EXPANDED.replace("expand_dims", "expand_iteration_space")) == written
        assert written.to_nested() == derived.to_nested()
        assert written.accumulators_per_thread() == derived.accumulators_per_thread()

    def test_optional_fields_have_defaults(self):
        config = LoweringConfig.parse("#iree_gpu.lowering_config<{workgroup = [2], partial_reduction = [0, 0, 512]}>")
        ones = Basis.identity((1, 1, 1))
        assert config == LoweringConfig((2, 0, 0), (0, 0, 0), ones, ones, (0, 0, 512))
        assert config.accumulators_per_thread((2, 3, 1024)) == 2 * 3 * 512
        with pytest.raises(ValueError, match="expand_dims and expand_iteration_space are the same"):
            LoweringConfig.parse(EXPANDED.replace("}>", ", expand_iteration_space = [0, 0, 0, 8]}>"))

    def test_layout_of_the_loop(self):
        """Compare with the issue, in which linearize_index has the bases (1, 2, 1, 1, 1) and (1, 1, 1, 64, 8).

        A basis contains the subgroup, batch, outer, thread and element counts of the first or the last dimension.
        """
        layout = LoweringConfig.parse(MATVEC).to_nested()
        assert [tile[0] for tile in layout.tiles] == [1, 2, 1, 1, 1]
        assert [tile[2] for tile in layout.tiles] == [1, 1, 1, 64, 8]
        assert layout.thread_strides == (0, 0, 1)
        operand = LoweringConfig.parse(MATVEC).to_nested(dims=(0, 2))
        assert operand.shape == (2, 512)
        assert operand.distributed_packed_shape == (2, 1, 1, 1, 1, 8)  # vector<2x1x1x1x1x8xf16>

    def test_text(self):
        config = LoweringConfig.parse(MATVEC)
        assert str(config) == (
            "#iree_gpu.lowering_config<{lane_basis = [[1, 1, 64], [0, 1, 2]], partial_reduction = [0, 0, 512], "
            "subgroup_basis = [[1, 1, 1], [0, 1, 2]], thread = [0, 0, 8], workgroup = [2, 1, 0]}>"
        )
        assert str(config.expand()).startswith("#iree_gpu.lowering_config<{expand_dims = [0, 0, 0, 8], lane_basis = ")


class TestBasis:
    def test_convention_on_a_3_cycle(self):
        """The convention is sizes[i] = counts[mapping[i]]. The inverse mapping would give (5, 2, 3)."""
        basis = Basis((2, 3, 5), (1, 2, 0))
        assert basis.tile == (3, 5, 2)
        assert basis.strides == (5, 1, 15)
        assert basis.coordinates(17).tolist() == [0, 2, 1]  # 17 = 1 * 15 + 0 * 5 + 2

    @given(bases())
    def test_coordinates_follow_tile_and_strides(self, basis):
        ids = np.arange(basis.size)
        digits = basis.coordinates(ids)
        assert len({tuple(row) for row in digits}) == basis.size
        for d, (n, stride) in enumerate(zip(basis.tile, basis.strides, strict=True)):
            assert (digits[:, d] == (ids // stride % n if n > 1 else 0)).all()

    def test_an_unmapped_digit_repeats_the_work(self):
        basis = Basis((4, 8), (1,))
        assert (basis.tile, basis.size) == ((8,), 32)
        assert basis.coordinates([0, 8, 16, 31]).ravel().tolist() == [0, 0, 0, 7]

    @pytest.mark.parametrize(
        ("counts", "mapping", "message"),
        [
            ((2, 3), (0, 0), r"mapping is \[0, 0\]: its elements must be distinct indices of counts, 0 to 1"),
            ((2, 3), (0, 2), r"mapping is \[0, 2\]: its elements must be distinct"),
            ((2, 0), (0, 1), r"counts\[1\] is 0: it must be at least 1"),
        ],
    )
    def test_refusals(self, counts, mapping, message):
        with pytest.raises(ValueError, match=message):
            Basis(counts, mapping)


def partial_sums(config, values):
    """Execute the config's loop. In each step, every thread adds its elements to its accumulators.

    ``values`` has the shape of the iteration space.

    Returns:
        The total, and the accumulators of one thread.
    """
    steps = config.tile(values.shape)
    layout = config.to_nested(shape=values.shape)
    carried = [d for d in range(config.rank) if not (config.expand_dims and config.expand_dims[d])]
    appended = tuple(2 + level * config.rank + d for level in range(3) for d in range(config.rank) if d not in carried)
    results = {}
    for origin in np.ndindex(*(n // s for n, s in zip(values.shape, steps, strict=True))):
        tile = values[tuple(slice(i * s, (i + 1) * s) for i, s in zip(origin, steps, strict=True))]
        held = layout.distribute(tile, None, layout.threads, replicate_threads=True)
        held = held.sum(axis=appended)  # summed inside the loop
        workgroup = tuple(i for d, i in enumerate(origin) if d in carried and config.workgroup[d])
        results[workgroup] = results[workgroup] + held if workgroup in results else held
    per_thread = math.prod(next(iter(results.values())).shape[2:])
    return sum(int(held.sum()) for held in results.values()), per_thread


class TestProperties:
    @given(configs())
    def test_expansion_keeps_the_sum_and_the_accumulators_it_claims(self, case):
        config, shape = case
        values = np.random.default_rng(len(shape)).integers(-9, 9, shape)
        total, per_thread = partial_sums(config, values)
        expanded = config.expand()
        total_2, per_thread_2 = partial_sums(expanded, values.reshape(self.split(config, shape)).transpose(
            self.order(config)).reshape(config.expanded_shape(shape)))  # fmt: skip
        assert total == total_2 == values.sum()
        assert per_thread == config.accumulators_per_thread()
        assert per_thread_2 == expanded.accumulators_per_thread()
        fewer = math.prod(config.thread[d] for d in config.expandable_dims)
        assert per_thread == per_thread_2 * fewer

    @staticmethod
    def split(config, shape):
        """Return the shape after splitting each expandable dimension k into adjacent dimensions (k / t, t)."""
        return [
            n
            for d, size in enumerate(shape)
            for n in ((size // config.thread[d], config.thread[d]) if d in config.expandable_dims else (size,))
        ]

    @staticmethod
    def order(config):
        """Return the axes of ``split`` with every t moved to the end, as in ``linalg.pack``."""
        outer, inner, axis = [], [], 0
        for d in range(config.rank):
            outer.append(axis)
            if d in config.expandable_dims:
                inner.append(axis + 1)
                axis += 1
            axis += 1
        return outer + inner

    @given(configs())
    def test_expansion_is_a_normal_form(self, case):
        config, shape = case
        expanded = config.expand()
        assert expanded.expand() == expanded
        assert expanded.appended == len(config.expandable_dims)
        assert expanded.tile()[: config.rank] == tuple(
            n // (config.thread[d] if d in config.expandable_dims else 1) for d, n in enumerate(config.tile())
        )
        assert config.loop_steps(shape) == expanded.loop_steps(config.expanded_shape(shape))

    @given(configs())
    def test_threads_load_the_same_elements_before_and_after(self, case):
        """Splitting k into (k / t, t) changes no thread's elements."""
        config, _ = case
        before, after = config.to_nested(), config.expand().to_nested()
        tile = np.arange(math.prod(before.shape)).reshape(before.shape)
        packed = tile.reshape(self.split(config, before.shape)).transpose(self.order(config))
        subgroups, threads = config.subgroup_basis.size, config.lane_basis.size
        a = before.distribute(tile, subgroups, threads, replicate_threads=True).reshape(subgroups, threads, -1)
        b = after.distribute(packed, subgroups, threads, replicate_threads=True).reshape(subgroups, threads, -1)
        assert (np.sort(a, axis=-1) == np.sort(b, axis=-1)).all()

    @given(configs(), st.booleans())
    def test_text_round_trip(self, case, expand):
        config = case[0].expand() if expand else case[0]
        assert LoweringConfig.parse(str(config)) == config
        assert LoweringConfig.parse(str(config).replace(" ", "\n  ")) == config


def fields(**changes):
    plain = {
        "workgroup": (2, 1, 0),
        "thread": (0, 0, 8),
        "lane_basis": Basis((1, 1, 64), (0, 1, 2)),
        "subgroup_basis": Basis((1, 1, 1), (0, 1, 2)),
        "partial_reduction": (0, 0, 512),
    }
    return plain | changes


class TestRefusals:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"lane_basis": Basis((1, 64), (0, 1))}, "lane_basis maps 2 dimensions but the config has 3"),
            ({"thread": (0, 0, 8, 1)}, "lane_basis maps 3 dimensions but the config has 4"),
            ({"lane_basis": ((1, 1, 64), (0, 1, 2))}, r"give a Basis\(counts, mapping\)"),
            ({"workgroup": (2, 1, 4)}, "dimension 2 has workgroup 4 and partial_reduction 512"),
            (
                {"partial_reduction": (0, 0, 500)},
                r"partial_reduction\[2\] is 500, not a multiple of .* = 1 \* 64 \* 8 along",
            ),
            (
                {"subgroup_basis": Basis((4, 1, 1), (0, 1, 2))},
                r"workgroup\[0\] is 2, not a multiple of .* = 4 \* 1 \* 1",
            ),
            ({"partial_reduction": (0, 0, -512)}, r"partial_reduction\[2\] is -512: it must be at least 0"),
            ({"expand_dims": (0, 0, 0)}, "expand_dims has only zeros"),
            ({"expand_dims": (0, 8, 0)}, r"expand_dims\[1\] is 8: the appended dimension needs thread 8"),
            ({"expand_dims": (0, 0, 8)}, r"expand_dims\[2\] is 8: the appended dimension needs .*partial_reduction 0"),
            ({"expand_dims": (0, 1, 8)}, r"expand_dims\[1\] is 1: appended dimensions must be last"),
        ],
    )
    def test_construction(self, changes, message):
        with pytest.raises(ValueError, match=message):
            LoweringConfig(**fields(**changes))

    def test_untiled_dimension_needs_the_shape(self):
        config = LoweringConfig(**fields(workgroup=(0, 1, 0)))
        with pytest.raises(ValueError, match="dimension 0 has neither workgroup nor partial_reduction"):
            config.accumulators_per_thread()
        assert config.accumulators_per_thread((4, 6656, 16384)) == 4 * 8
        with pytest.raises(ValueError, match="shape has 2 dimensions but the config has 3"):
            config.tile((4, 6656))

    def test_shapes_that_do_not_divide(self):
        config = LoweringConfig(**fields())
        with pytest.raises(ValueError, match=r"shape\[2\] is 12, not a multiple of thread\[2\] = 8"):
            config.expanded_shape((4, 6656, 12))
        with pytest.raises(ValueError, match=r"partial_reduction\[2\] is 512 but shape\[2\] is 1000"):
            config.loop_steps((4, 6656, 1000))

    def test_a_config_is_expanded_once(self):
        config = LoweringConfig(
            workgroup=(0, 0),
            thread=(2, 4),
            lane_basis=Basis.identity((1, 1)),
            subgroup_basis=Basis.identity((1, 1)),
            partial_reduction=(8, 0),
            expand_dims=(0, 4),
        )
        with pytest.raises(ValueError, match="already expanded"):
            config.expand()
