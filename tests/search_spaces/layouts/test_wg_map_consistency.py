"""Every wg_map in the XeTile RFC is checked by the RFC's rules. The functions that check the rules are tested, too.

docs/explanation/layouts.md lists the inconsistencies.
"""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from search_spaces.layouts.wg_map import WgMap
from search_spaces.layouts.wg_map_consistency import (
    check_broadcast,
    check_convert_layout,
    check_mma,
    check_reduction,
    check_transpose,
    transposes_in_place,
)


def maps(text):
    lines = [line.partition("=") for line in text.splitlines() if line]
    return {name.strip().removeprefix("#"): WgMap.parse(attribute) for name, _, attribute in lines}


# The maps of appendices 2.1 to 2.5, verbatim.
APPENDIX_1 = maps("""
#mp_a     = #wg_map<sg_layout=[8,4], sg_data=[32,32]>
#mp_a_pfh = #wg_map<sg_layout=[32,1], sg_data=[8,32]>
#mp_b     = #wg_map<sg_layout=[8,4], sg_data=[32,64]>
#mp_b_pfh = #wg_map<sg_layout=[4,8], sg_data=[8,32]>
#mp_c     = #wg_map<sg_layout=[8,4], sg_data=[32,64]>
""")
APPENDIX_2 = APPENDIX_1 | maps("""
#mp_bt    = #wg_map<sg_layout=[4,8], sg_data=[64,32]>
#mp_bt_pfh = #wg_map<sg_layout=[32,1], sg_data=[8,32]>
#mp_bcast = #wg_map<sg_layout=[8, 4], sg_data=[1,64]>
#mp_reduce= #wg_map<sg_layout=[32, 1], sg_data=[8, 1]>
#mp_reduce2= #wg_map<sg_layout=[32, 1], sg_data=[8, 256]>
""")
APPENDIX_3 = maps("""
#mp_b     = #wg_map<sg_layout=[8,4], sg_data=[32,64]>
#mp_bt    = #wg_map<sg_layout=[32,1], sg_data=[64,32]>
""")
APPENDIX_4 = maps("""
#mp_a     = #wg_map<sg_layout=[8,8], sg_data=[32,32]>
#mp_a_cop = #wg_map<sg_layout=[64,1], sg_data=[4,32]>
#mp_b     = #wg_map<sg_layout=[8,8], sg_data=[32,32]>
#mp_b_cop = #wg_map<sg_layout=[8,8], sg_data=[4,32]>
#mp_c     = #wg_map<sg_layout=[8,8], sg_data=[32,32]>
""")
APPENDIX_5 = maps("""
#mp_a = #wg_map<sg_layout=[8,4], sg_data=[64,32]>
#mp_b = #wg_map<sg_layout=[8,4], sg_data=[32,64]>
#mp_c = #wg_map<sg_layout=[8,4], sg_data=[64,64]>

#mp_a_copl2 = #wg_map<sg_layout=[32,1], sg_data=[16,128]>
#mp_b_copl2 = #wg_map< sg_layout=[16,2], sg_data=[8,128]>

#mp_a_copl1 = #wg_map<sg_layout=[32,1], sg_data=[16,32]>
#mp_b_copl1 = #wg_map< sg_layout=[4, 8], sg_data=[8,32]>
""")

# Valid uses of a map on a tile: (appendix, map, shape)
FITS = [
    *[(APPENDIX_1, "2.1", name, shape) for name, shape in (
        ("mp_a", (256, 32)), ("mp_b", (32, 256)), ("mp_c", (256, 256)), ("mp_a_pfh", (256, 32)),
        ("mp_b_pfh", (32, 256)),
    )],
    *[(APPENDIX_2, "2.2", name, shape) for name, shape in (
        ("mp_a", (256, 32)), ("mp_b", (32, 256)), ("mp_c", (256, 256)), ("mp_a_pfh", (256, 32)), ("mp_bt", (256, 32)),
        ("mp_bt_pfh", (256, 32)), ("mp_bcast", (1, 256)), ("mp_reduce", (256, 1)), ("mp_reduce2", (256, 256)),
    )],
    *[(APPENDIX_3, "2.3", name, shape) for name, shape in (("mp_b", (32, 256)), ("mp_bt", (256, 32)))],
    *[(APPENDIX_4, "2.4", name, shape) for name, shape in (
        ("mp_a", (256, 32)), ("mp_b", (32, 256)), ("mp_c", (256, 256)), ("mp_a_cop", (256, 32)),
        ("mp_b_cop", (32, 256)),
    )],
    *[(APPENDIX_5, "2.5", name, shape) for name, shape in (
        ("mp_a", (512, 32)), ("mp_b", (32, 256)), ("mp_c", (512, 256)), ("mp_a_copl2", (512, 128)),
        ("mp_b_copl2", (128, 256)), ("mp_a_copl1", (512, 32)), ("mp_b_copl1", (32, 256)),
    )],
]  # fmt: skip


class TestAppendices:
    @pytest.mark.parametrize(("maps", "appendix", "name", "shape"), FITS, ids=lambda v: v if isinstance(v, str) else "")
    def test_every_map_fits_its_tile(self, maps, appendix, name, shape):
        maps[name].verify(shape)

    @pytest.mark.parametrize(
        ("maps", "size"),
        [(APPENDIX_1, (256, 256, 32)), (APPENDIX_2, (256, 256, 32)), (APPENDIX_4, (256, 256, 32)),
         (APPENDIX_5, (512, 256, 32))],
    )  # fmt: skip
    def test_every_mma_agrees(self, maps, size):
        assert check_mma(maps["mp_a"], maps["mp_b"], maps["mp_c"], *size) == ()

    def test_broadcast_convert_and_reduce_of_2_2(self):
        maps = APPENDIX_2
        assert check_broadcast(maps["mp_bcast"], maps["mp_c"], (256, 256), dim=0) == ()
        assert check_convert_layout(maps["mp_c"], maps["mp_reduce2"], (256, 256)) == ()
        assert check_reduction(maps["mp_reduce2"], maps["mp_reduce"], (256, 256), dim=1) == ()

    def test_transposes_of_2_2_and_2_3(self):
        swapped, optimised = APPENDIX_2["mp_bt"], APPENDIX_3["mp_bt"]
        assert check_transpose(swapped, APPENDIX_2["mp_b"], (32, 256)) == ()
        assert check_transpose(optimised, APPENDIX_3["mp_b"], (32, 256)) == ()
        # The map of 2.2, which the rule derives, moves data between subgroups. The map of 2.3 keeps data in place.
        assert not transposes_in_place(swapped, APPENDIX_2["mp_b"], (32, 256))
        assert transposes_in_place(optimised, APPENDIX_3["mp_b"], (32, 256))

    def test_examples_of_the_text(self):
        assert check_mma(WgMap((8, 4), (32, 32)), WgMap((8, 4), (32, 64)), WgMap((8, 4), (32, 64)), 256, 256, 32) == ()
        assert check_reduction(WgMap((32, 1), (8, 128)), WgMap((32, 1), (8, 1)), (256, 128), dim=1) == ()
        assert check_reduction(WgMap((8, 4), (32, 32)), WgMap((8, 4), (1, 32)), (256, 128), dim=0, size=32) == ()
        assert check_broadcast(WgMap((16, 1), (16, 1)), WgMap((16, 1), (16, 256)), (256, 256), dim=1) == ()
        assert check_transpose(WgMap((8, 4), (64, 32)), WgMap((4, 8), (32, 64)), (128, 512)) == ()
        assert check_convert_layout(WgMap((8, 4), (32, 64)), WgMap((32, 1), (8, 256)), (256, 256)) == ()


class TestTheRfcsOwnInconsistencies:
    """Maps of the RFC that break its own rules; docs/explanation/layouts.md lists them."""

    def test_the_divisibility_law_admits_a_sub_tile_larger_than_the_tile(self):
        layout, data, size = 2, 48, 32
        assert (layout * data) % size == 0
        with pytest.raises(ValueError, match=r"sg_data\[0\] is 48 but shape\[0\] is 32"):
            WgMap((layout, 1), (data, 8)).verify((size, 8))

    def test_2_1_comment_on_c(self):
        """The RFC's comment on C's tile has sg_layout=[32, 1], which disagrees with the maps of A and B."""
        assert check_mma(APPENDIX_1["mp_a"], APPENDIX_1["mp_b"], WgMap((32, 1), (32, 64)), 256, 256, 32) == (
            "A has sg_layout [8, 4] but C has [32, 1]: they must agree",
            "B has sg_layout [8, 4] but C has [32, 1]: they must agree",
        )

    def test_2_1_prefetches_b_with_the_map_of_a(self):
        """A's map is legal on B's shape, but then eight subgroups would fetch the same sub-tile."""
        a, b = APPENDIX_1["mp_a_pfh"], APPENDIX_1["mp_b_pfh"]
        assert (a.sharers((32, 256)), a.rounds((32, 256))) == ((8, 1), (1, 8))
        assert (b.sharers((32, 256)), b.rounds((32, 256))) == ((1, 1), (1, 1))

    def test_2_2_comment_on_the_broadcast_row(self):
        """The RFC's comment on the source tile has sg_layout=[4, 8] and sg_data=[1, 32]: they break the RFC's rule."""
        assert check_broadcast(WgMap((4, 8), (1, 32)), APPENDIX_2["mp_c"], (256, 256), dim=0) == (
            "the source has sg_layout [4, 8] but the result's map requires [8, 4]",
            "the source has sg_data [1, 32] but the result's map requires [1, 64]",
        )

    def test_2_3_breaks_the_transpose_rule(self):
        """The RFC's transpose rule swaps both dimensions. This gives the map of section 2.2, but not that of 2.3."""
        assert APPENDIX_3["mp_b"].transpose_input() == APPENDIX_2["mp_bt"] != APPENDIX_3["mp_bt"]

    def test_2_5_updates_the_prefetch_tile_of_a_with_the_map_of_b(self):
        assert APPENDIX_5["mp_a_copl2"].rounds((512, 128)) == (1, 1)
        assert APPENDIX_5["mp_b_copl2"].rounds((512, 128)) == (4, 1)
        assert APPENDIX_5["mp_b_copl2"].sharers((512, 128)) == (1, 2)

    def test_2_5_loads_a_tile_of_256_rows_into_a_vector_of_512(self):
        a = APPENDIX_5["mp_a"]
        assert (a.sharers((512, 32)), a.sharers((256, 32))) == ((1, 4), (2, 4))


class TestChecks:
    """Each check reports which map breaks the rule."""

    A, B, C = WgMap((8, 4), (32, 32)), WgMap((8, 4), (32, 64)), WgMap((8, 4), (32, 64))

    @pytest.mark.parametrize(
        ("a", "b", "k", "messages"),
        [
            (WgMap((4, 8), (32, 32)), B, 32, ["A has sg_layout [4, 8] but C has [8, 4]: they must agree"]),
            (WgMap((8, 4), (16, 32)), B, 32, ["A has sg_data 16 along m but C has 32"]),
            (A, WgMap((8, 4), (32, 32)), 32, ["B has sg_data 32 along n but C has 64"]),
            (A, WgMap((8, 4), (16, 64)), 32, ["A has sg_data 32 along k but B has 16"]),
            (A, B, 48, ["A does not fit its 256x48 vector: sg_data[1] is 32 but shape[1] is 48: "
                        "sg_data must divide the tile",
                        "B does not fit its 48x256 vector: sg_data[0] is 32 but shape[0] is 48: "
                        "sg_data must divide the tile"]),
            (A, B, 128, ["A assigns 32 of the 128 elements along k to a subgroup: subgroups with the same rows or "
                         "columns of C must share all of k",
                         "B assigns 32 of the 128 elements along k to a subgroup: subgroups with the same rows or "
                         "columns of C must share all of k"]),
        ],
    )  # fmt: skip
    def test_mma(self, a, b, k, messages):
        assert list(check_mma(a, b, self.C, 256, 256, k)) == messages

    def test_others(self):
        assert check_reduction(WgMap((4, 8), (32, 16)), WgMap((8, 4), (1, 32)), (256, 128), 0, 32) == (
            "the source has sg_layout [4, 8] but the result's map requires [8, 4]",
            "the source has sg_data [32, 16] but the result's map requires [32, 32]",
        )
        assert check_reduction(self.A, self.C, (256, 256), 0, 48) == (
            "reduction_size is 48 but dimension 0 has 256 elements: choose a divisor",
        )
        assert check_broadcast(WgMap((8, 4), (2, 64)), self.C, (256, 256), 0, 16) == ()
        assert check_broadcast(WgMap((8, 4), (1, 64)), self.C, (256, 256), 0, 16) == (
            "the source has sg_data [1, 64] but the result's map requires [2, 64]",
        )
        assert check_broadcast(WgMap((8, 4), (1, 64)), self.C, (256, 256), 0, 64) == (
            "broadcast_size is 64 but sg_data[0] of the result is 32: broadcast_size must divide sg_data, "
            "so that one sub-tile has all copies of an element",
        )
        assert check_transpose(WgMap((8, 4), (32, 64)), self.C, (256, 256)) == (
            "the source has sg_layout [8, 4] but the result's map requires [4, 8]",
            "the source has sg_data [32, 64] but the result's map requires [64, 32]",
        )
        assert check_convert_layout(WgMap((16, 1), (16, 256)), self.C, (256, 256)) == (
            "the source has 16 subgroups but the result has 32: the numbers must be equal",
        )


def small_maps():
    power = st.sampled_from([1, 2, 4])
    return st.builds(WgMap, st.tuples(power, power), st.tuples(power, power))


class TestInPlace:
    # examples in which only one map replicates elements; random pairs are rarely like this
    @given(small_maps(), small_maps())
    @example(WgMap((2, 2), (4, 8)), WgMap((2, 2), (4, 4)))
    @example(WgMap((2, 2), (4, 4)), WgMap((2, 2), (4, 8)))
    @example(WgMap((2, 2), (8, 4)), WgMap((2, 2), (4, 4)))
    @example(WgMap((4, 1), (4, 8)), WgMap((1, 4), (8, 2)))
    def test_in_place_conversions_require_a_subset_of_elements(self, source, result):
        """Compare with brute force over the elements that each subgroup holds."""
        shape = (8, 8)
        tile = np.arange(64).reshape(shape)
        transposed = [set(part.ravel()) for part in source.distribute(tile.T)]
        needs = [set(part.ravel()) for part in result.distribute(tile)]
        same = source.subgroups == result.subgroups
        assert transposes_in_place(source, result, shape) == (
            same and all(n <= h for n, h in zip(needs, transposed, strict=True))
        )
