"""The properties of distributions are right, checked for all threads."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from search_spaces.hardware.fragments import WARP
from search_spaces.hardware.intrinsics import INTRINSICS
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.wg_map import WgMap
from search_spaces.programs.language.distribution import Distribution, fold
from search_spaces.programs.language.layout_distributions import blocked, of_fragment, of_nested, of_wg_map
from search_spaces.programs.language.moves import Renamed, Shuffled, move

BLOCKED = [
    blocked(shape, warps, along, columns, across, vector)
    for shape, warps, along, columns, across, vector in (
        ((64, 64), 4, 1, 8, 1, 4),
        ((64, 64), 4, 1, 32, 2, 1),
        ((64, 64), 4, 0, 16, 1, 2),
        ((64, 64), 4, 1, 2, 4, 8),
    )
]


def rows_and_columns(of: Distribution, warps: int) -> tuple[np.ndarray, np.ndarray]:
    return of.elements(warps) // of.shape[1], of.elements(warps) % of.shape[1]


@pytest.mark.parametrize("of", BLOCKED, ids=str)
def test_every_element_is_held(of: Distribution) -> None:
    held = np.bincount(of.elements(4).ravel(), minlength=64 * 64)
    assert held.min() >= 1 and len(set(held)) == 1


def test_nested_layouts_agree() -> None:
    layout = NestedLayout((2, 2), (2, 1), (1, 2), (8, 4), (1, 4), (2, 1), (4, 1))
    of = of_nested(layout, layout.shape)  # type: ignore[arg-type]
    expected = layout.coordinates(4, WARP).reshape(4 * WARP, -1, 2)
    rows, columns = rows_and_columns(of, 4)
    assert np.array_equal(rows, expected[..., 0]) and np.array_equal(columns, expected[..., 1])


@pytest.mark.parametrize("layout", [WgMap((2, 2), (16, 16)), WgMap((4, 1), (8, 32)), WgMap((1, 4), (32, 64))])
def test_wg_maps_give_each_subgroup_its_sub_tiles(layout: WgMap) -> None:
    shape = (64, 128)
    of = of_wg_map(shape, layout, 4)
    rows, columns = rows_and_columns(of, layout.subgroups)
    for subgroup in range(layout.subgroups):
        expected = {
            (row + r, column + c)
            for row, column in layout.offsets(shape, subgroup)
            for r, c in itertools.product(*map(range, layout.sg_data))
        }
        own = slice(subgroup * WARP, (subgroup + 1) * WARP)
        assert set(zip(rows[own].ravel().tolist(), columns[own].ravel().tolist(), strict=True)) == expected


def test_fragments_are_the_intrinsics() -> None:
    row = INTRINSICS["mma_m16n8k16_f16"]
    for fragment in (row.a, row.b, row.c):
        assert fragment.layout is not None
        levels = ((1, 1, fragment.shape[0]), (1, 1, fragment.shape[1]))
        of = of_fragment(fragment.layout, fragment.register_order, fragment.shape, levels, 0)
        rows, columns = rows_and_columns(of, 1)
        assert np.array_equal(rows, fragment.positions[0]) and np.array_equal(columns, fragment.positions[1])


@pytest.mark.parametrize("of", BLOCKED, ids=str)
@pytest.mark.parametrize(("dimension", "size"), [(0, 64), (1, 64), (0, 2), (1, 4), (1, 16)])
def test_folding_divides_coordinates(of: Distribution, dimension: int, size: int) -> None:
    folded, table = fold(of, dimension, size)
    coordinates, folded_coordinates = (rows_and_columns(d, 4) for d in (of, folded))
    for d in (0, 1):
        assert np.array_equal(coordinates[d] // (size if d == dimension else 1), folded_coordinates[d][:, list(table)])
    assert folded.expand(dimension, size).folded(dimension, size).same(folded, 4)


@pytest.mark.parametrize("of", BLOCKED, ids=str)
def test_swapping_twice_is_the_identity(of: Distribution) -> None:
    rows, columns = rows_and_columns(of, 4)
    assert np.array_equal(rows_and_columns(of.swap(), 4)[0], columns)
    assert of.swap().swap() == of and np.array_equal(rows_and_columns(of.swap(), 4)[1], rows)


@pytest.mark.parametrize(("source", "target"), list(itertools.product(BLOCKED, BLOCKED)))
def test_moves_deliver_the_target_elements(source: Distribution, target: Distribution) -> None:
    have, want = source.elements(4), target.elements(4)
    route = move(source, target, 4)
    threads = np.arange(4 * WARP)
    if isinstance(route, Renamed):
        assert np.array_equal(have[:, list(route.table)], want)
    elif isinstance(route, Shuffled):
        moved = [have[threads ^ mask, r] for r, mask in zip(route.table, route.masks, strict=True)]
        assert np.array_equal(np.stack(moved, axis=1), want)
    if source == target:
        assert isinstance(route, Renamed)
