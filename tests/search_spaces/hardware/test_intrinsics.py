"""Tensor intrinsics: fragments against the tables of the PTX ISA, loads against what the instructions really read."""

import dataclasses
import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from register_files import execute

from search_spaces.hardware.block_scaling import FACTOR_DTYPES
from search_spaces.hardware.devices import device
from search_spaces.hardware.dtypes import BF16, F16, round_to_tf32
from search_spaces.hardware.fragments import Fragment
from search_spaces.hardware.intrinsics import INTRINSICS, intrinsic, intrinsics_for
from search_spaces.hardware.requirements import Access, AlignedRows, LeadingDimension, Refusal
from search_spaces.hardware.units import UNITS, unit
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.shared_layout import Pad, SharedLayout, Swizzle, sampled_layouts

ROWS = list(INTRINSICS.values())
OPEN = [row for row in ROWS if row.c.layout is not None]
MMA = [row for row in ROWS if row.unit == "mma"]
WMMA = [row for row in ROWS if row.unit == "wmma"]
FMA = [row for row in ROWS if row.unit == "fma"]
DOCUMENT_TILE = (128, 64)  # "the shared memory size of A is 128*64", float16

shapes = st.tuples(st.sampled_from([16, 32, 48, 64]), st.sampled_from([16, 32, 48, 64]))
steps = st.one_of(
    st.builds(Pad, st.sampled_from([1, 2, 4, 8, 12, 16]), st.sampled_from([1, 2, 3, 4, 8, 16, 32])),
    st.integers(1, 3).flatmap(lambda b: st.builds(Swizzle, st.just(b), st.integers(0, 6), st.integers(b, 8))),
)
layouts = st.builds(SharedLayout, shapes, st.booleans(), st.lists(steps, max_size=2).map(tuple))


def names(rows):
    return [row.name for row in rows]


def element_bytes(row):
    return FACTOR_DTYPES[row.stored("a")[-1]].bytes


# The document's first problem ----------------------------------------------------------------------------------------


def test_pad_4_2_is_refused_by_wmma_and_by_ldmatrix_each_with_its_own_reason():
    layout = SharedLayout.parse("pad(4,2)", DOCUMENT_TILE)
    wmma = intrinsic("wmma_m16n16k16_f16").requirement("a", layout, 2)
    mma = intrinsic("mma_m16n8k16_f16").requirement("a", layout, 2)
    assert wmma == Refusal(
        "wmma.load needs one leading dimension for all fragments of 16x16, which layout pad(4,2) of the 128x64 tile of "
        "A does not have: line 1 starts 64 elements after line 0, line 2 68 after line 1"
    )
    assert mma == Refusal(
        "ldmatrix needs 8 contiguous elements along k or m that start at a multiple of 16 bytes, but layout pad(4,2) "
        "of the 128x64 tile of A puts element 0 of line 2 at byte 264, so its rows are not 16-byte aligned"
    )
    assert intrinsic("fma_m16n32k1").requirement("a", layout, 2) == Access("vector", "rows", 1)


def test_pad_8_2_is_refused_by_wmma_alone():
    layout = SharedLayout.parse("pad(8,2)", DOCUMENT_TILE)
    refused = intrinsic("wmma_m16n16k16_f16").requirement("a", layout, 2)
    assert isinstance(refused, Refusal)
    assert "one leading dimension for all fragments of 16x16" in refused.reason
    assert intrinsic("mma_m16n8k16_f16").requirement("a", layout, 2) == Access("rows", "cols", 8)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        # 16 elements after each 16 lines: no fragment sees one inside; origins are at multiples of 1040 and 16 elements
        ("pad(16,16)", Access("row", "cols", 8, 64)),
        ("pad(16,32)", Access("row", "cols", 8, 64)),
        ("transpose+pad(16,16)", Access("col", "rows", 8, 128)),
        ("pad(16,8)", "line 1 starts 64 elements after line 0, line 8 80 after line 7"),
        ("pad(16,24)", "line 1 starts 64 elements after line 0, line 24 80 after line 23"),
        ("pad(8,16)", "the fragment at \\(16, 0\\) starts at byte 2064"),
        ("swizzle(1,4,6)", Access("row", "cols", 8, 64)),  # swaps whole fragments, in every other row of them
    ],
)
def test_a_leading_dimension_is_asked_of_each_fragment(text, answer):
    layout = SharedLayout.parse(text, DOCUMENT_TILE)
    found = intrinsic("wmma_m16n16k16_f16").requirement("a", layout, 2)
    if isinstance(answer, Access):
        assert found == answer
        assert check_load(intrinsic("wmma_m16n16k16_f16"), "a", layout)
    else:
        assert isinstance(found, Refusal)
        assert re.search(answer, found.reason)


def test_pad_8_1_is_taken_by_both():
    layout = SharedLayout.parse("pad(8,1)", DOCUMENT_TILE)
    assert intrinsic("wmma_m16n16k16_f16").requirement("a", layout, 2) == Access("row", "cols", 8, 72)
    assert intrinsic("mma_m16n8k16_f16").requirement("a", layout, 2) == Access("rows", "cols", 8)


@pytest.mark.parametrize(
    ("name", "operand", "text", "shape", "answer"),
    [
        ("mma_m16n8k16_bf16", "a", "transpose+pad(8,1)", (128, 64), Access("trans", "rows", 8)),
        ("mma_m16n8k16_bf16", "b", "swizzle(3,3,3)", (64, 128), Access("trans", "cols", 8)),
        ("mma_m16n8k16_bf16", "b", "transpose+swizzle(3,3,3)", (64, 128), Access("rows", "rows", 8)),
        ("mma_m16n8k8_tf32", "a", "swizzle(3,2,3)", (64, 32), Access("rows", "cols", 4)),
        ("mma_m16n8k8_tf32", "b", "transpose", (32, 64), Access("rows", "rows", 4)),
        ("wmma_m16n16k16_bf16", "b", "transpose", (64, 128), Access("col", "rows", 8, 64)),
        ("wmma_m16n16k8_tf32", "a", "pad(4,1)", (64, 32), Access("row", "cols", 4, 36)),
        ("fma_m16n32k1", "a", "transpose+pad(2,1)", (64, 32), Access("vector", "rows", 2)),
        ("fma_m16n32k1", "b", "swizzle(3,3,3)", (32, 64), Access("vector", "cols", 4)),
        ("fma_m8n4k1", "b", "identity", (32, 64), Access("vector", "cols", 1)),
    ],
)
def test_accesses(name, operand, text, shape, answer):
    row = intrinsic(name)
    layout = SharedLayout.parse(text, shape)
    assert row.requirement(operand, layout, 4 if "tf32" in name else 2) == answer


@pytest.mark.parametrize(
    ("name", "operand", "text", "shape", "reason"),
    [
        ("mma_m16n8k8_tf32", "a", "transpose", (64, 32), "contiguous along m and ldmatrix transposes 2-byte elements"),
        ("mma_m16n8k8_tf32", "b", "identity", (32, 64), "contiguous along n and ldmatrix transposes 2-byte elements"),
        ("mma_m16n8k16_f16", "a", "xor", (64, 32), "does not keep elements 0 to 7 of line 1 in sequence"),
        ("mma_m16n8k16_f16", "a", "identity", (24, 16), "fragments of 16x16, which do not divide the tile of 24x16"),
        ("wmma_m16n16k16_f16", "a", "pad(4,1)", (64, 32), "lines of layout pad(4,1) .* are 72 bytes apart"),
        ("wmma_m16n16k16_f16", "b", "swizzle(1,3,3)", (64, 32), "elements 7 and 8 of line 2 are not neighbours"),
        ("wmma_m16n16k8_tf32", "a", "pad(2,1)", (64, 32), "lines of layout pad(2,1) .* are 136 bytes apart"),
    ],
)
def test_refusals(name, operand, text, shape, reason):
    refused = intrinsic(name).requirement(operand, SharedLayout.parse(text, shape), 4 if "tf32" in name else 2)
    assert isinstance(refused, Refusal)
    assert re.search(reason.replace("(", r"\(").replace(")", r"\)"), refused.reason)
    assert refused.reason.count(". ") == 0


# Loads are what the instructions read ---------------------------------------------------------------------------------


def shared_image(layout):
    """Return a buffer with element (r, c) = r * cols + c at its offset, and -1 in the padding."""
    image = np.full(layout.size, -1)
    image[layout.offsets()] = np.arange(layout.shape[0] * layout.shape[1]).reshape(layout.shape)
    return image


def operand_tile(layout, origin, shape):
    rows, cols = origin[0] + np.arange(shape[0])[:, None], origin[1] + np.arange(shape[1])
    return rows * layout.shape[1] + cols


def origins(layout, shape):
    return itertools.product(range(0, layout.shape[0], shape[0]), range(0, layout.shape[1], shape[1]))


def ldmatrix(image, addresses, size, transposed):
    """One 8x8 matrix of 16-bit units, PTX ISA "ldmatrix": lane l gets units 2 * (l % 4) + {0, 1} of row l / 4, of the
    transposed matrix with .trans. Elements of 4 bytes are two units that stay together, of 1 byte two are a unit."""
    assert (addresses * size % 16 == 0).all()
    per_row = 16 // size
    matrix = image[addresses[:, None] + np.arange(per_row)]
    if transposed:
        assert size == 2
        matrix = matrix.T
    lane = np.arange(32)
    if size == 4:
        return matrix[lane // 4, lane % 4][:, None]
    if size == 1:
        return np.stack([matrix[lane // 4, 4 * (lane % 4) + i] for i in range(4)], axis=1)
    return np.stack([matrix[lane // 4, 2 * (lane % 4)], matrix[lane // 4, 2 * (lane % 4) + 1]], axis=1)


def load_mma(row, operand, layout, origin, access):
    """Return the registers that ldmatrix fills for one fragment, matrices in the order of the registers."""
    image, size = shared_image(layout), element_bytes(row)
    chunk = 16 // size
    rows, cols = row.fragment(operand).shape
    if operand == "a":  # registers: (m 0, k 0), (m 8, k 0), (m 0, k 1), (m 8, k 1)
        corners = [(m, k) for k in range(0, cols, chunk) for m in range(0, rows, 8)]
    else:
        corners = [(k, 0) for k in range(0, rows, chunk)]
    held = []
    for dr, dc in corners:
        r, c = origin[0] + dr, origin[1] + dc
        lines = np.arange(8)
        addresses = layout(r + lines, np.full(8, c)) if access.axis == "cols" else layout(np.full(8, r), c + lines)
        held.append(ldmatrix(image, addresses.astype(np.int64), size, access.mode == "trans"))
    return np.concatenate(held, axis=1)


def check_load(row, operand, layout):
    access = row.requirement(operand, layout, element_bytes(row))
    if isinstance(access, Refusal):
        return False
    fragment = row.fragment(operand)
    for origin in itertools.islice(origins(layout, fragment.shape), 0, None, 3):
        expected = operand_tile(layout, origin, fragment.shape)
        image = shared_image(layout)
        if row.unit == "wmma":
            start, leading = layout(*origin), access.leading_dimension
            assert start * element_bytes(row) % 32 == 0
            assert leading * element_bytes(row) % 16 == 0
            r, c = np.indices(fragment.shape)
            loaded = image[start + (r * leading + c if access.mode == "row" else c * leading + r)]
            np.testing.assert_array_equal(loaded, expected)
        elif row.unit == "mma":
            np.testing.assert_array_equal(load_mma(row, operand, layout, origin, access), fragment.distribute(expected))
        else:
            rows, cols = fragment.positions
            first = layout(origin[0] + rows[:, :: access.vector], origin[1] + cols[:, :: access.vector])
            assert (first % access.vector == 0).all()
            loaded = image[first[..., None] + np.arange(access.vector)].reshape(32, -1)
            np.testing.assert_array_equal(loaded, fragment.distribute(expected))
    return True


@pytest.mark.parametrize("row", ROWS, ids=names(ROWS))
@pytest.mark.parametrize("operand", ["a", "b"])
def test_accepted_layouts_load_the_right_elements(row, operand):
    taken = 0
    for text in sampled_layouts(element_bytes(row)):
        taken += check_load(row, operand, SharedLayout.parse(text, (32, 64) if operand == "b" else (64, 32)))
    assert taken > 3


@settings(deadline=None, max_examples=60)
@given(layouts, st.sampled_from(ROWS), st.sampled_from(["a", "b"]))
def test_accepted_drawn_layouts_load_the_right_elements(layout, row, operand):
    check_load(row, operand, layout)


def brute_force_answer(row, operand, layout):
    """Whether the intrinsic can load every fragment, from the addresses alone."""
    size = element_bytes(row)
    offsets = layout.offsets()
    rows, cols = row.fragment(operand).shape
    if offsets.shape[0] % rows or offsets.shape[1] % cols:
        return False
    if row.unit == "fma":
        return True
    if row.unit == "mma":
        chunk = 16 // size

        def whole(lines):
            starts_and_rest = lines.reshape(lines.shape[0], -1, chunk)
            return all(
                g[0] * size % 16 == 0 and list(g) == list(range(g[0], g[0] + chunk))
                for line in starts_and_rest
                for g in line
            )

        along_k, other = (offsets, offsets.T) if operand == "a" else (offsets.T, offsets)
        return whole(along_k) or (size == 2 and whole(other))
    fragments = [offsets[r : r + rows, c : c + cols] for r, c in origins(layout, (rows, cols))]
    for lines in (fragments, [f.T for f in fragments]):
        leading = int(lines[0][1, 0] - lines[0][0, 0])
        expected = np.arange(lines[0].shape[0])[:, None] * leading + np.arange(lines[0].shape[1])
        if leading * size % 16 == 0 and all(
            (f - f[0, 0] == expected).all() and f[0, 0] * size % 32 == 0 for f in lines
        ):
            return True
    return False


@settings(deadline=None, max_examples=100)
@given(layouts, st.sampled_from(ROWS), st.sampled_from(["a", "b"]))
def test_legality_equals_a_search_of_the_addresses(layout, row, operand):
    answer = row.requirement(operand, layout, element_bytes(row))
    assert isinstance(answer, Access) == brute_force_answer(row, operand, layout)
    if isinstance(answer, Refusal):
        assert answer.reason
        assert "\n" not in answer.reason


def test_requirements_of_shapes_that_no_row_has():
    # Fragments of B of wmma.m32n8k16 are 16 bytes wide: only every other one starts at a multiple of 32 bytes.
    narrow = LeadingDimension().check("b", SharedLayout((16, 16)), 2, (16, 8))
    assert narrow == Refusal(
        "wmma.load needs fragments that start at multiples of 32 bytes, but in layout identity of the 16x16 tile of B "
        "the fragment at (0, 8) starts at byte 16"
    )
    ragged = AlignedRows().check("a", SharedLayout((8, 12)), 2, (8, 12))
    assert isinstance(ragged, Refusal)
    assert ragged.reason.endswith("has lines of 12 elements, which 8 does not divide")


def test_a_wrong_element_size_is_refused():
    layout = SharedLayout((64, 32))
    with pytest.raises(ValueError, match="mma_m16n8k16_f16 reads f16, not elements of 4 bytes"):
        intrinsic("mma_m16n8k16_f16").requirement("a", layout, 4)


# Fragments ------------------------------------------------------------------------------------------------------------


def ptx_m16n8k16(lane):
    """PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type"."""
    g, t = lane // 4, lane % 4
    a = [(g + 8 * (i // 2 % 2), 2 * t + (i & 1) + 8 * (i >= 4)) for i in range(8)]
    b = [(2 * t + (i & 1) + 8 * (i >= 2), g) for i in range(4)]
    return a, b, ptx_c(lane)


def ptx_m16n8k8_tf32(lane):
    """PTX ISA, "Matrix fragments for mma.m16n8k8" for .tf32."""
    g, t = lane // 4, lane % 4
    a = [(g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)]
    b = [(t, g), (t + 4, g)]
    return a, b, ptx_c(lane)


def ptx_m16n8k8_f16(lane):
    """PTX ISA, "Matrix fragments for mma.m16n8k8" for .f16."""
    g, t = lane // 4, lane % 4
    a = [(g, 2 * t), (g, 2 * t + 1), (g + 8, 2 * t), (g + 8, 2 * t + 1)]
    b = [(2 * t, g), (2 * t + 1, g)]
    return a, b, ptx_c(lane)


def ptx_c(lane):
    g, t = lane // 4, lane % 4
    return [(g, 2 * t), (g, 2 * t + 1), (g + 8, 2 * t), (g + 8, 2 * t + 1)]


@pytest.mark.parametrize(
    ("name", "tables"),
    [
        ("mma_m16n8k16_f16", ptx_m16n8k16),
        ("mma_m16n8k16_bf16", ptx_m16n8k16),
        ("mma_m16n8k8_tf32", ptx_m16n8k8_tf32),
        ("mma_m16n8k16_f16_f16", ptx_m16n8k16),
        ("mma_m16n8k8_f16_f16", ptx_m16n8k8_f16),
    ],
)
def test_mma_fragments_are_those_of_the_ptx_isa(name, tables):
    row = intrinsic(name)
    for which, fragment in enumerate((row.a, row.b, row.c)):
        rows, cols = fragment.positions
        for lane in range(32):
            assert list(zip(rows[lane], cols[lane], strict=True)) == tables(lane)[which]


def test_a_warpgroup_fragment_is_one_more_row():
    # PTX ISA, "Register fragments for wgmma.mma_async.m64nNk16", accumulator D, here with N = 16.
    layout = NestedLayout((4, 1), (1, 2), (2, 1), (8, 4), (1, 2), (1, 0), (4, 1))
    rows, cols = Fragment((64, 16), 8, layout, lanes=128).positions
    for thread in range(128):
        warp, g, t = thread // 32, thread % 32 // 4, thread % 4
        expected = [(16 * warp + g + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * t + i % 2) for i in range(8)]
        assert list(zip(rows[thread], cols[thread], strict=True)) == expected
    for lanes in (0, 48):
        with pytest.raises(ValueError, match="whole warps"):
            Fragment((64, 16), 8, layout, lanes=lanes)
    with pytest.raises(ValueError, match="uses 4 warps, more than 32 lanes"):
        Fragment((64, 16), 8, layout)


def test_fma_lanes_stand_row_by_row_with_neighbouring_results():
    rows, cols = intrinsic("fma_m16n32k1").c.positions
    lane = np.arange(32)[:, None]
    value = np.arange(16)
    np.testing.assert_array_equal(rows, lane // 8 * 4 + value // 4)
    np.testing.assert_array_equal(cols, lane % 8 * 4 + value % 4)
    rows, cols = intrinsic("fma_m32n16k1").c.positions
    np.testing.assert_array_equal(rows, lane // 4 * 4 + value // 4)
    np.testing.assert_array_equal(cols, lane % 4 * 4 + value % 4)
    rows, cols = intrinsic("fma_m8n4k1").c.positions
    np.testing.assert_array_equal(rows, lane // 4)
    np.testing.assert_array_equal(cols, lane % 4)


@pytest.mark.parametrize("row", OPEN, ids=names(OPEN))
def test_fragments_distribute_and_collect(row):
    for fragment in (row.a, row.b, row.c):
        tile = np.arange(fragment.shape[0] * fragment.shape[1]).reshape(fragment.shape)
        held = fragment.distribute(tile)
        assert held.shape == (32, fragment.values)
        np.testing.assert_array_equal(fragment.collect(held), tile)
        counts = np.bincount(held.ravel(), minlength=tile.size)
        assert set(counts) == {fragment.holders}
        if fragment.holders > 1:
            held[31, 0] = -1
            with pytest.raises(ValueError, match="different copies"):
                fragment.collect(held)
        with pytest.raises(ValueError, match="registers must have shape"):
            fragment.collect(held[:31])
        with pytest.raises(ValueError, match="tile must have shape"):
            fragment.distribute(tile[:, :0])


@pytest.mark.parametrize("row", FMA, ids=names(FMA))
def test_an_fma_lane_computes_its_results_from_its_own_registers(row):
    rng = np.random.default_rng(1)
    a, b, c = (rng.standard_normal(f.shape).astype(np.float32) for f in (row.a, row.b, row.c))
    own_a, own_b, own_c = row.a.distribute(a), row.b.distribute(b), row.c.distribute(c)
    exact = own_a[:, :, None].astype(np.float64) * own_b[:, None, :] + own_c.reshape(32, row.a.values, row.b.values)
    np.testing.assert_array_equal(execute(row, own_a, own_b, own_c), exact.astype(np.float32).reshape(32, -1))


# Values ---------------------------------------------------------------------------------------------------------------


def operand_values(row, rng, shape):
    return (rng.standard_normal(shape) * 2.0 ** rng.integers(-3, 4, shape)).astype(np.float32)


def rounded(row, values):
    if row.type_a == "tf32":
        return round_to_tf32(values).astype(np.float64)
    kind = FACTOR_DTYPES[row.type_a]
    if values.shape[-1] != row.numbers:  # of b, whose elements of several numbers lie along k
        return kind.load(kind.store(values.swapaxes(-1, -2))).swapaxes(-1, -2)
    return kind.load(kind.store(values))


@pytest.mark.parametrize("row", ROWS, ids=names(ROWS))
def test_reference_is_the_product_within_f32_rounding(row):
    rng = np.random.default_rng(2)
    a, b = operand_values(row, rng, (5, row.m, row.numbers)), operand_values(row, rng, (5, row.numbers, row.n))
    whole = row.type_a == "i8"
    c = (8 * rng.standard_normal((5, row.m, row.n))).astype(np.int32 if whole else np.float32)
    left, right = rounded(row, a), rounded(row, b)
    d = row.reference(a, b, c)
    if whole:
        assert d.dtype == np.int32 and (d == left @ right + c).all()
        return
    assert d.dtype == (np.float16 if row.halves else np.float32)
    c = c.astype(d.dtype).astype(np.float64)
    bound = (row.k + 1) * 2.0**-24 * (np.abs(left) @ np.abs(right) + np.abs(c))
    bound += 2.0**-11 * np.abs(d) if row.halves else 0.0
    assert (np.abs(d - (left @ right + c)) <= bound).all()


def test_reference_adds_exact_products_in_f32_along_k():
    row = intrinsic("mma_m16n8k16_f16")
    a, b, c = np.zeros((16, 16)), np.zeros((16, 8)), np.zeros((16, 8))
    a[0, :3], b[:3, 0] = (1 + 2.0**-10, 1, 1), (1 + 2.0**-10, 2.0**-24, 2.0**-24)
    # (1 + 2^-10)^2 needs 21 bits: exact. Each 2^-24 is half an ulp (2^-23) of the sum and goes to the even neighbour.
    square = (1 + 2.0**-10) ** 2
    assert row.reference(a, b, c)[0, 0] == square
    c[0, 0] = 2.0**-23
    assert row.reference(a, b, c)[0, 0] == square + 2.0**-22


def test_sums_in_f16_are_rounded_once_and_overflow():
    row = intrinsic("mma_m16n8k16_f16_f16")
    a, b, c = np.zeros((16, 16)), np.zeros((16, 8)), np.zeros((16, 8))
    a[0], b[:, 0] = 1, 0.25
    c[0, 0] = 2048  # an ulp is 2: each 0.25 alone would be lost, and 4 of them are halfway
    assert row.reference(a, b, c)[0, 0] == 2052
    a[0, 12:] = 0
    assert row.reference(a, b, c)[0, 0] == 2052  # 2051 is halfway and goes to the even one
    a[0], c[0, 0] = 2, 65504 - 8
    assert row.reference(a, b, c)[0, 0] == 65504
    c[0, 0], b[:, 1], c[0, 1] = 65504, -1, -65504
    assert row.reference(a, b, c)[0, 0] == 65504 and row.reference(a, b, c)[0, 1] == -np.inf
    with pytest.raises(ValueError, match="only products of f16 are added up in f16"):
        dataclasses.replace(row, type_a="bf16", type_b="bf16")


@pytest.mark.parametrize(("name", "store"), [("mma_m16n8k16_f16", F16), ("mma_m16n8k16_bf16", BF16)])
def test_operands_are_rounded_to_their_type(name, store):
    row = intrinsic(name)
    a, b = np.full((16, 16), 1 + 2.0**-12), np.eye(16, 8)
    assert store.load(store.store(a)).max() == 1
    np.testing.assert_array_equal(row.reference(a, b, np.zeros((16, 8))), 1)


def test_tf32_rounds_to_nearest_away_and_keeps_the_exponent():
    row = intrinsic("mma_m16n8k8_tf32")
    a, b = np.zeros((16, 8), np.float32), np.eye(8, dtype=np.float32)
    a[0] = [1 + 2.0**-11, 1 - 2.0**-12, 1e-38, 3e38, -1 - 2.0**-11, 1 + 2.0**-12, 0, 1]
    d = row.reference(a, b, np.zeros((16, 8)))
    np.testing.assert_array_equal(d[0], round_to_tf32(a[0]))
    assert d[0, 0] == 1 + 2.0**-10
    assert d[0, 4] == -1 - 2.0**-10
    assert d[0, 5] == 1


SINGLE = [row for row in OPEN if row.numbers == row.k]  # registers of the others hold elements, not numbers


@pytest.mark.parametrize("row", SINGLE, ids=names(SINGLE))
def test_executing_register_files_equals_the_reference(row):
    rng = np.random.default_rng(3)
    a, b = operand_values(row, rng, row.a.shape), operand_values(row, rng, row.b.shape)
    c = rng.standard_normal(row.c.shape).astype(np.float32)
    d = execute(row, row.a.distribute(a), row.b.distribute(b), row.c.distribute(c))
    assert d.shape == (32, row.c.values)
    np.testing.assert_array_equal(row.c.collect(d), row.reference(a, b, c))


def test_wmma_fragments_are_opaque():
    row = intrinsic("wmma_m16n16k16_f16")
    with pytest.raises(ValueError, match="does not say which lane"):
        execute(row, np.zeros((32, 8)), np.zeros((32, 8)), np.zeros((32, 8)))
    with pytest.raises(ValueError, match="must end in"):
        row.reference(np.zeros((16, 8)), np.zeros((16, 16)), np.zeros((16, 16)))


# Rows -----------------------------------------------------------------------------------------------------------------


def test_the_rows():
    assert {
        name: (r.m, r.n, r.k, r.needs, r.a.registers, r.b.registers, r.c.registers) for name, r in INTRINSICS.items()
    } == {
        "fma_m16n32k1": (16, 32, 1, "", 4, 4, 16),
        "fma_m32n16k1": (32, 16, 1, "", 4, 4, 16),
        "fma_m8n4k1": (8, 4, 1, "", 1, 1, 1),
        "wmma_m16n16k16_f16": (16, 16, 16, "", 8, 8, 8),
        "wmma_m16n16k16_bf16": (16, 16, 16, "mma_k16", 4, 4, 8),
        "wmma_m16n16k8_tf32": (16, 16, 8, "mma_k16", 4, 4, 8),
        "mma_m16n8k16_f16": (16, 8, 16, "mma_k16", 4, 2, 4),
        "mma_m16n8k16_bf16": (16, 8, 16, "mma_k16", 4, 2, 4),
        "mma_m16n8k16_f16_f16": (16, 8, 16, "mma_k16", 4, 2, 2),
        "mma_m16n8k8_f16_f16": (16, 8, 8, "", 2, 1, 2),
        "mma_m16n8k8_tf32": (16, 8, 8, "mma_k16", 4, 2, 4),
        "mma_m16n8k32_i8": (16, 8, 32, "mma_k16", 4, 2, 4),
        "mma_m16n8k32_e4m3": (16, 8, 32, "fp8_mma", 4, 2, 4),
        "mma_m16n8k32_e5m2": (16, 8, 32, "fp8_mma", 4, 2, 4),
        "mma_m16n8k32_mxf8": (16, 8, 32, "block_scale_mma", 4, 2, 4),
        "mma_m16n8k64_mxf4": (16, 8, 32, "block_scale_mma", 4, 2, 4),
        "mma_m16n8k64_nvf4": (16, 8, 32, "block_scale_mma", 4, 2, 4),
        "mma_m16n8k32_e4m3_unit_scales": (16, 8, 32, "block_scale_mma", 4, 2, 4),
        "mma_m16n8k32_e5m2_unit_scales": (16, 8, 32, "block_scale_mma", 4, 2, 4),
        "mma_m16n8k8_f16": (16, 8, 8, "", 2, 1, 4),
        "mma_m16n8k16_i8": (16, 8, 16, "", 2, 1, 4),
    }


def test_what_depends_on_an_instruction_stands_in_its_row():
    issued = {name: (r.instructions, r.results, r.c_name("T", "T")) for name, r in INTRINSICS.items()}
    assert issued["fma_m16n32k1"] == (16, 1, "autosched::Fma<T, 4, 8, 4, 4>")
    assert issued["fma_m8n4k1"] == (1, 1, "autosched::Fma<T, 8, 4, 1, 1>")
    assert issued["wmma_m16n16k8_tf32"] == (2, 8, "autosched::Wmma<T>")
    assert issued["mma_m16n8k16_bf16"] == (1, 4, "autosched::MmaSync<T>")
    for row in ROWS:
        # the multiply-adds of a fragment, by those of one instruction of a warp
        per_instruction = {"fma": 32, "wmma": 16 * 8 * row.k, "mma": 16 * 8 * row.k}[row.unit]
        if row.name == "mma_m16n8k16_i8":
            per_instruction = 8 * 8 * row.k  # m8n8k16
        assert row.instructions * per_instruction == row.m * row.n * row.k
    assert issued["mma_m16n8k8_f16_f16"] == (1, 2, "autosched::MmaSync<T, autosched::f16x2, 8>")


def test_rates_follow_the_unit_and_the_generation():
    h200, a100 = device("h200"), device("a100")
    rows = {name: row for name, row in INTRINSICS.items() if row.needs not in ("fp8_mma", "block_scale_mma")}
    rates = {name: (row.flops_per_cycle(h200), row.flops_per_cycle(a100)) for name, row in rows.items()}
    assert rates["fma_m16n32k1"] == (256, 128)
    assert rates["mma_m16n8k16_f16"] == (0.63 * 4096, 2048)
    assert rates["mma_m16n8k8_tf32"] == (0.63 * 2048, 1024)
    assert rates["mma_m16n8k32_i8"] == (0.63 * 8192, 4096)
    assert rates["mma_m16n8k16_f16_f16"] == rates["mma_m16n8k16_f16"]
    for name, faster in (("rtx3090", 2), ("rtx4090", 2), ("a10", 1), ("l4", 1), ("l40s", 1)):  # GeForce alone
        in_f32, in_f16 = (
            intrinsic(n).flops_per_cycle(device(name)) for n in ("mma_m16n8k16_f16", "mma_m16n8k16_f16_f16")
        )
        assert in_f16 == faster * in_f32
    assert unit("fma").flops_per_cycle(h200, "i8") == unit("fma").flops_per_cycle(a100, "i8") == 128
    fp8 = intrinsic("mma_m16n8k32_e4m3")
    assert fp8.flops_per_cycle(h200) == rates["mma_m16n8k16_f16"][0]  # Hopper converts its operands to f16
    assert fp8.flops_per_cycle(device("l40s")) == 2048
    by_scales = intrinsic("mma_m16n8k32_e4m3_unit_scales")
    for name, faster in (("rtx5090", 2), ("rtx_pro_6000", 1)):  # GeForce alone
        assert by_scales.flops_per_cycle(device(name)) == faster * fp8.flops_per_cycle(device(name))
    with pytest.raises(ValueError, match="a100 has no tensor rate for 'e4m3': use one of f16, bf16, tf32, i8"):
        fp8.flops_per_cycle(a100)
    assert rates["wmma_m16n16k16_f16"] == pytest.approx((0.4 * 0.63 * 4096, 0.4 * 2048))
    assert [u.clock_hz(h200) for u in UNITS.values()] == [1.83e9 if u.tensor else 1.98e9 for u in UNITS.values()]
    with pytest.raises(ValueError, match="unknown unit 'dpas': use one of fma, wmma, mma"):
        unit("dpas")


def test_a_device_lacks_an_instruction_by_generation_or_by_architecture():
    row = intrinsic("mma_m16n8k16_f16")
    assert row.why_not(device("a100")) is None
    assert row.why_not(device("t4")) == "mma_m16n8k16_f16 needs sm_80, but t4 is sm_75"
    hopper = dataclasses.replace(row, needs="wgmma")
    assert hopper.why_not(device("h200")) is None
    assert hopper.why_not(device("b200")) == "mma_m16n8k16_f16 needs sm_90a, but b200 is sm_100a"
    assert hopper.why_not(device("rtx5090")) == "mma_m16n8k16_f16 needs sm_90a, but rtx5090 is sm_120a"
    plain = dataclasses.replace(device("h200"), arch="sm_90")
    assert hopper.why_not(plain) == "mma_m16n8k16_f16 needs sm_90a, but h200 is sm_90"


def test_fp8_is_multiplied_as_f16_where_hardware_has_no_instruction_for_it():
    fp8 = intrinsic("mma_m16n8k32_e4m3")
    assert fp8.flops_per_cycle(device("rtx5090")) == 1024
    assert fp8.flops_per_cycle(device("rtx_pro_6000")) == 2048
    assert fp8.flops_per_cycle(device("b200")) == intrinsic("mma_m16n8k16_f16").flops_per_cycle(device("b200"))


def test_operands_of_two_types():
    row = intrinsic("mma_m16n8k16_f16")
    mixed = dataclasses.replace(row, type_b="bf16", cpp="Mixed<{a}, {b}>")
    assert (mixed.name, mixed.c_name("f16", "bf16")) == ("mma_m16n8k16_f16_bf16", "Mixed<f16, bf16>")
    assert (mixed.stored("a"), mixed.stored("b")) == (("f16",), ("bf16",))
    fine = 1 + 2.0**-9  # has 9 mantissa bits: f16 keeps it, bf16 does not
    a, b, c = np.full((16, 16), fine), np.eye(16, 8), np.zeros((16, 8))
    assert (mixed.reference(a, b, c) == fine).all()
    assert (mixed.reference(np.eye(16), np.full((16, 8), fine), c) == 1).all()


def test_rows_of_a_type():
    fma = {"fma_m16n32k1", "fma_m32n16k1", "fma_m8n4k1"}
    assert set(names(intrinsics_for("f16", tf32=False))) == fma | {"wmma_m16n16k16_f16", "mma_m16n8k16_f16"}
    in_f16 = {"mma_m16n8k16_f16_f16", "mma_m16n8k8_f16_f16"}
    assert set(names(intrinsics_for("f16", tf32=False, acc="f16"))) == in_f16
    assert set(names(intrinsics_for("bf16", tf32=True))) == fma | {"wmma_m16n16k16_bf16", "mma_m16n8k16_bf16"}
    assert set(names(intrinsics_for("f32", tf32=False))) == fma
    assert set(names(intrinsics_for("f32", tf32=True))) == fma | {"wmma_m16n16k8_tf32", "mma_m16n8k8_tf32"}
    with pytest.raises(ValueError, match="unknown type 'f64'"):
        intrinsics_for("f64", tf32=False)
    with pytest.raises(ValueError, match="unknown tensor intrinsic 'mma': use one of fma_m16n32k1"):
        intrinsic("mma")


def test_rows_that_contradict_themselves_are_refused():
    row = intrinsic("mma_m16n8k16_f16")
    layout = row.a.layout
    for changes, message in (
        ({"c": row.a}, r"fragments of \(16, 16\), \(16, 8\) and \(16, 16\) do not fit a @ b \+ c"),
        ({"b": intrinsic("mma_m16n8k8_tf32").b}, "do not fit a @ b"),
        ({"b": Fragment((16, 8), 2)}, "fragment b needs a layout"),
        (
            {"a": dataclasses.replace(row.a, registers=8)},
            "holds 8 values of 16 bits in a lane, which is not 8 registers",
        ),
        ({"type_a": "f8"}, "type_a must be one of"),
        ({"unit": "hmma"}, "unknown unit 'hmma': use one of fma, wmma, mma"),
        ({"instructions": 0}, "must be at least 1"),
        ({"needs": "tmem"}, "unknown feature 'tmem'"),
    ):
        with pytest.raises(ValueError, match=message):
            dataclasses.replace(row, **changes)
    for make, message in (
        (lambda: Fragment((16, 16), 4, layout, (0, 1, 2)), "permutation of 0 to 7"),
        (lambda: Fragment((16, 8), 4, layout), r"shape\[1\] is 8"),
        (lambda: Fragment((16, 16), 4, None, (0,)), "this fragment has none"),
        (
            lambda: Fragment((24, 1), 1, NestedLayout((1, 1), (1, 1), (1, 1), (24, 1), (1, 1), (0, 0), (1, 0))),
            "repeats every 24 threads",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            make()
