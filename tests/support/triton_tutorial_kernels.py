"""Kernels of this project that compute the same as the kernels of Triton's tutorials.

These are softmax, matmul, layer norm with its gradients, attention, grouped, persistent and block-scaled matmul.
"""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def softmax_rows(o, x, stride_o, stride_x, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """Compute the softmax of rows. Each block computes many rows."""
    i = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        v = tl.load(x + row * stride_x + i, mask=i < columns, other=-float("inf"))
        e = tl.exp(v - tl.max(v, axis=0))
        tl.store(o + row * stride_o + i, e / tl.sum(e, axis=0), mask=i < columns)


@triton.jit
def leaky(v):
    return tl.where(v >= 0, v, 0.01 * v)


@triton.jit
def tile_of(block, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    """Return the tile of a block. For reuse in L2, tiles are ordered by columns within bands of GROUP rows of tiles."""
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    band = block // (GROUP * tiles_n)
    rows = min(tiles_m - band * GROUP, GROUP)
    return band * GROUP + block % rows, (block % (GROUP * tiles_n)) // rows


@triton.jit
def matmul(
    a, b, c, M, N, K, stride_a, stride_b, stride_c,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, LEAKY: tl.constexpr,
):  # fmt: skip
    tile_m, tile_n = tile_of(tl.program_id(0), M, N, BM, BN, GROUP)
    rows = (tile_m * BM + tl.arange(0, BM)) % M
    columns = (tile_n * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    at_a, at_b = a + rows[:, None] * stride_a + k[None, :], b + k[:, None] * stride_b + columns[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(0, tl.cdiv(K, BK)):
        left = K - step * BK
        x = tl.load(at_a, mask=k[None, :] < left, other=0.0)
        y = tl.load(at_b, mask=k[:, None] < left, other=0.0)
        total = tl.dot(x, y, total)
        at_a += BK
        at_b += BK * stride_b
    if LEAKY:
        total = leaky(total)
    m, n = tile_m * BM + tl.arange(0, BM), tile_n * BN + tl.arange(0, BN)
    tl.store(c + m[:, None] * stride_c + n[None, :], total.to(tl.float16), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def layer_norm(y, x, w, b, mean, rstd, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * stride
    y += row * stride
    sums = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        sums += tl.load(x + i, mask=i < n, other=0.0).to(tl.float32)
    center = tl.sum(sums, axis=0) / n
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.where(i < n, tl.load(x + i, mask=i < n, other=0.0).to(tl.float32) - center, 0.0)
        squares += v * v
    scale = 1 / tl.sqrt(tl.sum(squares, axis=0) / n + eps)
    tl.store(mean + row, center)
    tl.store(rstd + row, scale)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = (tl.load(x + i, mask=i < n, other=0.0).to(tl.float32) - center) * scale
        tl.store(y + i, v * tl.load(w + i, mask=i < n) + tl.load(b + i, mask=i < n), mask=i < n)


@triton.jit
def layer_norm_slopes(
    dx, parts_w, parts_b, dy, x, w, mean, rstd, stride, rows, n, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Store the gradient of ROWS rows of x, and this block's partial gradients of w and b as a line of sums."""
    i = tl.arange(0, BLOCK)
    inside = i < n
    weight = tl.load(w + i, mask=inside, other=0.0)
    share_w, share_b = tl.zeros((BLOCK,), tl.float32), tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0) * ROWS
    for row in range(first, tl.minimum(first + ROWS, rows)):
        slope = tl.load(dy + row * stride + i, mask=inside, other=0.0)
        scale = tl.load(rstd + row)
        normal = (tl.load(x + row * stride + i, mask=inside, other=0.0) - tl.load(mean + row)) * scale
        normal = tl.where(inside, normal, 0.0)
        share_w += slope * normal
        share_b += slope
        weighted = slope * weight
        level, along = tl.sum(weighted, axis=0) / n, tl.sum(weighted * normal, axis=0) / n
        tl.store(dx + row * stride + i, (weighted - level - along * normal) * scale, mask=inside)
    tl.store(parts_w + tl.program_id(0) * n + i, share_w, mask=inside)
    tl.store(parts_b + tl.program_id(0) * n + i, share_b, mask=inside)


@triton.jit
def sum_of_lines(total, lines, count, n, BLOCK: tl.constexpr):
    """Add up the lines of partial gradients. Each block handles BLOCK columns."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK,), tl.float32)
    for line in range(count):
        sums += tl.load(lines + line * n + i, mask=i < n, other=0.0)
    tl.store(total + i, sums, mask=i < n)


@triton.jit
def column_sums_under_locks(sums, x, locks, stride, n, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    """Add each row to one of GROUP lines of sums, each of which has a lock."""
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + i, mask=i < n, other=0.0)
    cells = sums + row % GROUP * n + i
    while tl.atomic_cas(locks + row % GROUP, 0, 1) != 0:
        pass
    tl.store(cells, tl.load(cells, mask=i < n) + v, mask=i < n)  # under the lock
    tl.atomic_xchg(locks + row % GROUP, 0)


@triton.jit
def attention(q, k, v, o, scale, length, HEAD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    """Compute attention for a block of queries of one head, in a loop over blocks of keys."""
    start, head = tl.program_id(0) * BM, tl.program_id(1)
    rows, d = start + tl.arange(0, BM), tl.arange(0, HEAD)
    base = head * length * HEAD
    query = tl.load(q + base + rows[:, None] * HEAD + d[None, :], mask=rows[:, None] < length, other=0.0)
    largest = tl.full((BM,), -float("inf"), tl.float32)
    weight = tl.zeros((BM,), tl.float32)
    total = tl.zeros((BM, HEAD), tl.float32)
    end = tl.minimum(start + BM, length) if CAUSAL else length
    for at in range(0, end, BN):
        columns = at + tl.arange(0, BN)
        keys = tl.load(k + base + columns[None, :] * HEAD + d[:, None], mask=columns[None, :] < length, other=0.0)
        scores = tl.dot(query, keys) * (scale * 1.44269504)
        seen = columns[None, :] < length
        if CAUSAL:
            seen &= columns[None, :] <= rows[:, None]
        scores = tl.where(seen, scores, -float("inf"))
        now = tl.maximum(largest, tl.max(scores, axis=1))
        shrunk = tl.math.exp2(largest - now)
        p = tl.math.exp2(scores - now[:, None])
        weight = weight * shrunk + tl.sum(p, axis=1)
        values = tl.load(v + base + columns[:, None] * HEAD + d[None, :], mask=columns[:, None] < length, other=0.0)
        total = tl.dot(p.to(values.dtype), values, total * shrunk[:, None])
        largest = now
    out = (total / weight[:, None]).to(tl.float16)
    tl.store(o + base + rows[:, None] * HEAD + d[None, :], out, mask=rows[:, None] < length)


@triton.jit
def grouped_matmul(a_of, b_of, c_of, sizes, groups, BLOCKS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
                   BK: tl.constexpr):  # fmt: skip
    """Multiply matrices of several sizes, given as arrays of addresses. A fixed number of blocks shares the tiles."""
    tile = tl.program_id(0)
    before = 0
    for g in range(groups):
        M, N, K = tl.load(sizes + 3 * g), tl.load(sizes + 3 * g + 1), tl.load(sizes + 3 * g + 2)
        tiles_n = tl.cdiv(N, BN)
        tiles = tl.cdiv(M, BM) * tiles_n
        while tile >= before and tile < before + tiles:
            a = tl.load(a_of + g).to(tl.pointer_type(tl.float16))
            b = tl.load(b_of + g).to(tl.pointer_type(tl.float16))
            c = tl.load(c_of + g).to(tl.pointer_type(tl.float16))
            m = (tile - before) // tiles_n * BM + tl.arange(0, BM)
            n = (tile - before) % tiles_n * BN + tl.arange(0, BN)
            total = tl.zeros((BM, BN), dtype=tl.float32)
            for start in range(0, K, BK):
                k = start + tl.arange(0, BK)
                x = tl.load(a + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
                y = tl.load(b + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
                total += tl.dot(x, y)
            inside = (m[:, None] < M) & (n[None, :] < N)
            tl.store(c + m[:, None] * N + n[None, :], total.to(tl.float16), mask=inside)
            tile += BLOCKS
        before += tiles


@triton.jit
def persistent_matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
                      FLATTEN: tl.constexpr):  # fmt: skip
    """Multiply matrices with tensor descriptors from the host. Each block computes several tiles. ``b`` is [N, K]."""
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=FLATTEN):
        tile_m, tile_n = tile_of(tile, M, N, BM, BN, GROUP)
        total = tl.zeros((BM, BN), dtype=tl.float32)
        for step in range(0, tl.cdiv(K, BK)):
            x = a.load([tile_m * BM, step * BK])
            y = b.load([tile_n * BN, step * BK])
            total = tl.dot(x, y.T, total)
        c.store([tile_m * BM, tile_n * BN], total.to(tl.float16))


@triton.jit
def block_scaled_matmul(a, a_scale, b, b_scale, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Multiply e4m3 matrices with a power-of-two scale per 32 elements. ``b`` is [K, N], its scales [N, K / 32]."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k, s = start + tl.arange(0, BK), start // 32 + tl.arange(0, BK // 32)
        x = tl.load(a + m[:, None] * K + k[None, :])
        y = tl.load(b + k[:, None] * N + n[None, :])
        scale_x = tl.load(a_scale + m[:, None] * (K // 32) + s[None, :])
        scale_y = tl.load(b_scale + n[:, None] * (K // 32) + s[None, :])
        total = tl.dot_scaled(x, scale_x, "e4m3", y, scale_y, "e4m3", total)
    tl.store(c + m[:, None] * N + n[None, :], total)
