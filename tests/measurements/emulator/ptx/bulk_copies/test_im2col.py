"""TMA in im2col mode agrees with numpy. A convolution reads columns of pixels, and its gradient writes such columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from bulk_kernels import HEAD, load_box, round_to_nearest_tf32, run, store_box
from needs import needs_compiler, needs_nvrtc

import autosched
from autosched.verify.emulate.emulated_launch import EmulatedLaunch
from search_spaces.hardware.dtypes import F32, SCALAR_DTYPES
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import BoundingBox, TensorMap

pytestmark = [needs_compiler, needs_nvrtc]

Array = npt.NDArray[Any]
CHANNELS = 8


def pixels_of(
    x: Array,
    start: tuple[int, ...],
    lower: tuple[int, ...],
    upper: tuple[int, ...],
    strides: tuple[int, ...],
    count: int,
) -> list[tuple[int, ...]]:
    """Return the positions (image, ..., width) of the pixels of a column.

    They are the first ``count`` pixels of the box from ``start``, in row-major order.
    """
    axes = [
        range(low, size + high, step)
        for low, high, size, step in zip(lower, upper, x.shape[1:-1], strides, strict=True)
    ]
    box = [(image, *at) for image in range(start[0], start[0] + count) for at in _product(axes)]
    first = box.index(start)
    return box[first : first + count]


def _product(axes: list[range]) -> list[tuple[int, ...]]:
    if not axes:
        return [()]
    return [(k, *tail) for k in axes[0] for tail in _product(axes[1:])]


def load(
    x: Array,
    start: tuple[int, ...],
    offsets: tuple[int, ...],
    im2col: autosched.Im2col,
    swizzle: Literal["NONE", "64B"] = "NONE",
    c: int = 0,
) -> EmulatedLaunch:
    size = im2col.pixels * im2col.channels * x.itemsize
    coordinates = (c, *start[::-1])
    source = (
        f'{HEAD}\nextern "C" __global__ void k(const __grid_constant__ Map map, unsigned char* out) '
        f"{{{load_box(size, coordinates, offsets[::-1])}}}"
    )
    of = autosched.TensorMapOf(x, im2col=im2col, swizzle=swizzle)
    return autosched.emulate(
        source, kernel="k", arguments=(of, np.zeros(size, np.uint8)), outputs=(1,), grid=1, block=128
    )


def column(x: Array, positions: list[tuple[int, ...]], offsets: tuple[int, ...], channels: int, c: int = 0) -> Array:
    rows = np.zeros((len(positions), channels), x.dtype)
    for row, (image, *at) in zip(rows, positions, strict=True):
        where = (image, *(p + o for p, o in zip(at, offsets, strict=True)))
        if all(0 <= p < n for p, n in zip(where, x.shape, strict=False)):
            held = x[where][c : c + channels]
            row[: len(held)] = held
    return rows


SHAPES = [
    # shape, lower, upper, strides, offsets, start
    ((2, 9, CHANNELS), (-1,), (-1,), (1,), (2,), (0, 4)),
    ((2, 5, 6, CHANNELS), (-1, -1), (-1, -1), (1, 1), (0, 2), (0, -1, -1)),
    ((3, 5, 6, CHANNELS), (-1, -2), (0, -1), (2, 3), (1, 1), (1, 1, 1)),
    ((2, 4, 3, 5, CHANNELS), (-1, 0, -1), (-1, 0, -1), (1, 1, 1), (2, 0, 1), (0, 1, 2, 3)),
]


@pytest.mark.parametrize(("shape", "lower", "upper", "strides", "offsets", "start"), SHAPES)
def test_columns_of_pixels(
    shape: tuple[int, ...], lower: tuple[int, ...], upper: tuple[int, ...], strides: tuple[int, ...],
    offsets: tuple[int, ...], start: tuple[int, ...],
) -> None:  # fmt: skip
    x = np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
    im2col = autosched.Im2col(lower, upper, 40, CHANNELS, strides)
    done = load(x, start, offsets, im2col)
    assert done.ok, (done.reason, done.findings)
    expected = column(x, pixels_of(x, start, lower, upper, strides, 40), offsets, CHANNELS)
    assert not expected.all() and expected.any()  # some pixels are outside the image
    np.testing.assert_array_equal(np.asarray(done.arrays[1]).view(np.float32).reshape(expected.shape), expected)


def test_columns_are_swizzled_as_boxes_are() -> None:
    x = np.arange(1, 1 + 2 * 6 * 6 * 16, dtype=np.float32).reshape(2, 6, 6, 16)
    done = load(x, (0, 0, 0), (1, 1), autosched.Im2col((0, 0), (-2, -2), 16, 16), swizzle="64B", c=4)
    assert done.ok, (done.reason, done.findings)
    expected = column(x, pixels_of(x, (0, 0, 0), (0, 0), (-2, -2), (1, 1), 16), (1, 1), 16, c=4)
    at = np.arange(expected.nbytes)
    actual = np.asarray(done.arrays[1])[at ^ ((at >> 7 & 3) << 4)]
    np.testing.assert_array_equal(actual.view(np.float32).reshape(expected.shape), expected)


def test_columns_are_stored_at_their_im2col_positions() -> None:
    out = np.zeros((2, 4, 5, CHANNELS), np.float32)
    im2col = autosched.Im2col((0, 0), (0, -1), 26, CHANNELS)
    values = np.arange(1, 1 + 26 * CHANNELS, dtype=np.float32).reshape(26, CHANNELS)
    source = (
        f'{HEAD}\nextern "C" __global__ void k(const __grid_constant__ Map map, const unsigned char* in) '
        f"{{{store_box(values.nbytes, (0, 2, 1, 0), 'im2col_no_offs')}}}"
    )

    def stored(im2col: autosched.Im2col) -> EmulatedLaunch:
        of = autosched.TensorMapOf(np.zeros_like(out), im2col=im2col)
        return autosched.emulate(source, kernel="k", arguments=(of, values), grid=1, block=128)

    done = stored(im2col)
    assert done.ok, (done.reason, done.findings)
    expected = np.zeros_like(out)
    for (image, *at), row in zip(pixels_of(out, (0, 1, 2), (0, 0), (0, -1), (1, 1), 26), values, strict=True):
        if all(0 <= p < n for p, n in zip((image, *at), out.shape, strict=False)):
            expected[(image, *at)] = row
    np.testing.assert_array_equal(done.arrays[0], expected)
    # On an H100, a store to pixels before the start of the tensor causes an illegal instruction error.
    done = stored(autosched.Im2col((-1, 0), (0, -1), 26, CHANNELS))
    assert "invalid_argument" in {f.kind for f in done.findings}


@pytest.mark.parametrize(("start", "good"), [((0, -1, 2), True), ((0, -2, 0), False), ((1, 0, 6), False)])
def test_a_column_begins_in_its_bounding_box(start: tuple[int, ...], good: bool) -> None:
    """On an H100, a start outside of the bounding box gives an illegal instruction."""
    x = np.ones((2, 5, 6, CHANNELS), np.float32)
    done = load(x, start, (0, 0), autosched.Im2col((-1, -1), (0, 0), 16, CHANNELS))
    assert done.ok if good else {f.kind for f in done.findings} >= {"invalid_argument"}


def test_a_map_of_the_other_mode_is_found() -> None:
    x = np.zeros((2, 5, 6, CHANNELS), np.float32)
    source = (
        f'{HEAD}\nextern "C" __global__ void k(const __grid_constant__ Map map, unsigned char* out) '
        f"{{{load_box(1024, (0, 0, 0, 0), (0, 0))}}}"
    )
    of = autosched.TensorMapOf(x, box=(1, 1, 4, CHANNELS))
    done = autosched.emulate(source, kernel="k", arguments=(of, np.zeros(1024, np.uint8)), grid=1, block=128)
    assert "invalid_argument" in {f.kind for f in done.findings}


@pytest.mark.parametrize(
    ("im2col", "message"),
    [
        (autosched.Im2col((-200, 0), (0, 0), 8, 8), "corners must be -128 to 127"),
        (autosched.Im2col((6, 0), (0, 0), 8, 8), "the bounding box is empty"),
        (autosched.Im2col((0,), (0,), 8, 8), "im2col needs 3 to 5 dimensions"),
        (autosched.Im2col((0, 0), (0, 0), 2000, 8), "1 to 1024 pixels"),
    ],
)
def test_maps_that_no_driver_makes_are_rejected(im2col: autosched.Im2col, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load(np.zeros((2, 5, 6, CHANNELS), np.float32), (0, 0, 0), (0, 0), im2col)


def test_columns_of_pixels_round_to_tf32() -> None:
    shape, count = (2, 9, CHANNELS), 6
    x = np.float32(1.1) * np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
    plain = TensorMap.dense("map", Operand("x", "input", F32, shape), (1, 1, CHANNELS))
    described = replace(plain, element="TFLOAT32", box=(CHANNELS, count, 1), im2col=BoundingBox((-1,), (-1,)))
    size = count * CHANNELS * x.itemsize
    done = run(
        load_box(size, (0, 4, 0), (0,)),
        "const __grid_constant__ Map map, unsigned char* out",
        described,
        Operand("out", "output", SCALAR_DTYPES["u8"], (size,)),
        inputs={"x": x},
    )
    assert done.ok, done.reason
    actual = done.outputs["out"].view(np.float32).reshape(count, CHANNELS)
    expected = round_to_nearest_tf32(column(x, pixels_of(x, (0, 4), (-1,), (-1,), (1,), count), (0,), CHANNELS))
    assert not np.array_equal(expected[0], x[0, 4])
    np.testing.assert_array_equal(actual, expected)
