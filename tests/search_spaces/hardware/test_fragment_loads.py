"""Instructions that load fragments from shared memory: layouts that they accept, and elements that each lane gets."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.hardware.block_scaling import FACTOR_DTYPES
from search_spaces.hardware.intrinsics import INTRINSICS, intrinsic
from search_spaces.hardware.requirements import Access, AlignedRows, LeadingDimension, Refusal
from search_spaces.layouts.shared_layout import Pad, SharedLayout, Swizzle, sampled_layouts

ROWS = list(INTRINSICS.values())
DOCUMENT_TILE = (128, 64)  # TVM's document: "the shared memory size of A is 128*64", float16

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


def test_pad_4_2_is_rejected_by_wmma_and_by_ldmatrix_each_with_its_own_reason():
    layout = SharedLayout.parse("pad(4,2)", DOCUMENT_TILE)
    wmma = intrinsic("wmma_m16n16k16_f16").requirement("a", layout, 2)
    mma = intrinsic("mma_m16n8k16_f16").requirement("a", layout, 2)
    assert wmma == Refusal(
        "wmma.load needs one leading dimension for all fragments of 16x16, but layout pad(4,2) of the 128x64 tile of "
        "A has none: line 1 starts 64 elements after line 0, but line 2 starts 68 elements after line 1"
    )
    assert mma == Refusal(
        "ldmatrix needs 8 contiguous elements along k or m that start at a multiple of 16 bytes, but layout pad(4,2) "
        "of the 128x64 tile of A puts element 0 of line 2 at byte 264, so its rows are not 16-byte aligned"
    )
    assert intrinsic("fma_m16n32k1").requirement("a", layout, 2) == Access("vector", "rows", 1)


def test_only_wmma_rejects_pad_8_2():
    layout = SharedLayout.parse("pad(8,2)", DOCUMENT_TILE)
    refused = intrinsic("wmma_m16n16k16_f16").requirement("a", layout, 2)
    assert isinstance(refused, Refusal)
    assert "one leading dimension for all fragments of 16x16" in refused.reason
    assert intrinsic("mma_m16n8k16_f16").requirement("a", layout, 2) == Access("rows", "cols", 8)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        # 16 padding elements after every 16 lines: no fragment contains padding, and the fragment (i, j) starts at
        # element 1040 i + 16 j
        ("pad(16,16)", Access("row", "cols", 8, 64)),
        ("pad(16,32)", Access("row", "cols", 8, 64)),
        ("transpose+pad(16,16)", Access("col", "rows", 8, 128)),
        ("pad(16,8)", "line 1 starts 64 elements after line 0, but line 8 starts 80 elements after line 7"),
        ("pad(16,24)", "line 1 starts 64 elements after line 0, but line 24 starts 80 elements after line 23"),
        ("pad(8,16)", "the fragment at \\(16, 0\\) starts at byte 2064"),
        ("swizzle(1,4,6)", Access("row", "cols", 8, 64)),  # swaps whole fragments in every second row
    ],
)
def test_each_fragment_constrains_the_leading_dimension(text, answer):
    layout = SharedLayout.parse(text, DOCUMENT_TILE)
    requirement = intrinsic("wmma_m16n16k16_f16").requirement("a", layout, 2)
    if isinstance(answer, Access):
        assert requirement == answer
        assert check_load(intrinsic("wmma_m16n16k16_f16"), "a", layout)
    else:
        assert isinstance(requirement, Refusal)
        assert re.search(answer, requirement.reason)


def test_both_accept_pad_8_1():
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
        (
            "mma_m16n8k8_tf32",
            "a",
            "transpose",
            (64, 32),
            "contiguous along m, and ldmatrix only transposes 2-byte elements",
        ),
        (
            "mma_m16n8k8_tf32",
            "b",
            "identity",
            (32, 64),
            "contiguous along n, and ldmatrix only transposes 2-byte elements",
        ),
        ("mma_m16n8k16_f16", "a", "xor", (64, 32), "does not keep elements 0 to 7 of line 1 in sequence"),
        ("mma_m16n8k16_f16", "a", "identity", (24, 16), "fragments of 16x16, which do not divide the tile of 24x16"),
        ("wmma_m16n16k16_f16", "a", "pad(4,1)", (64, 32), "lines of layout pad(4,1) .* are 72 bytes apart"),
        ("wmma_m16n16k16_f16", "b", "swizzle(1,3,3)", (64, 32), "elements 7 and 8 of line 2 are not neighbours"),
        ("wmma_m16n16k8_tf32", "a", "pad(2,1)", (64, 32), "lines of layout pad(2,1) .* are 136 bytes apart"),
    ],
)
def test_unsuitable_layouts_are_rejected_with_a_reason(name, operand, text, shape, reason):
    refused = intrinsic(name).requirement(operand, SharedLayout.parse(text, shape), 4 if "tf32" in name else 2)
    assert isinstance(refused, Refusal)
    assert re.search(reason.replace("(", r"\(").replace(")", r"\)"), refused.reason)
    assert refused.reason.count(". ") == 0


# Elements that the instructions read ---------------------------------------------------------------------------------


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
    """Return each lane's elements of one 8x8 matrix of 16-bit units, as the PTX ISA defines ldmatrix.

    Lane l gets units 2 * (l % 4) + {0, 1} of row l / 4. With .trans the matrix is transposed first. A 4-byte element is
    two adjacent units; two 1-byte elements are one unit.
    """
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
    """Return the registers that ldmatrix fills for one fragment, one matrix per register."""
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
    num_accepted = 0
    for text in sampled_layouts(element_bytes(row)):
        num_accepted += check_load(row, operand, SharedLayout.parse(text, (32, 64) if operand == "b" else (64, 32)))
    assert num_accepted > 3


@given(layouts, st.sampled_from(ROWS), st.sampled_from(["a", "b"]))
def test_accepted_drawn_layouts_load_the_right_elements(layout, row, operand):
    check_load(row, operand, layout)


def brute_force_answer(row, operand, layout):
    """Decide from the addresses alone whether the intrinsic can load every fragment."""
    size = element_bytes(row)
    offsets = layout.offsets()
    rows, cols = row.fragment(operand).shape
    if offsets.shape[0] % rows or offsets.shape[1] % cols:
        return False
    if row.unit == "fma":
        return True
    if row.unit == "mma":
        chunk = 16 // size

        def is_contiguous(lines):
            starts_and_rest = lines.reshape(lines.shape[0], -1, chunk)
            return all(
                g[0] * size % 16 == 0 and list(g) == list(range(g[0], g[0] + chunk))
                for line in starts_and_rest
                for g in line
            )

        along_k, other = (offsets, offsets.T) if operand == "a" else (offsets.T, offsets)
        return is_contiguous(along_k) or (size == 2 and is_contiguous(other))
    fragments = [offsets[r : r + rows, c : c + cols] for r, c in origins(layout, (rows, cols))]
    for lines in (fragments, [f.T for f in fragments]):
        leading = int(lines[0][1, 0] - lines[0][0, 0])
        expected = np.arange(lines[0].shape[0])[:, None] * leading + np.arange(lines[0].shape[1])
        if leading * size % 16 == 0 and all(
            (f - f[0, 0] == expected).all() and f[0, 0] * size % 32 == 0 for f in lines
        ):
            return True
    return False


@given(layouts, st.sampled_from(ROWS), st.sampled_from(["a", "b"]))
def test_legality_equals_a_search_of_the_addresses(layout, row, operand):
    answer = row.requirement(operand, layout, element_bytes(row))
    assert isinstance(answer, Access) == brute_force_answer(row, operand, layout)
    if isinstance(answer, Refusal):
        assert answer.reason
        assert "\n" not in answer.reason


def test_requirements_of_shapes_that_no_row_has():
    # B's fragments of wmma.m32n8k16 are 16 bytes wide, so only every second fragment starts at a multiple of 32 bytes.
    narrow = LeadingDimension().check("b", SharedLayout((16, 16)), 2, (16, 8))
    assert narrow == Refusal(
        "wmma.load needs fragments that start at multiples of 32 bytes, but in layout identity of the 16x16 tile of B "
        "the fragment at (0, 8) starts at byte 16"
    )
    ragged = AlignedRows().check("a", SharedLayout((8, 12)), 2, (8, 12))
    assert isinstance(ragged, Refusal)
    assert ragged.reason.endswith("has lines of 12 elements, which is not a multiple of 8")


def test_a_wrong_element_size_is_rejected():
    layout = SharedLayout((64, 32))
    with pytest.raises(ValueError, match="mma_m16n8k16_f16 reads f16, not elements of 4 bytes"):
        intrinsic("mma_m16n8k16_f16").requirement("a", layout, 4)
