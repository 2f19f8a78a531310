"""Convert layouts to distributions: fragments of an intrinsic, wg_map, NestedLayout, and blocked layouts."""

from __future__ import annotations

import math

from search_spaces.hardware.fragments import WARP
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.wg_map import WgMap
from search_spaces.programs.language.distribution import WIDEST, Digit, Distribution
from search_spaces.programs.language.ir import Window


def of_fragment(
    layout: NestedLayout,
    order: tuple[int, ...],
    shape: tuple[int, int],
    groups: tuple[tuple[int, int, int], tuple[int, int, int]],
    slow: int,
) -> Distribution:
    """Return the distribution of a tile that consists of fragments of an intrinsic, divided among subgroups.

    Args:
        layout: Layout of one fragment.
        order: Order of the fragment's elements in registers (``Fragment.register_order``).
        shape: Shape of the tile.
        groups: For each dimension, a triple: the number of subgroups along the dimension (0: not divided), the
            difference between the ids of adjacent subgroups, and the extent of a subgroup's tile.
        slow: The dimension along which the fragment number changes slowest. Registers hold the fragments in the order
            of their numbers.
    """
    strides = _register_strides([(layout.batch_tile[d], layout.outer_tile[d], layout.element_tile[d]) for d in (0, 1)])
    register_of = {element: r for r, element in enumerate(order)}
    values = layout.elements_per_thread
    counts = []
    for d, (of_groups, _, data) in enumerate(groups):
        each = (data if of_groups else shape[d]) // layout.shape[d]
        rounds = max(1, shape[d] // (of_groups * data)) if of_groups else 1
        counts.append((rounds, each))
    totals = [rounds * each for rounds, each in counts]
    step = [0, 0]
    step[1 - slow], step[slow] = values, values * totals[1 - slow]
    by_dimension = []
    for d, (of_groups, stride, data) in enumerate(groups):
        rounds, each = counts[d]
        digits = [Digit(rounds, "register", step[d] * each)]
        if of_groups:
            digits.append(Digit(min(of_groups, shape[d] // data), "warp", stride))
        digits.append(Digit(each, "register", step[d]))
        batch, outer, element = (register_of.get(s, s) for s in strides[d])
        digits += [
            Digit(layout.batch_tile[d], "register", batch),
            Digit(layout.outer_tile[d], "register", outer),
            Digit(layout.thread_tile[d], "lane", max(layout.thread_strides[d], 1)),
            Digit(layout.element_tile[d], "register", element),
        ]
        by_dimension.append(tuple(digit for digit in digits if digit.size > 1))
    return Distribution((by_dimension[0], by_dimension[1]))


def of_wg_map(shape: tuple[int, int], map: WgMap, vector: int) -> Distribution:
    """Return the distribution of a wg_map; within a sub-tile, each lane holds row vectors of ``vector`` elements.

    Subgroups receive the sub-tiles round-robin.
    """
    rows, columns = map.sg_data
    vector = math.gcd(columns, vector)
    lanes = math.gcd(WARP, columns // vector)
    inner = blocked((rows, columns), 1, 1, lanes, 1, vector)
    by_dimension: list[tuple[Digit, ...]] = []
    total = inner.registers
    outer: list[tuple[Digit, ...]] = [(), ()]
    for d, stride in ((1, 1), (0, map.sg_layout[1])):
        count = shape[d] // map.sg_data[d]
        rounds = max(1, count // map.sg_layout[d])
        outer[d] = (
            Digit(rounds, "register", total),
            Digit(min(map.sg_layout[d], count), "warp", stride),
        )
        total *= rounds
    for d in (0, 1):
        by_dimension.append(tuple(digit for digit in (*outer[d], *inner.digits[d]) if digit.size > 1))
    return Distribution((by_dimension[0], by_dimension[1]))


def blocked(shape: tuple[int, int], warps: int, along: int, columns: int, across: int, vector: int) -> Distribution:
    """Distribute a tile in vectors of consecutive elements. In each round, each lane receives one vector.

    A line is a row or column of the tile that is contiguous in memory. Surplus lanes and warps hold copies.

    Args:
        shape: Shape of the tile.
        warps: Warps of the block.
        along: The dimension that lines run along, 0 or 1.
        columns: Number of lanes that share a line; the remaining lanes of a warp have other lines.
        across: Number of warps that share a line.
        vector: Number of consecutive elements of a line per lane.
    """
    line, lines = shape[along], shape[1 - along]
    lanes = WARP // columns
    lane_lines = math.gcd(lines, lanes)
    warp_lines = math.gcd(lines // lane_lines, warps // across)
    rounds, passes = line // (across * columns * vector), lines // (lane_lines * warp_lines)
    of_line = (
        Digit(rounds, "register", vector),
        Digit(across, "warp", 1),
        Digit(columns, "lane", 1),
        Digit(vector, "register", 1),
    )
    of_lines = (
        Digit(passes, "register", vector * rounds),
        Digit(warp_lines, "warp", across),
        Digit(lane_lines, "lane", columns),
    )
    digits = (of_lines, of_line) if along == 1 else (of_line, of_lines)
    return Distribution(digits)


def of_nested(layout: NestedLayout, shape: tuple[int, int]) -> Distribution:
    """Return the distribution of a NestedLayout, with its levels subgroup, batch, outer, thread and element.

    A subgroup with more lanes than a warp occupies several warps.
    """
    lanes = subgroup_lanes(layout)
    layout.verify(shape, lanes)
    by_dimension = []
    counts = [(layout.batch_tile[d], layout.outer_tile[d], layout.element_tile[d]) for d in (0, 1)]
    strides = _register_strides(counts)
    for d in (0, 1):
        batch, outer, element = strides[d]
        by_dimension.append(
            (
                Digit(layout.subgroup_tile[d], "warp", max(layout.subgroup_strides[d], 1) * (lanes // WARP)),
                Digit(layout.batch_tile[d], "register", batch),
                Digit(layout.outer_tile[d], "register", outer),
                *_lane_digits(layout.thread_tile[d], max(layout.thread_strides[d], 1)),
                Digit(layout.element_tile[d], "register", element),
            )
        )
    return Distribution((by_dimension[0], by_dimension[1])).packed()


def subgroup_lanes(layout: NestedLayout) -> int:
    """Return the number of lanes of a subgroup: a multiple of a warp's 32 lanes."""
    return -(-math.prod(layout.thread_tile) // WARP) * WARP


def _lane_digits(size: int, stride: int) -> tuple[Digit, ...]:
    """Return digits for ``size`` lanes of a subgroup, ``stride`` apart; lanes from 32 on belong to further warps."""
    within = max(1, min(size, WARP // stride))
    beyond = Digit(size // within, "warp", max(1, stride // WARP))
    return (beyond, Digit(within, "lane", min(stride, WARP - 1))) if size > within else (Digit(size, "lane", stride),)


def _register_strides(counts: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Return register strides for (batch, outer, element) of both dimensions.

    Batch is slowest, element fastest; within a level, the last dimension is fastest.
    """
    strides = [[0, 0, 0], [0, 0, 0]]
    total = 1
    for kind in (2, 1, 0):
        for d in (1, 0):
            strides[d][kind] = total
            total *= counts[d][kind]
    return [(s[0], s[1], s[2]) for s in strides]


def transposed_distribution(window: Window, warps: int) -> Distribution:
    """Return the distribution for storing a tile transposed in shared memory.

    Each lane has the widest vector possible, and as many lanes as possible share a line.
    """
    along = 0 if window.turned else 1
    extent, line, bytes_ = window.array.line_divisor, window.shape[along], window.array.dtype.bytes
    vector = math.gcd(extent, window.at[along].divisor or extent, line, WIDEST // bytes_)
    return blocked(window.shape, warps, along, math.gcd(line // vector, WARP), 1, vector)
