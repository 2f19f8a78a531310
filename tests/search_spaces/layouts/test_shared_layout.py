"""Properties of SharedLayout equal those found by enumerating the tile."""

import dataclasses
import itertools
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.layouts.shared_layout import (
    Pad,
    SharedLayout,
    Swizzle,
    facts,
    hardware_swizzle,
    sampled_layouts,
    xor,
)
from search_spaces.layouts.text import LayoutSyntaxError

SHAPES = [(16, 16), (128, 64), (32, 8), (24, 40), (96, 48), (1, 1), (8, 1), (1, 16), (3, 5), (64, 2), (2, 256)]

pads = st.builds(Pad, st.integers(1, 12), st.integers(1, 5))
swizzles = st.integers(1, 3).flatmap(lambda b: st.builds(Swizzle, st.just(b), st.integers(0, 4), st.integers(b, 6)))
sizes = st.one_of(st.sampled_from([1, 2, 4, 8, 16, 32, 64]), st.integers(1, 48))
layouts = st.builds(
    SharedLayout,
    st.tuples(sizes, sizes),
    st.booleans(),
    st.lists(st.one_of(pads, swizzles), max_size=3).map(tuple),
)


def enumerated(element_bytes=2, shapes=SHAPES):
    for shape, text in itertools.product(shapes, sampled_layouts(element_bytes)):
        try:
            yield SharedLayout.parse(text, shape)
        except ValueError as error:
            assert "xor needs a line length that is a power of two" in str(error)


def offset(layout, row, col):
    """Return an element's offset, computed step by step from the definition of SharedLayout."""
    x = col * layout.shape[0] + row if layout.transposed else row * layout.shape[1] + col
    line = layout.shape[0] if layout.transposed else layout.shape[1]
    for step in layout.steps:
        if isinstance(step, Pad):
            x = x + x // line // step.lines * step.elements
        else:
            x = x ^ ((x >> step.shift) & (((1 << step.bits) - 1) << step.base))
    return x


def table(layout):
    rows, cols = layout.shape
    return np.array([[offset(layout, r, c) for c in range(cols)] for r in range(rows)])


def brute_contiguity(offsets):
    """Return the contiguity along the last axis, by brute force."""
    best, width = 1, 2
    while offsets.shape[1] % width == 0:
        groups = offsets.reshape(-1, width)
        if not ((groups[:, 0] % width == 0).all() and (groups == groups[:, :1] + np.arange(width)).all()):
            break
        best, width = width, width * 2
    return best


def check_against_enumeration(layout):
    offsets = table(layout)
    np.testing.assert_array_equal(layout.offsets(), offsets)
    known = facts(layout)
    assert known.size == layout.size == offsets.max() + 1
    assert known.injective == layout.is_injective == (len(np.unique(offsets)) == offsets.size)
    assert known.inside == layout.inside == (offsets.max() < layout.extent)
    assert known.contiguity_cols == layout.contiguity("cols") == brute_contiguity(offsets)
    assert known.contiguity_rows == layout.contiguity("rows") == brute_contiguity(offsets.T.copy())
    assert known.line_axis == ("rows" if layout.transposed else "cols")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_facts_of_sampled_layouts_equal_enumeration(shape):
    for layout in enumerated(shapes=[shape]):
        check_against_enumeration(layout)


@given(layouts)
def test_facts_of_drawn_layouts_equal_enumeration(layout):
    check_against_enumeration(layout)


@given(layouts)
def test_every_composition_of_steps_is_injective_and_has_an_inverse(layout):
    row, col = layout.inverse()
    assert row.shape == col.shape == (layout.size,)
    held = row >= 0
    assert held.sum() == layout.shape[0] * layout.shape[1]
    np.testing.assert_array_equal(held, col >= 0)
    np.testing.assert_array_equal(layout(row[held], col[held]), np.flatnonzero(held))


@given(layouts, st.one_of(pads, swizzles))
def test_then_is_composition(layout, step):
    after = step.apply(layout.offsets().ravel(), layout.line).reshape(layout.shape)
    np.testing.assert_array_equal(layout.then(step).offsets(), after)


@given(layouts)
def test_text_round_trip(layout):
    assert SharedLayout.parse(layout.text, layout.shape) == layout


def test_sampled_texts_are_canonical_but_for_xor():
    for element_bytes in (2, 4):
        texts = sampled_layouts(element_bytes)
        assert 40 <= len(texts) <= 60
        assert len(set(texts)) == len(texts)
        assert texts[0] == "identity"
        for text in texts:
            layout = SharedLayout.parse(text, (128, 64))
            assert layout.text == text.replace("xor", "swizzle(7,0,7)" if layout.transposed else "swizzle(6,0,6)")
            assert layout.why_illegal() is None


def test_the_three_layouts_of_the_document():
    pad = SharedLayout.parse("pad(4,2)", (128, 64))
    i, j = np.indices((128, 64))
    np.testing.assert_array_equal(pad.offsets(), i * 64 + j + i // 2 * 4)
    np.testing.assert_array_equal(SharedLayout.parse("transpose", (128, 64)).offsets(), j * 128 + i)
    np.testing.assert_array_equal(SharedLayout.parse("xor", (64, 64)).offsets(), i[:64] * 64 + (i[:64] ^ j[:64]))


def test_xor_is_a_swizzle_of_the_whole_line():
    assert SharedLayout.parse("xor", (128, 64)) == SharedLayout((128, 64), steps=(Swizzle(6, 0, 6),))
    assert SharedLayout.parse("transpose+xor", (128, 64)).steps == (Swizzle(7, 0, 7),)
    with pytest.raises(ValueError, match=r"xor needs a line length that is a power of two .*, not 48 elements"):
        SharedLayout.parse("xor", (64, 48))
    with pytest.raises(ValueError, match="power of two"):
        xor(1)


def test_hardware_swizzles_agree_with_cute():
    # CuTe, mma_sm90_desc / copy_sm90_tma: Swizzle<1,4,3>, <2,4,3>, <3,4,3> on byte addresses.
    for bytes_, bits in ((32, 1), (64, 2), (128, 3)):
        assert hardware_swizzle(bytes_, 1) == Swizzle(bits, 4, 3)
        for element_bytes in (1, 2, 4):
            step = hardware_swizzle(bytes_, element_bytes)
            x = np.arange(4096 // element_bytes, dtype=np.int32)
            in_bytes = Swizzle(bits, 4, 3).apply(x * np.int32(element_bytes), 1)
            np.testing.assert_array_equal(step.apply(x, 1) * element_bytes, in_bytes)


def test_the_128_byte_swizzle_spreads_each_column_of_chunks_over_all_positions():
    layout = SharedLayout((8, 64), steps=(hardware_swizzle(128, 2),))
    chunk = layout.offsets()[:, ::8] // 8
    for column in range(8):
        assert sorted(chunk[:, column] % 8) == list(range(8))


def test_equal_functions_of_different_spelling():
    def parse(text):
        return SharedLayout.parse(text, (128, 64))

    def same(left, right):
        return np.array_equal(left.offsets(), right.offsets())

    assert same(parse("xor"), parse("swizzle(3,0,6)+swizzle(3,3,6)"))
    # the second pad applies to the offsets that the first pad has increased
    assert not same(parse("pad(8,2)"), parse("pad(4,2)+pad(4,2)"))
    assert same(parse("identity"), parse("pad(8,128)"))
    assert not same(parse("identity"), parse("transpose"))
    assert same(SharedLayout((1, 64)), SharedLayout((1, 64), transposed=True))


def test_a_swizzle_can_leave_the_tile():
    layout = SharedLayout.parse("swizzle(3,3,3)", (9, 8))
    assert layout.is_injective
    assert not layout.inside
    assert layout.why_illegal() == (
        "layout swizzle(3,3,3) exceeds the 9x8 tile: the largest offset is 79, but the tile with its pads ends at 72"
    )
    assert SharedLayout.parse("swizzle(3,3,3)", (8, 8)).why_illegal() is None


def test_extent_counts_the_last_pad_and_size_does_not():
    layout = SharedLayout.parse("pad(8,2)", (6, 64))
    assert (layout.size, layout.extent) == (6 * 64 + 2 * 8, 6 * 64 + 3 * 8)


def test_calls_take_scalars_and_arrays_and_reject_positions_outside():
    layout = SharedLayout.parse("pad(8,1)", (16, 32))
    assert layout(3, 5) == 3 * 40 + 5
    assert isinstance(layout(3, 5), int)
    np.testing.assert_array_equal(layout(np.arange(16)[:, None], np.arange(32)), layout.offsets())
    for row, col, name in ((16, 0, "row"), (-1, 0, "row"), (0, 32, "col"), (0, -1, "col")):
        with pytest.raises(ValueError, match=f"{name} is outside of the tile of 16 x 32"):
            layout(row, col)
    with pytest.raises(ValueError, match="read-only"):
        layout.offsets()[0, 0] = 1


def test_layouts_are_values():
    left, right = (SharedLayout.parse("pad(8,1)+swizzle(3,3,3)", (16, 32)) for _ in range(2))
    assert left == right
    assert len({left, right}) == 1
    with pytest.raises(AttributeError):
        left.transposed = True


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("", 0, "identity, transpose, xor"),
        ("pads(1,2)", 0, "identity, transpose"),
        ("pad", 3, "'('"),
        ("pad(8 1)", 6, "',' or ')'"),
        ("pad(x,1)", 4, "an integer"),
        ("pad(-8,1)", 3, "elements must be a whole number from 1"),
        ("pad(8,1", 7, "',' or ')'"),
        ("pad(8,1,2)", 3, "pad(elements,lines)"),
        ("pad(0,1)", 3, "elements must be a whole number from 1"),
        ("swizzle(3,3)", 7, "swizzle(bits,base,shift)"),
        ("swizzle(3,3,2)", 7, "shift must be at least bits"),
        ("pad(8,1)swizzle(3,3,3)", 8, "'+'"),
        ("pad(8,1)+", 9, "xor (before other steps), pad(m,n)"),
        ("pad(8,1)+transpose", 9, "pad(m,n) or swizzle(bits,base,shift)"),
        ("pad(8,1)+xor", 9, "xor (before other steps)"),
        ("transpose+identity", 10, "pad(m,n) or swizzle(bits,base,shift)"),
        ("identity+pad(8,1)", 8, "the end of the text"),
        ("identity transpose", 9, "the end of the text"),
        ("Pad(8,1)", 0, "identity"),
    ],
)
def test_malformed_text_is_reported_with_position_and_expectation(text, position, expected):
    with pytest.raises(LayoutSyntaxError) as caught:
        SharedLayout.parse(text, (16, 16))
    assert caught.value.position == position
    assert expected in caught.value.expected
    assert str(caught.value).startswith(f"at position {position}: expected {caught.value.expected}, found ")


def test_whitespace_is_ignored():
    assert SharedLayout.parse(" transpose + pad( 8 , 1 ) ", (4, 4)).text == "transpose+pad(8,1)"


@given(st.text(alphabet="pad(8,1)+swizletrnox ", max_size=24))
def test_any_text_parses_or_points_into_itself(text):
    try:
        layout = SharedLayout.parse(text, (16, 16))
    except LayoutSyntaxError as error:
        assert 0 <= error.position <= len(text)
    else:
        assert SharedLayout.parse(layout.text, (16, 16)) == layout


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Pad(0, 1), "pad: elements must be a whole number from 1"),
        (lambda: Pad(8, -1), "pad: lines must be"),
        (lambda: Pad(True, 1), "pad: elements"),
        (lambda: Swizzle(0, 3, 3), "swizzle: bits"),
        (lambda: Swizzle(1, -1, 3), "swizzle: base"),
        (lambda: Swizzle(1, 3, 0), "swizzle: shift"),
        (lambda: Swizzle(16, 16, 16), "swizzle: base \\+ bits must be at most 31"),
        (lambda: Swizzle(3, 3, 2), "shift must be at least bits"),
        (lambda: SharedLayout((0, 4)), "shape rows"),
        (lambda: SharedLayout((4, 1.5)), "shape cols"),
        (lambda: SharedLayout([4, 4]), "shape must be a tuple"),
        (lambda: SharedLayout((4, 4), steps=("xor",)), "steps must be a tuple of Pad and Swizzle"),
        (lambda: SharedLayout((2**20, 2**10)), "at most"),
        (lambda: hardware_swizzle(96, 2), "32, 64 or 128 bytes"),
        (lambda: hardware_swizzle(64, 3), "element_bytes"),
        (lambda: sampled_layouts(3), "bytes"),
    ],
)
def test_invalid_layouts_are_rejected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "text", ["identity", "pad(3,2)", "pad(5,6)+swizzle(1,3,4)", "transpose+swizzle(3,2,5)+pad(2,1)"]
)
def test_a_layout_repeats_itself_every_period(text):
    line, many = 24, 2048
    layout = SharedLayout.parse(text, (line, many) if text.startswith("transpose") else (many, line))
    q, d = layout.period
    assert q < many
    offsets = layout.offsets().T if layout.transposed else layout.offsets()
    assert np.array_equal(offsets[q:], offsets[:-q] + d)
    part = layout.first_lines(7)
    assert np.array_equal(part.offsets().T if part.transposed else part.offsets(), offsets[:7])


@pytest.mark.parametrize(
    ("shape", "step", "function"),
    [
        ((4, 4), Swizzle(1, 1, 16), lambda x: x & np.int32(~2)),  # two offsets of one period are equal
        ((16, 4), Swizzle(1, 1, 1), lambda x: x + 4 * (x // 4 & 1)),  # offsets of adjacent periods are equal
    ],
)
def test_a_non_injective_step_is_detected(shape, step, function):
    # All existing steps are injective, so the test defines a step that is not. The check must work for any step.
    class MadeUp(Swizzle):  # a new class, so that caches distinguish it from Swizzle
        def apply(self, offset, line):
            return function(offset)

    layout = SharedLayout(shape, steps=(MadeUp(*dataclasses.astuple(step)),))
    assert not layout.is_injective
    reason = f"maps two elements of the {shape[0]}x{shape[1]} tile to one offset"
    assert reason in layout.why_illegal()
    with pytest.raises(ValueError, match="has no inverse"):
        layout.inverse()


def test_facts_of_thousands_of_tiles_are_fast():
    tiles = itertools.product((16, 32, 64, 96, 128, 192, 256), (16, 24, 32, 48, 64, 80, 96, 128))
    layouts = list(enumerated(shapes=list(tiles)))
    assert len(layouts) > 2500
    facts.cache_clear()
    start = time.process_time()
    for layout in layouts:
        facts(layout)
    assert time.process_time() - start < 2.0  # takes 0.15 s on an idle core
