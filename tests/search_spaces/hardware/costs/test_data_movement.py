"""A copy plan moves every element once. Its costs equal those of a brute-force count. The list of plans is complete."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.hardware.costs.bank_conflicts import copy_traffic, wavefronts
from search_spaces.hardware.costs.copy_rankings import copy_choices
from search_spaces.hardware.costs.data_movement import (
    SAMPLED_WARPS,
    Region,
    conflict_percent,
    copy_plan,
)
from search_spaces.hardware.requirements import Refusal
from search_spaces.layouts.shared_layout import SharedLayout, parse_layout, sampled_layouts

extents = st.sampled_from([8, 16, 32, 48, 64])
cases = st.tuples(
    st.tuples(extents, extents),
    st.sampled_from(["rows", "cols"]),
    st.sampled_from([2, 4]),
    st.sampled_from([32, 64, 96, 128, 256]),
    st.sampled_from([1, 2, 4, 8, 64]),
    st.integers(0, 55),
)


def draw(case):
    shape, axis, element_bytes, threads, alignment, index = case
    texts = sampled_layouts(element_bytes)
    try:
        layout = SharedLayout.parse(texts[index % len(texts)], shape)
    except ValueError:
        layout = SharedLayout(shape)
    return Region(shape, axis, alignment, element_bytes), layout, threads


@given(cases)
def test_every_choice_moves_every_element_once(case):
    region, layout, threads = draw(case)
    tile = np.arange(1, region.shape[0] * region.shape[1] + 1).reshape(region.shape)
    for plan in copy_choices(region, layout, threads)[:6]:
        rows, cols = plan.positions()
        assert rows.shape == cols.shape == (threads, tile.size // (threads * plan.vector), plan.vector)
        assert len(np.unique(rows * region.shape[1] + cols)) == tile.size
        shared = plan.execute(tile)
        assert shared.shape == (layout.size,)
        np.testing.assert_array_equal(shared[layout.offsets()], tile)
        assert np.count_nonzero(shared) == tile.size


@given(cases)
def test_choices_are_all_legal_plans_best_first(case):
    region, layout, threads = draw(case)
    choices = copy_choices(region, layout, threads)
    lines, line = region.lines, region.line
    together = layout.contiguity(region.axis)
    expected = {
        (vector, columns, method)
        for vector, columns, method in itertools.product(
            (1, 2, 4, 8, 16), range(1, threads + 1), ("cp.async", "ld.global")
        )
        if vector * region.element_bytes <= 16
        and region.alignment % vector == 0
        and threads % columns == 0
        and (32 % columns == 0 or columns % 32 == 0)
        and line % (columns * vector) == 0
        and lines % (threads // columns) == 0
        and (method == "ld.global" or (vector * region.element_bytes in (4, 8, 16) and together >= vector))
    }
    assert {(p.vector, p.columns, p.method) for p in choices} == expected
    assert len(choices) == len(expected)
    key = [(p.sectors, p.stores.wavefronts, -p.vector) for p in choices]
    assert key == sorted(key)
    for plan in choices:
        assert plan.threads == threads == plan.map.subgroups
        plan.map.verify((lines, line))
        assert plan.map.wraps((lines, line)) == (False, False)
        assert plan.store == min(plan.vector, together)
        assert plan.stores == copy_traffic(
            layout, region.element_bytes, region.axis, plan.vector, plan.columns, threads
        )


def walked_sectors(plan, pitch, base):
    """Return the number of sectors of all requests, counted from the byte addresses of each warp's lanes."""
    region = plan.region
    rows, cols = plan.positions()
    line, position = (rows, cols) if region.axis == "cols" else (cols, rows)
    first = ((base + line * pitch + position) * region.element_bytes)[..., 0]
    last = first + plan.vector * region.element_bytes - 1
    return sum(
        len(set(np.concatenate([first[w : w + 32, r] // 32, last[w : w + 32, r] // 32]).tolist()))
        for w in range(0, plan.threads, 32)
        for r in range(first.shape[1])
    )


@pytest.mark.parametrize("alignment", [1, 2, 4, 8, 16, 64])
@pytest.mark.parametrize("element_bytes", [2, 4])
@pytest.mark.parametrize("axis", ["rows", "cols"])
def test_sectors_are_averaged_over_line_offsets(alignment, element_bytes, axis):
    shape = (16, 64) if axis == "cols" else (64, 16)
    plans = copy_choices(Region(shape, axis, alignment, element_bytes), SharedLayout(shape), 64)
    starts = range(0, 32 // element_bytes, min(alignment, 32 // element_bytes))
    for plan in plans:
        walked = [walked_sectors(plan, 1024, base) for base in starts]
        assert plan.sectors == pytest.approx(np.mean(walked))
        assert plan.requests == 64 * 16 // (plan.vector * 32)
        assert plan.sectors_per_request == pytest.approx(plan.sectors / plan.requests)


def test_the_best_copy_is_wide_coalesced_and_free_of_conflicts():
    layout = SharedLayout.parse("swizzle(3,3,3)", (128, 64))
    best = copy_choices(Region((128, 64), "cols", 64, 2), layout, 256)[0]
    assert (best.method, best.vector, best.columns, best.rows, best.store) == ("cp.async", 8, 8, 32, 8)
    assert best.sectors == 128 * 64 * 2 / 32
    assert best.stores.conflict_degree == 1
    assert str(best.map) == "#xetile.wg_map<sg_layout = [32, 8], sg_data = [1, 8]>"
    assert copy_choices(Region((128, 64), "rows", 64, 2), layout, 256)[0].method == "ld.global"


def test_a_transposing_copy_tears_its_vectors_and_prefers_fewer_conflicts_at_equal_sectors():
    layout = SharedLayout.parse("transpose+pad(2,1)", (64, 64))
    plans = copy_choices(Region((64, 64), "cols", 64, 2), layout, 128)
    assert all(p.method == "ld.global" and p.store == 1 for p in plans)
    same_sectors = [p for p in plans if p.sectors == plans[0].sectors]
    assert len({p.stores.wavefronts for p in same_sectors}) > 1
    assert plans[0].stores.wavefronts == min(p.stores.wavefronts for p in same_sectors)


def refusal(shape=(64, 64), axis="cols", alignment=8, threads=128, vector=8, columns=8, method="cp.async", **other):
    region = Region(shape, axis, alignment, other.get("element_bytes", 2))
    layout = SharedLayout.parse(other.get("layout", "identity"), other.get("layout_shape", shape))
    answer = copy_plan(region, layout, threads, vector, columns, method)
    return answer.reason if isinstance(answer, Refusal) else None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"layout_shape": (64, 32)}, "layout has shape"),
        ({"vector": 16, "alignment": 16}, "a vector of 16 elements is 32 bytes"),
        ({"vector": 3}, "power of two"),
        ({"vector": 0}, "power of two"),
        ({"alignment": 4}, "lines that start at multiples of 8 elements .* multiples of 4"),
        ({"threads": 48}, "whole warps"),
        ({"threads": 96, "columns": 48}, "a warp must cover whole rows"),
        ({"columns": 24, "threads": 96}, "a warp must cover whole rows"),
        ({"columns": 16}, "16 columns of 8 elements do not divide lines of 64 elements"),
        ({"columns": 8, "threads": 96}, "12 rows of threads do not divide the 64 lines"),
        ({"axis": "rows"}, "stores 1 elements of a line contiguously"),
        ({"axis": "rows", "method": "ld.global"}, None),
        ({"vector": 1, "columns": 32}, "a vector of 1 elements has 2 bytes"),
        ({"vector": 1, "columns": 32, "method": "ld.global"}, None),
        ({"vector": 1, "columns": 32, "element_bytes": 4}, None),
        ({"layout": "pad(4,1)"}, r"layout pad\(4,1\) stores 4 elements"),
        ({"layout": "pad(4,1)", "vector": 4, "columns": 16}, None),
    ],
)
def test_illegal_copies_get_a_reason(changes, reason):
    if reason is None:
        assert refusal(**changes) is None
    else:
        assert re.search(reason, refusal(**changes))


def test_regions_are_checked():
    for arguments, message in (
        (((0, 4), "cols", 8, 2), "rows must be at least 1"),
        (((4, -4), "cols", 8, 2), "cols must be at least 1"),
        (((4, 4), "k", 8, 2), "axis must be"),
        (((4, 4), "cols", 0, 2), "alignment must be"),
        (((4, 4), "cols", 8, 3), "element_bytes must be"),
    ):
        with pytest.raises(ValueError, match=message):
            Region(*arguments)
    with pytest.raises(ValueError, match="tile must have shape"):
        copy_choices(Region((16, 16), "cols", 8, 2), SharedLayout((16, 16)), 32)[0].execute(np.zeros((16, 8)))


def test_too_many_threads_for_a_tile_have_no_copy():
    assert copy_choices(Region((16, 16), "cols", 8, 2), SharedLayout((16, 16)), 512) == ()
    (only,) = copy_choices(Region((16, 16), "cols", 8, 2), SharedLayout((16, 16)), 256)
    assert (only.method, only.vector, only.columns) == ("ld.global", 1, 16)


def counted_percent(layout, element_bytes, axis, vector, columns, block):
    """Return ``conflict_percent`` computed from its definition, access by access, for the first warps."""
    offsets = layout.offsets() if axis == "cols" else layout.offsets().T
    other = "rows" if axis == "cols" else "cols"
    piece = min(block if block > 1 else vector, layout.contiguity(other if block > 1 else axis), 16 // element_bytes)
    rows = 32 // columns * block
    cycles = ideal = 0
    for warp in range(min(SAMPLED_WARPS, max(1, offsets.shape[0] // rows))):
        for start in range(0, vector, 1 if block > 1 else piece):
            lanes = np.arange(32)
            across = (warp * rows + lanes // columns * block) % offsets.shape[0]
            along = (start + lanes % columns * vector) % offsets.shape[1]
            addresses = offsets[across, along].astype(np.int64) * element_bytes
            cycles += int(wavefronts(addresses, piece * element_bytes))
            ideal += max(1, 32 * piece * element_bytes // 128)
    return round(100 * cycles / ideal)


@pytest.mark.parametrize("element_bytes", [1, 2, 4])
def test_conflicts_include_every_access_of_the_first_warps(element_bytes):
    rng = np.random.default_rng(element_bytes)
    for _ in range(60):
        shape = tuple(int(rng.choice([8, 16, 32, 64, 96, 128])) for _ in range(2))
        layout = parse_layout(str(rng.choice(sampled_layouts(element_bytes))), *shape)
        if isinstance(layout, str):
            continue
        axis = ("rows", "cols")[rng.integers(2)]
        for _ in range(6):
            vector, columns, block = (2 ** int(rng.integers(n)) for n in (5 - element_bytes // 2, 6, 3))
            conflicts = conflict_percent(layout, element_bytes, axis, vector, columns, block)
            assert conflicts == counted_percent(layout, element_bytes, axis, vector, columns, block), (
                layout, axis, vector, columns, block)  # fmt: skip
