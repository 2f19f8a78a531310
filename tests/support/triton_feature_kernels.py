"""Small Triton kernels for test_features, one for each feature of the language."""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def elementwise(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a, b = tl.load(x + i, mask=i < n, other=1), tl.load(y + i, mask=i < n, other=1)
    tl.store(o + i, tl.where(a > b, a * b - a, a / (tl.abs(b) + 1)), mask=i < n)


@triton.jit
def functions(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o + i, tl.exp(v) + tl.log(v + 1) + tl.sin(v) * tl.cos(v) + tl.sqrt(v) + tl.rsqrt(v + 1) + tl.sigmoid(v))


@triton.jit
def integers(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(o + i, (a // b) + (a % b) * 3 + ((a << 2) ^ (b >> 1)) + (a & b) - (a | b) + tl.minimum(a, b))


@triton.jit
def reductions(x, o, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    v = tl.load(x + m[:, None] * N + n[None, :])
    total = tl.sum(v, axis=1) + tl.max(v, axis=1) - tl.min(v, axis=1) + tl.argmax(v, axis=1)
    tl.store(o + m, total)
    tl.store(o + M + n, tl.sum(v, axis=0))


@triton.jit
def _add(a, b):
    return a + b


@triton.jit
def scans(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o + i, tl.cumsum(v, axis=0))
    tl.store(o + B + i, tl.associative_scan(v, 0, _add, reverse=True))


@triton.jit
def shapes(x, o, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    v = tl.load(x + m[:, None] * N + n[None, :])
    a, b = tl.split(tl.reshape(tl.trans(v), (N, M // 2, 2)))
    joined = tl.reshape(tl.permute(tl.join(b, a), (0, 2, 1)), (N, M))
    tl.store(o + n[:, None] * M + m[None, :], joined)


@triton.jit
def sorted_and_counted(x, o, counts, B: tl.constexpr, BINS: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o + i, tl.sort(v))
    tl.store(counts + tl.arange(0, BINS), tl.histogram(v, BINS))


@triton.jit
def gathered(x, index, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.gather(tl.load(x + i), tl.load(index + i), axis=0))


@triton.jit
def product(a, b, c, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr, HOW: tl.constexpr, TYPE: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), dtype=TYPE)
    for j in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + (j + k)[None, :])
        y = tl.load(b + (j + k)[:, None] * N + n[None, :])
        acc = tl.dot(x, y, acc, input_precision=HOW, out_dtype=TYPE)
    tl.store(c + m[:, None] * N + n[None, :], acc)


@triton.jit
def atomics(x, total, largest, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n, other=0)
    tl.atomic_add(total + i % 4, v, mask=i < n)
    tl.atomic_max(largest, tl.max(v, axis=0))


@triton.jit
def locked(lock, total, B: tl.constexpr):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    i = tl.arange(0, B)
    tl.store(total + i, tl.load(total + i) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def _collatz(n):
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@triton.jit
def control_flow(x, o, n):
    i = tl.program_id(0)
    v = tl.load(x + i)
    if v > 5:
        v = _collatz(v)
    else:
        for k in range(n):
            v += k
    for k in tl.static_range(3):
        v += k
    tl.store(o + i, v)


@triton.jit
def random_numbers(o, seed, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.rand(seed, i))


@triton.jit
def converted(x, o, B: tl.constexpr, TYPE: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(x + i).to(TYPE).to(tl.float32))


@triton.jit
def row_sums(x, o, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    sums = tl.zeros((BM,), dtype=tl.float32)
    for j in range(0, N, BN):
        sums += tl.sum(rows.load([tl.program_id(0) * BM, j]).to(tl.float32), axis=1)
    tl.store(o + tl.program_id(0) * BM + tl.arange(0, BM), sums)


@triton.jit
def copied(x, o, BM: tl.constexpr, BN: tl.constexpr):
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    o.store([i, j], x.load([i, j]))


@triton.jit
def assembly(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    y = tl.inline_asm_elementwise("add.u32 $0, $1, 7;", "=r,r", [tl.load(x + i)], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(o + i, y)


@triton.autotune([triton.Config({"B": b}, num_warps=w) for b, w in ((64, 2), (128, 4))], key=["n"])
@triton.heuristics({"EVEN": lambda values: values["n"] % values["B"] == 0})
@triton.jit
def tuned(x, o, n, B: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i) if EVEN else tl.load(x + i, mask=i < n)
    tl.store(o + i, 2 * v, mask=i < n)
