"""Tensor maps of interleaved layouts (NC/8HWC8 and NC/16HWC16) agree with numpy and with H100 results."""

from __future__ import annotations

import itertools
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from bulk_kernels import HEAD, kinds, load_box, run, store_box
from needs import needs_compiler, needs_nvrtc

import autosched
from measurements.emulator import FindingKind
from search_spaces.hardware.dtypes import SCALAR_DTYPES
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import TensorMap

pytestmark = [needs_compiler, needs_nvrtc]

Array = npt.NDArray[Any]
Layout = Literal["16B", "32B"]
Swizzle = Literal["NONE", "32B", "64B", "128B"]
SLICE_BYTES: dict[Layout, int] = {"16B": 16, "32B": 32}
PIECES: dict[Swizzle, int] = {"NONE": 1, "32B": 2, "64B": 4, "128B": 8}
U8, U16 = SCALAR_DTYPES["u8"], SCALAR_DTYPES["u16"]


def kernel(bytes_: int, position: tuple[int, ...], offsets: tuple[int, ...] | None = None) -> str:
    """Return a kernel that loads a box. ``position`` and ``offsets`` have the slowest dimension first."""
    return load_box(bytes_, position[::-1], None if offsets is None else offsets[::-1], out_bytes=padded(bytes_))


def padded(bytes_: int) -> int:
    """Round a number of bytes up to a multiple of the swizzle pattern's size."""
    return -(-bytes_ // 1024) * 1024


def swizzled(slices: Array, swizzle: Swizzle) -> Array:
    """Return the bytes of shared memory that hold consecutive slices under a swizzle."""
    flat = np.ascontiguousarray(slices).view(np.uint8).reshape(-1)
    byte = np.arange(flat.size)
    image = np.zeros(padded(flat.size), np.uint8)
    image[byte ^ ((byte >> 7) % PIECES[swizzle] << 4)] = flat
    return image


def numbered(shape: tuple[int, ...], layout: Layout, dtype: str = "u2") -> Array:
    channels = SLICE_BYTES[layout] // np.dtype(dtype).itemsize
    return np.arange(1, 1 + np.prod(shape) * channels).astype(dtype).reshape(*shape, channels)


def inside(position: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return all(0 <= at < size for at, size in zip(position, shape, strict=True))


def box_slices(x: Array, box: tuple[int, ...], position: tuple[int, ...]) -> Array:
    """Return the slices that are copied when the box is loaded. The box has size one in the second dimension."""
    counts = (box[0], 1, *box[2:])
    out = np.zeros((*counts, x.shape[-1]), x.dtype)
    for at in itertools.product(*map(range, counts)):
        source = tuple(first + k for first, k in zip(position, at, strict=True))
        if inside(source, x.shape[:-1]):
            out[at] = x[source]
    return out


BOXES: list[tuple[Layout, Swizzle, str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
    # layout, swizzle, elements, (images, slices, ..., width), box, place
    ("16B", "NONE", "u2", (2, 3, 16), (2, 1, 8), (0, 1, 3)),
    ("16B", "128B", "u2", (3, 4, 5, 20), (2, 1, 3, 16), (1, 3, -1, 9)),
    ("16B", "32B", "f4", (2, 2, 4, 4, 12), (1, 1, 2, 3, 8), (1, 0, 2, -1, -3)),
    ("32B", "32B", "u2", (2, 3, 6, 16), (2, 1, 2, 8), (1, 2, 4, 1)),
    ("32B", "NONE", "u1", (1, 2, 3, 40), (1, 2, 2, 16), (0, 1, 0, 30)),
    ("16B", "64B", "u2", (2, 2, 8), (2, 1, 8), (0, 2, 0)),  # a slice outside the tensor
]


@pytest.mark.parametrize(("layout", "swizzle", "dtype", "shape", "box", "position"), BOXES)
def test_boxes_of_one_slice_are_loaded(
    layout: Layout,
    swizzle: Swizzle,
    dtype: str,
    shape: tuple[int, ...],
    box: tuple[int, ...],
    position: tuple[int, ...],
) -> None:
    x = numbered(shape, layout, dtype)
    expected = box_slices(x, box, position)
    source = (
        f'{HEAD}\nextern "C" __global__ void k(const __grid_constant__ Map map, unsigned char* out) '
        f"{{{kernel(expected.nbytes, position)}}}"
    )
    of = autosched.TensorMapOf(x, box=box, swizzle=swizzle, interleave=layout)
    out = np.zeros(padded(expected.nbytes), np.uint8)
    done = autosched.emulate(source, kernel="k", arguments=(of, out), outputs=(1,), grid=1, block=128)
    assert done.ok, (done.reason, done.findings)
    np.testing.assert_array_equal(done.arrays[1], swizzled(expected, swizzle))


def test_boxes_are_stored_at_their_interleaved_positions() -> None:
    out = numbered((2, 3, 4, 10), "16B")
    box, position = (2, 1, 2, 8), (0, 1, 1, 5)
    values = np.arange(1, 1 + 2 * 2 * 8 * 8, dtype=np.uint16).reshape(2, 1, 2, 8, 8) + 5000
    expected = out.copy()
    expected[0:2, 1:2, 1:3, 5:10] = values[:, :, :, :5]
    source = (
        f'{HEAD}\nextern "C" __global__ void k(const __grid_constant__ Map map, const unsigned char* in) '
        f"{{{store_box(values.nbytes, position[::-1])}}}"
    )
    of = autosched.TensorMapOf(out, box=box, interleave="16B")
    done = autosched.emulate(source, kernel="k", arguments=(of, values), grid=1, block=128)
    assert done.ok, (done.reason, done.findings)
    np.testing.assert_array_equal(done.arrays[0], expected)


def test_columns_of_pixels() -> None:
    """In im2col mode, a load copies one slice (of the second dimension) for each pixel."""
    x = numbered((2, 3, 5, 6), "16B")
    im2col = autosched.Im2col((-1, -1), (-1, 0), 40, 8, (1, 2))
    start, offsets = (0, 2, -1, 1), (1, 2)
    box = [(n, h, w) for n in range(3) for h in range(-1, 4) for w in range(-1, 6, 2)]
    pixels = box[box.index((0, -1, 1)) :][:40]
    expected = np.zeros((40, 8), np.uint16)
    for row, (n, h, w) in zip(expected, pixels, strict=True):
        at = (n, 2, h + offsets[0], w + offsets[1])
        if inside(at, x.shape[:-1]):
            row[:] = x[at]
    source = (
        f'{HEAD}\nextern "C" __global__ void k(const __grid_constant__ Map map, unsigned char* out) '
        f"{{{kernel(expected.nbytes, start, offsets)}}}"
    )
    of = autosched.TensorMapOf(x, im2col=im2col, interleave="16B")
    out = np.zeros(1024, np.uint8)
    done = autosched.emulate(source, kernel="k", arguments=(of, out), outputs=(1,), grid=1, block=128)
    assert done.ok, (done.reason, done.findings)
    np.testing.assert_array_equal(done.arrays[1], swizzled(expected, "NONE"))


# H100 results (driver 580.159.04) for 16-bit elements whose values are their indices. Each pair (first element, length)
# is a run of consecutive elements; a first element of 0 means elements outside the tensor. Sizes, strides, boxes and
# coordinates have the fastest dimension first.
SEEN: list[tuple[Layout, tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...], list[tuple[int, int]]]] = [
    (
        *("16B", (16, 4, 3, 2), (64, 256, 1024), (16, 4, 3, 2), (8, 1, 1, 1)),
        [(736, 64), (0, 64), (768, 64), (0, 64), (800, 64), (0, 704)],
    ),
    (
        *("16B", (32, 4, 4, 3, 2), (256, 2048, 8192, 32768), (8, 4, 2, 2, 2), (1, 3, 2, 1, 1)),
        [(22920, 64), (0, 192), (23944, 64), (0, 704)],
    ),
    (*("16B", (32, 8, 4), (1024, 16384), (8, 4, 2), (3, 7, 3)), [(28184, 64), (0, 64)]),
    (
        *("32B", (16, 4, 3, 2), (64, 256, 1024), (16, 4, 3, 2), (8, 1, 1, 1)),
        [(800, 128), (0, 128), (832, 128), (0, 128), (864, 128), (0, 1408)],
    ),
]


@pytest.mark.parametrize(("layout", "sizes", "strides", "box", "position", "stretches"), SEEN)
def test_interleaved_loads_agree_with_an_h100(
    layout: Layout, sizes: tuple[int, ...], strides: tuple[int, ...], box: tuple[int, ...], position: tuple[int, ...],
    stretches: list[tuple[int, int]],
) -> None:  # fmt: skip
    """The box covers the whole second dimension, but the load copies only one slice of this dimension."""
    x = Operand("x", "input", U16, (1 << 16,))
    map_ = TensorMap("map", x, "UINT16", sizes, strides, box, (1,) * len(sizes), layout)
    expected = np.concatenate([np.arange(first, first + n) if first else np.zeros(n) for first, n in stretches])
    image = np.ascontiguousarray(expected.astype(np.uint16)).view(np.uint8)
    out = Operand("out", "output", U8, (padded(image.size),))
    inputs = {"x": np.arange(1 << 16, dtype=np.uint16)}
    body = kernel(image.size, position[::-1])
    done = run(body, "const __grid_constant__ Map map, unsigned char* out", map_, out, inputs=inputs)
    assert done.ok, done.reason
    np.testing.assert_array_equal(done.outputs["out"][: image.size], image)


def test_waiting_for_the_bytes_of_the_whole_box_never_ends() -> None:
    """Only one slice arrives, so a barrier that expects the bytes of the whole box waits forever."""
    x = Operand("x", "input", U16, (2, 4, 16, 8))
    map_ = TensorMap.interleaved("map", x, (2, 2, 8), "16B")
    body = kernel(2 * 2 * 8 * 16, (0, 0, 0))
    inputs = {"x": np.zeros(x.shape, np.uint16)}
    out = Operand("out", "output", U8, (1024,))
    done = run(body, "const __grid_constant__ Map map, unsigned char* out", map_, out, inputs=inputs)
    assert FindingKind.BARRIER_NOT_REACHED in kinds(done)


@pytest.mark.parametrize(
    ("shape", "layout", "why"),
    [
        ((2, 2, 8, 4), "16B", "needs a last axis of 16 bytes, not 4 elements of 2"),
        ((2, 8, 8), "16B", "an interleaved layout needs 3 to 5 dimensions"),
        ((8,), "16B", "an interleaved layout needs 3 to 5 dimensions"),
        ((), "16B", "an interleaved layout needs 3 to 5 dimensions"),
        ((2,) * 6 + (8,), "16B", "needs 1 to 5 dimensions, not 6"),
        ((2, 2, 8, 8), "64B", "interleave must be one of NONE, 16B, 32B, not '64B'"),
    ],
)
def test_unsupported_interleaved_layouts_are_rejected(shape: tuple[int, ...], layout: Layout, why: str) -> None:
    x = np.zeros(shape, np.uint16)
    of = autosched.TensorMapOf(x, box=(1,) * (len(shape) - 2) + (8,), interleave=layout)
    with pytest.raises(ValueError, match=why):
        autosched.emulate(
            f'{HEAD}\nextern "C" __global__ void k(const __grid_constant__ Map map) {{}}',
            kernel="k", arguments=(of,), grid=1, block=32,
        )  # fmt: skip
