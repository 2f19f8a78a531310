"""Vectorised counts of bank conflicts equal brute-force counts, and the known numbers of textbook cases."""

import time
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from search_spaces.hardware.block_scaling import FACTOR_DTYPES
from search_spaces.hardware.costs.bank_conflicts import (
    Traffic,
    banks,
    conflict_degree,
    copy_traffic,
    fragment_traffic,
    ideal_wavefronts,
    ldmatrix_wavefronts,
    wavefronts,
)
from search_spaces.hardware.fragments import WARP
from search_spaces.hardware.intrinsics import INTRINSICS, intrinsic
from search_spaces.hardware.requirements import Refusal
from search_spaces.layouts.shared_layout import SharedLayout, sampled_layouts

LANES = np.arange(32)


def count_phase(addresses, access_bytes):
    """Return the cycles for lanes that are served together: the maximum number of distinct words in one bank."""
    words = defaultdict(set)
    for address in addresses:
        if address >= 0:
            for byte in range(address, address + access_bytes):
                words[byte // 4 % 32].add(byte // 4)
    return max((len(w) for w in words.values()), default=0)


def count(addresses, access_bytes):
    lanes = {16: 8, 8: 16}.get(access_bytes, 32)
    return sum(count_phase(addresses[i : i + lanes], access_bytes) for i in range(0, 32, lanes))


def count_ideal(addresses, access_bytes):
    lanes = {16: 8, 8: 16}.get(access_bytes, 32)
    return sum(any(a >= 0 for a in addresses[i : i + lanes]) for i in range(0, 32, lanes))


@given(st.sampled_from([1, 2, 4, 8, 16]), st.sampled_from([4, 64, 4096]), st.data())
def test_wavefronts_equal_counting_by_hand(access_bytes, span, data):
    units = data.draw(hnp.arrays(np.int64, (3, 32), elements=st.integers(-1, span)))
    addresses = np.where(units < 0, -1, units * access_bytes)
    expected = [count(row, access_bytes) for row in addresses.tolist()]
    ideal = [count_ideal(row, access_bytes) for row in addresses.tolist()]
    np.testing.assert_array_equal(wavefronts(addresses, access_bytes), expected)
    np.testing.assert_array_equal(ideal_wavefronts(addresses, access_bytes), ideal)
    degree = [e / i if i else 1.0 for e, i in zip(expected, ideal, strict=True)]
    np.testing.assert_array_equal(conflict_degree(addresses, access_bytes), degree)


@given(st.sampled_from([1, 2, 4]), st.data())
def test_ldmatrix_equals_counting_by_hand(matrices, data):
    rows = data.draw(hnp.arrays(np.int64, (2, 8 * matrices), elements=st.integers(0, 255))) * 16
    expected = [sum(count_phase(r[i : i + 8], 16) for i in range(0, 8 * matrices, 8)) for r in rows.tolist()]
    np.testing.assert_array_equal(ldmatrix_wavefronts(rows), expected)


def test_any_leading_shape_and_many_chunks():
    rng = np.random.default_rng(0)
    addresses = rng.integers(0, 500, (7, 5, 3, 400, 32)) * 16
    counted = wavefronts(addresses, 16)
    assert counted.shape == (7, 5, 3, 400)
    assert wavefronts(addresses[0, 0, 0, 0], 16).shape == ()
    for index in [(0, 0, 0, 0), (6, 4, 2, 399), (3, 1, 2, 77)]:
        assert counted[index] == wavefronts(addresses[index], 16) == count(addresses[index].tolist(), 16)


@pytest.mark.parametrize(
    ("addresses", "access_bytes", "cycles"),
    [
        (LANES * 4, 4, 1),  # adjacent words
        (LANES * 0 + 64, 4, 1),  # all lanes read the same word (broadcast)
        (LANES * 128, 4, 32),  # 32 words of one bank
        (LANES * 132, 4, 1),  # a column of an f32 tile with rows of 32, padded by one
        (LANES * 8, 4, 2),  # every other word
        (LANES * 2, 2, 1),  # two lanes per word
        (LANES // 2 * 128 + LANES % 2 * 2, 2, 16),
        (LANES * 1, 1, 1),
        (LANES * 8, 8, 2),  # 256 bytes: at least two cycles
        (LANES * 16, 16, 4),  # 512 bytes: at least four cycles
        (LANES * 128, 16, 32),  # 4 phases, in which 8 lanes access the same four banks
        (LANES * 144, 16, 4),  # rows of 64 f16 padded by 8
        (LANES % 8 * 16, 16, 4),  # 4 phases in sequence, even if they read the same data
        (LANES * 0 - 1, 4, 0),
        (np.where(LANES < 8, LANES * 16, -1), 16, 1),
    ],
)
def test_textbook_cases(addresses, access_bytes, cycles):
    assert wavefronts(addresses, access_bytes) == cycles == count(addresses.tolist(), access_bytes)


def test_invalid_accesses_are_rejected():
    for call, message in (
        (lambda: wavefronts(LANES * 4, 3), "1, 2, 4, 8 or 16 bytes"),
        (lambda: wavefronts(LANES[:16] * 4, 4), "axis of 32 lanes"),
        (lambda: wavefronts(LANES * 2, 4), "multiples of 4 bytes"),
        (lambda: wavefronts(LANES - 2, 1), "or -1"),
        (lambda: conflict_degree(LANES * 8 + 4, 8), "multiples of 8 bytes"),
        (lambda: ldmatrix_wavefronts(LANES[:12] * 16), "8, 16 or 32 row addresses"),
        (lambda: ldmatrix_wavefronts(LANES * 8), "multiple of 16 bytes"),
        (lambda: ldmatrix_wavefronts(LANES * 16 - 16), "multiple of 16 bytes"),
        (lambda: copy_traffic(SharedLayout((16, 16)), 2, "cols", 8, 2, 48), "whole warps"),
        (lambda: copy_traffic(SharedLayout((16, 16)), 2, "cols", 8, 4, 32), "does not divide 16x16"),
        (
            lambda: fragment_traffic(intrinsic("mma_m16n8k16_f16"), "a", SharedLayout.parse("pad(4,2)", (128, 64)), 2),
            "ldmatrix needs",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_banks_of_a_tile():
    layout = SharedLayout.parse("pad(2,1)", (64, 64))
    i, j = np.indices((64, 64))
    np.testing.assert_array_equal(banks(layout, 2), (i * 66 + j) * 2 // 4 % 32)


# Whole tiles ----------------------------------------------------------------------------------------------------------


def parse(text, shape):
    try:
        return SharedLayout.parse(text, shape)
    except ValueError:
        return None


@pytest.mark.parametrize("axis", ["cols", "rows"])
@pytest.mark.parametrize(
    ("vector", "columns", "threads"), [(8, 4, 64), (4, 8, 128), (2, 16, 64), (1, 32, 64), (1, 8, 32)]
)
def test_copy_traffic_equals_walking_the_threads(axis, vector, columns, threads):
    shape = (32, 64) if axis == "cols" else (64, 32)
    for text in sampled_layouts(2)[::3]:
        layout = SharedLayout.parse(text, shape)
        offsets = (layout.offsets() if axis == "cols" else layout.offsets().T).tolist()
        piece = min(vector, layout.contiguity(axis))
        warps = defaultdict(lambda: [-1] * 32)
        rows = threads // columns
        for thread in range(threads):
            for i in range(32 // rows):
                for j in range(64 // (columns * vector)):
                    for part in range(vector // piece):
                        line = i * rows + thread // columns
                        position = (j * columns + thread % columns) * vector + part * piece
                        warps[thread // 32, i, j, part][thread % 32] = offsets[line][position] * 2
        cycles = sum(count(a, piece * 2) for a in warps.values())
        ideal = sum(count_ideal(a, piece * 2) for a in warps.values())
        assert copy_traffic(layout, 2, axis, vector, columns, threads) == Traffic(len(warps), cycles, ideal)


def widest(row):
    """Return the bytes of the widest type that a row reads."""
    return max(FACTOR_DTYPES[name].bytes for name in row.stored("a"))


def walk_fragments(row, operand, layout, size):
    """Return (wavefronts, phases), counted over each access of each fragment of the tile, one lane at a time."""
    access = row.requirement(operand, layout, size)
    fragment = row.fragment(operand)
    cycles = ideal = 0
    rows, cols = fragment.shape
    addresses = layout.offsets().astype(int) * size
    for r0 in range(0, layout.shape[0], rows):
        for c0 in range(0, layout.shape[1], cols):
            if row.unit == "fma":
                held_rows, held_cols = fragment.positions
                for value in range(0, fragment.values, access.vector):
                    lanes = addresses[r0 + held_rows[LANES, value], c0 + held_cols[LANES, value]].tolist()
                    cycles += count(lanes, access.vector * size)
                    ideal += count_ideal(lanes, access.vector * size)
            elif row.type_a == "tf32" and row.unit == "wmma":
                for i in (0, 1):
                    for j in (0, 1):
                        g, t = LANES // 4, LANES % 4
                        r, c = (g + 8 * i, t + 4 * j) if operand == "a" else (t + 4 * i, g + 8 * j)
                        cycles += count(addresses[r0 + r, c0 + c].tolist(), size)
                        ideal += 1
            else:
                chunk = 16 // size
                down, right = (8, chunk) if access.axis == "cols" else (chunk, 8)
                for r in range(r0, r0 + rows, down):
                    for c in range(c0, c0 + cols, right):
                        lines = addresses[r : r + 8, c] if access.axis == "cols" else addresses[r, c : c + 8]
                        cycles += count_phase(lines.tolist(), 16)
                        ideal += 1
    return cycles, ideal


@pytest.mark.parametrize("row", INTRINSICS.values(), ids=lambda row: row.name)
@pytest.mark.parametrize("operand", ["a", "b"])
def test_fragment_traffic_equals_walking_the_fragments(row, operand):
    size, k = widest(row), max(16, row.k)
    checked = 0
    for text in sampled_layouts(size)[:: 5 if row.unit == "fma" else 2]:
        layout = SharedLayout.parse(text, (32, k) if operand == "a" else (k, 32))
        if isinstance(row.requirement(operand, layout, size), Refusal):
            continue
        traffic = fragment_traffic(row, operand, layout, size)
        assert (traffic.wavefronts, traffic.ideal) == walk_fragments(row, operand, layout, size)
        checked += 1
    assert checked > 2


REPEATING = (
    *("identity", "pad(8,1)", "swizzle(2,3,3)", "pad(3,2)", "pad(2,1)", "pad(8,4)"),
    *("transpose+pad(4,1)", "transpose+swizzle(2,2,4)", "pad(16,2)", "transpose+pad(16,2)", "transpose+pad(16,4)"),
)


@pytest.mark.parametrize("row", INTRINSICS.values(), ids=lambda row: row.name)
@pytest.mark.parametrize("operand", ["a", "b"])
def test_fragments_of_tiles_of_many_periods(row, operand):
    """If a layout is periodic, only the lines of one period are counted, and their counts are scaled to the tile."""
    size, k = widest(row), max(16, row.k)
    checked = 0
    for text in REPEATING:
        for shape in ((96, k), (k, 96)):
            layout = SharedLayout.parse(text, shape)
            if layout.why_illegal() or isinstance(row.requirement(operand, layout, size), Refusal):
                continue
            traffic = fragment_traffic(row, operand, layout, size)
            assert (traffic.wavefronts, traffic.ideal) == walk_fragments(row, operand, layout, size)
            checked += 1
    assert checked > 1


@pytest.mark.parametrize("element_bytes", [2, 4])
@pytest.mark.parametrize("axis", ["cols", "rows"])
def test_copies_of_tiles_of_many_periods(axis, element_bytes):
    rng = np.random.default_rng(element_bytes)
    texts = [*REPEATING, "pad(1,1)", "pad(5,6)", "transpose+pad(1,2)", *rng.choice(sampled_layouts(element_bytes), 40)]
    checked = 0
    for text in texts:
        shape = tuple(rng.choice([16, 48, 64, 128, 160], 2).tolist())
        layout = parse(str(text), shape)
        if layout is None or layout.why_illegal():
            continue
        across, along = shape if axis == "cols" else shape[::-1]
        for vector, columns, threads in ((1, 16, 32), (2, 8, 64), (4, 2, 32), (4, 4, 128), (8, 2, 32), (1, 48, 96)):
            rows = threads // columns
            if across % rows or along % (columns * vector) or vector * element_bytes > 16:
                continue
            piece = min(vector, layout.contiguity(axis))
            line, position = np.indices((across // rows, along // (columns * vector), vector // piece, threads))[[0, 1]]
            lane = np.arange(threads)
            line = line * rows + lane // columns
            position = (position * columns + lane % columns) * vector
            position = position + piece * np.arange(vector // piece)[:, None]
            offsets = layout(line, position) if axis == "cols" else layout(position, line)
            addresses = offsets.astype(np.int64).reshape(-1, WARP) * element_bytes
            full_traffic = Traffic(
                len(addresses),
                int(wavefronts(addresses, piece * element_bytes).sum()),
                int(ideal_wavefronts(addresses, piece * element_bytes).sum()),
            )
            assert copy_traffic(layout, element_bytes, axis, vector, columns, threads) == full_traffic
            checked += 1
    assert checked > 50


def test_known_good_layouts_have_no_conflicts():
    mma = intrinsic("mma_m16n8k16_f16")
    for text, cols in (("swizzle(3,3,3)", 64), ("pad(8,1)", 64), ("swizzle(2,3,3)", 32), ("swizzle(3,3,4)", 128)):
        layout = SharedLayout.parse(text, (128, cols))
        assert fragment_traffic(mma, "a", layout, 2).conflict_degree == 1
        assert copy_traffic(layout, 2, "cols", 8, cols // 8, 256).conflict_degree == 1
    # With rows of 128 bytes and no swizzle, all eight rows of a matrix are in the same four banks.
    assert fragment_traffic(mma, "a", SharedLayout((128, 64)), 2).conflict_degree == 8


def test_traffic_adds():
    assert Traffic(1, 4, 2) + Traffic(2, 3, 3) == Traffic(3, 7, 5)
    assert Traffic(1, 4, 2).conflict_degree == 2


def test_a_hundred_thousand_queries_take_under_two_seconds():
    rng = np.random.default_rng(1)
    shape = (64, 64)
    layouts = [layout for text in sampled_layouts(2) if (layout := parse(text, shape))]
    tables = np.stack([layout.offsets() for layout in layouts]).astype(np.int64)
    for access_bytes in (2, 4, 8, 16):
        which = rng.integers(0, len(layouts), 100_000)
        rows, cols = (rng.integers(0, 64, (100_000, 32)) for _ in range(2))
        start = time.process_time()
        addresses = tables[which[:, None], rows, cols] * 2 // access_bytes * access_bytes
        degree = conflict_degree(addresses, access_bytes)
        assert time.process_time() - start < 2.0  # takes 0.1 s on an idle core
        assert degree.min() >= 1
        sample = int(rng.integers(100_000))
        assert degree[sample] == count(addresses[sample].tolist(), access_bytes) / count_ideal(
            addresses[sample].tolist(), access_bytes
        )
