"""Each function that the XeTile RFC or IREE defines on layouts is available as one call."""

from __future__ import annotations

import pytest

from search_spaces.layouts.lowering_config import LoweringConfig
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.wg_map import WgMap
from search_spaces.layouts.wg_map_consistency import converts_in_place

LAYOUT = NestedLayout((2, 1), (2, 4), (1, 1), (16, 4), (1, 4), (1, 0), (1, 16))


def test_packed_shape() -> None:
    assert LAYOUT.packed_shape == (2, 1, 2, 4, 1, 1, 16, 4, 1, 4)


def test_ids_of_a_thread_of_the_workgroup() -> None:
    subgroup, thread = LAYOUT.virtual_ids(3 * 64 + 16 + 5, subgroup_size=64)
    assert (subgroup.tolist(), thread.tolist()) == ([1, 0], [5, 1])


@pytest.mark.parametrize(("order", "strides"), [((1, 0), (1024, 1)), ((0, 1), (1, 1024))])
def test_an_order_agrees_with_the_base_matrix(order: tuple[int, int], strides: tuple[int, int]) -> None:
    """Check the right and wrong lowerings of the RFC's appendix 1."""
    WgMap((2, 2), (32, 128), order).verify_memory(strides)
    with pytest.raises(ValueError, match="its tiles need order"):
        WgMap((2, 2), (32, 128), order).verify_memory(strides[::-1])
    with pytest.raises(ValueError, match="contiguous"):
        WgMap((2, 2), (32, 128), order).verify_memory((64, 2))


def test_conversions_within_subgroups() -> None:
    shape = (128, 128)
    rows, halves = WgMap((4, 1), (32, 128)), WgMap((4, 1), (16, 128))
    everywhere = WgMap((4, 1), (128, 128))  # every subgroup holds the whole tile
    assert converts_in_place(everywhere, rows, shape) and not converts_in_place(rows, everywhere, shape)
    assert converts_in_place(rows, rows, shape) and not converts_in_place(rows, halves, shape)
    assert not converts_in_place(rows, WgMap((2, 1), (64, 128)), shape)


def test_accumulators_of_an_expanded_reduction() -> None:
    config = LoweringConfig.parse(
        "#iree_gpu.lowering_config<{workgroup = [2, 1, 0], thread = [0, 0, 8], partial_reduction = [0, 0, 512], "
        "lane_basis = [[1, 1, 64], [0, 1, 2]], subgroup_basis = [[1, 1, 1], [0, 1, 2]]}>"
    )
    assert config.accumulators() == (2, 1, 512)
    assert config.expand().accumulators() == (2, 1, 64)
