"""Triton kernels of test_sound_kernels: small versions of kernels in public test suites."""

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


@triton.jit
def store_if_larger(x):
    if tl.load(x) > 42:
        tl.store(x, 42)


@triton.jit
def store_more_if_larger(x, y, B: tl.constexpr):
    if tl.load(x) > 42:
        tl.store(x, 42)
        tl.store(y + tl.arange(0, B), 1)


@triton.jit
def store_back(x, n):
    tl.store(x, tl.load(x, mask=tl.program_id(0) < n))


@triton.jit
def increment(x):
    tl.store(x, tl.load(x) + 1)


@triton.jit
def low_precision_sum(x, y, B: tl.constexpr, NARROW: tl.constexpr):
    v = tl.load(x + tl.arange(0, B)).to(NARROW)
    tl.store(y, tl.sum(v * v).to(tl.float32))


@triton.jit
def fp8_matmul(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, CHUNK: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (i + k)[None, :])
        y = tl.load(b + (i + k)[:, None] * BN + n[None, :])
        acc = tl.dot(x, y, acc, max_num_imprecise_acc=CHUNK)
    tl.store(c + m[:, None] * BN + n[None, :], acc)
