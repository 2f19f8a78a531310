"""Triton kernels of test_sound_kernels: what public test suites do, reduced."""

# mypy: ignore-errors
import triton
import triton.language as tl

try:
    from triton.tools.ragged_tma import load_ragged, store_ragged
except ImportError:
    load_ragged = store_ragged = None


@triton.jit
def column_sums(x, w, y, K: tl.constexpr, D: tl.constexpr):
    k, d = tl.arange(0, K), tl.arange(0, D)
    products = tl.load(x + k[:, None] * D + d[None, :]) * tl.load(w + k)[:, None]
    tl.store(y + d, tl.sum(products, axis=0))


@triton.jit
def sum_of_squares(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0)
    tl.store(y, tl.sum(v * v))


@triton.jit
def squares_to_one_place(x, y, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(y + i * 0, v * v)


@triton.jit
def load_row(d, o, B: tl.constexpr):
    tl.store(o + tl.arange(0, B)[None, :], d.load([0, 0]))


@triton.jit
def flatten_by_descriptors(x, y, M: tl.constexpr, N: tl.constexpr):
    a = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[M, N])
    b = tl.make_tensor_descriptor(y, shape=[M * N], strides=[1], block_shape=[M * N])
    b.store([0], a.load([0, 0]).reshape(b.block_shape))


@triton.jit
def copy_ragged(x, y, first, size):
    store_ragged(y, first, size, [0, 0], load_ragged(x, first, size, [0, 0]))
