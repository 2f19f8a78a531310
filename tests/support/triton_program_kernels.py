"""Triton kernels of the tests of emulated programs."""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def add(x, y, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(o + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def add_without_mask(x, y, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n) + tl.load(y + i), mask=i < n)  # y is read beyond its end


@triton.jit
def scale(o, x, factor, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)


@triton.jit
def transpose(o, x, m, n, stride_m, stride_n, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    j = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    inside = (i < m) & (j < n)
    tl.store(o + j * m + i, tl.load(x + i * stride_m + j * stride_n, mask=inside), mask=inside)


@triton.jit
def add_pairs(ab, o, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(ab[0] + i, mask=i < n) + tl.load(ab[1] + i, mask=i < n), mask=i < n)


@triton.jit
def copy_by_descriptors(o, x, BM: tl.constexpr, BN: tl.constexpr):
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    o.store([i, j], x.load([i, j]))


@triton.jit
def row_sums_by_made_descriptor(o, x, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    sums = tl.zeros((BM,), dtype=tl.float32)
    for j in range(0, N, BN):
        sums += tl.sum(rows.load([tl.program_id(0) * BM, j]).to(tl.float32), axis=1)
    tl.store(o + tl.program_id(0) * BM + tl.arange(0, BM), sums)


@triton.jit
def grouped_scale(pointers, sizes, groups, BLOCK: tl.constexpr):
    for g in range(groups):
        x = tl.load(pointers + g).to(tl.pointer_type(tl.float32))
        i = tl.arange(0, BLOCK)
        inside = i < tl.load(sizes + g)
        tl.store(x + i, tl.load(x + i, mask=inside) * (g + 2), mask=inside)


@triton.autotune([triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def accumulate(o, x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(o + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.autotune([triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], key=["n"], reset_to_zero=["o"])
@triton.jit
def accumulate_from_zero(o, x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(o + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def wait_for_the_middle(flags, o):
    """Block 17 sets a flag that all other blocks wait for."""
    block = tl.program_id(0)
    if block == 17:
        tl.atomic_xchg(flags, 1)
    else:
        while tl.load(flags, volatile=True) == 0:
            pass
    tl.store(o + block, block)


@triton.jit
def wait_by_atomics(locks, o, far, SWAP: tl.constexpr):
    """Every third block ``i`` waits for the lock of block ``i + far``. The other blocks set their locks."""
    block = tl.program_id(0)
    total = tl.arange(0, 64)
    if block % 3 == 0:
        if SWAP:
            while tl.atomic_cas(locks + block + far, 1, 1) != 1:
                pass
        else:
            while tl.atomic_add(locks + block + far, 0) != 1:
                pass
    else:
        tl.atomic_xchg(locks + block, 1)
    tl.store(o + block * 64 + tl.arange(0, 64), total)


@triton.jit
def row_sums_in_whole_tiles(o, x, n, BLOCK: tl.constexpr):
    """Sum rows without a mask, which is correct if BLOCK divides n."""
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(0, n, BLOCK):
        total += tl.load(x + row * n + first + i)
    tl.store(o + row, tl.sum(total))


@triton.jit
def penalize(logits, ids, count, penalty, BLOCK: tl.constexpr):
    """Divide the logits at ``ids`` by the penalty. This is a race if an id occurs twice."""
    i = tl.arange(0, BLOCK)
    at = logits + tl.load(ids + i, mask=i < count, other=0)
    tl.store(at, tl.load(at, mask=i < count) / penalty, mask=i < count)


@triton.jit
def double_rows(dx, dy, stride, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * stride + tl.arange(0, BLOCK)
    inside = tl.arange(0, BLOCK) < n
    tl.store(dx + i, 2 * tl.load(dy + i, mask=inside), mask=inside)


@triton.jit
def show(x, BLOCK: tl.constexpr):
    tl.device_print("x: ", tl.load(x + tl.arange(0, BLOCK)))
