"""Triton kernels as users write them: attention, gradients under a lock, groups, sorts. ``FAULT`` selects a fault."""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def attention(Q, K, V, O, L, T, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, FAULT: tl.constexpr):  # noqa: E741
    first, head = tl.program_id(0) * BM, tl.program_id(1)
    m, d = first + tl.arange(0, BM), tl.arange(0, D)
    base = head * T * D
    q = tl.load(Q + base + m[:, None] * D + d[None, :], mask=m[:, None] < T, other=0.0)
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    sums = tl.zeros([BM, D], tl.float32)
    for s in range(0, tl.minimum(first + BM, T), BN):
        n = s + tl.arange(0, BN)
        k = tl.load(K + base + n[None, :] * D + d[:, None], mask=n[None, :] < T, other=0.0)
        v = tl.load(V + base + n[:, None] * D + d[None, :], mask=n[:, None] < T, other=0.0)
        seen = (n[None, :] < T) & (n[None, :] <= m[:, None])
        if FAULT == "sees the next":
            seen = (n[None, :] < T) & (n[None, :] <= m[:, None] + 1)
        scores = tl.where(seen, tl.dot(q, k) * scale, -float("inf"))
        highest = tl.maximum(top, tl.max(scores, 1))
        if FAULT == "maximum of the tile":
            highest = tl.max(scores, 1)
        rescale = tl.exp(top - highest)
        p = tl.exp(scores - highest[:, None])
        total = total * rescale + tl.sum(p, 1)
        if FAULT != "sums not rescaled":
            sums = sums * rescale[:, None]
        sums = tl.dot(p.to(v.dtype), v, sums)
        top = highest
    rows = m < T
    if FAULT == "rows beyond the end":
        rows = m < T + 1
    tl.store(O + base + m[:, None] * D + d[None, :], (sums / total[:, None]).to(tl.float16), mask=rows[:, None])
    tl.store(L + head * T + m, top + tl.log(total), mask=m < T)


@triton.jit
def attention_backward(
    Q, K, V, DO, L, DE, DQ, DK, DV, T, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, FAULT: tl.constexpr
):
    head = tl.program_id(1)
    base = head * T * D
    n, d = tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, D)
    k = tl.load(K + base + n[:, None] * D + d[None, :])
    v = tl.load(V + base + n[:, None] * D + d[None, :])
    dk = tl.zeros([BN, D], tl.float32)
    dv = tl.zeros([BN, D], tl.float32)
    for s in range(0, T, BM):
        m = s + tl.arange(0, BM)
        at = base + m[:, None] * D + d[None, :]
        q = tl.load(Q + at)
        do = tl.load(DO + at)
        p = tl.exp(tl.dot(k, tl.trans(q)) * scale - tl.load(L + head * T + m)[None, :])
        dv += tl.dot(p.to(tl.float16), do)
        dp = tl.dot(v, tl.trans(do)) - tl.load(DE + head * T + m)[None, :]
        ds = (p * dp * scale).to(tl.float16)
        dk += tl.dot(ds, q)
        dq = tl.dot(tl.trans(ds), k)
        if FAULT == "plain sum":
            tl.store(DQ + at, tl.load(DQ + at) + dq)
        else:
            tl.atomic_add(DQ + at, dq)
    tl.store(DK + base + n[:, None] * D + d[None, :], dk)
    tl.store(DV + base + n[:, None] * D + d[None, :], dv)


@triton.jit
def weight_gradient(DW, DY, X, LOCK, N, GROUPS: tl.constexpr, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    """For each row, add the product of X and DY to one of GROUPS lines of DW, under the line's lock."""
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    product = tl.load(X + row * N + c, mask=c < N, other=0.0) * tl.load(DY + row * N + c, mask=c < N, other=0.0)
    lock, line = LOCK + row % GROUPS, DW + row % GROUPS * N + c
    if FAULT != "no lock":
        while tl.atomic_cas(lock, 0, 1) != 0:
            pass
    tl.store(line, tl.load(line, mask=c < N) + product, mask=c < N)
    tl.debug_barrier()
    if FAULT == "relaxed release":
        tl.atomic_xchg(lock, 0, sem="relaxed")
    else:
        tl.atomic_xchg(lock, 0)


@triton.jit
def grouped_matmul(A, B, C, SIZES, FIRST, N, K, G, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tile, last = tl.program_id(0), 0
    for g in range(G):
        rows, first = tl.load(SIZES + g), tl.load(FIRST + g)
        wide = tl.cdiv(N, BN)
        tiles = tl.cdiv(rows, BM) * wide
        while (tile >= last) & (tile < last + tiles):
            m = (tile - last) // wide * BM + tl.arange(0, BM)
            n = (tile - last) % wide * BN + tl.arange(0, BN)
            k = tl.arange(0, BK)
            sums = tl.zeros([BM, BN], tl.float32)
            for s in range(0, K, BK):
                a = tl.load(A + (first + m)[:, None] * K + (s + k)[None, :], mask=m[:, None] < rows, other=0.0)
                b = tl.load(B + g * K * N + (s + k)[:, None] * N + n[None, :], mask=n[None, :] < N, other=0.0)
                sums = tl.dot(a, b, sums)
            mask = (m[:, None] < rows) & (n[None, :] < N)
            tl.store(C + (first + m)[:, None] * N + n[None, :], sums.to(tl.float16), mask=mask)
            tile += tl.num_programs(0)
        last += tiles


@triton.jit
def online_softmax(X, O, n, BLOCK: tl.constexpr):  # noqa: E741
    row = tl.program_id(0)
    top = tl.full([BLOCK], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for s in range(0, n, BLOCK):
        c = s + tl.arange(0, BLOCK)
        x = tl.load(X + row * n + c, mask=c < n, other=-float("inf"))
        highest = tl.maximum(top, x)
        total = tl.where(highest == -float("inf"), 0.0, total * tl.exp(top - highest) + tl.exp(x - highest))
        top = highest
    most = tl.max(top, 0)
    denominator = tl.sum(tl.where(top == -float("inf"), 0.0, total * tl.exp(top - most)), 0)
    for s in range(0, n, BLOCK):
        c = s + tl.arange(0, BLOCK)
        x = tl.load(X + row * n + c, mask=c < n, other=0.0)
        tl.store(O + row * n + c, tl.exp(x - most) / denominator, mask=c < n)


@triton.jit
def histogram(X, O, BLOCK: tl.constexpr, BINS: tl.constexpr):  # noqa: E741
    x = tl.load(X + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(O + tl.arange(0, BINS), tl.histogram(x, BINS))


@triton.jit
def rows_in_order(X, SORTED, SUMS, BACKWARDS, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    x = tl.load(X + at)
    tl.store(SORTED + at, tl.sort(x, 1))
    tl.store(SUMS + at, tl.cumsum(x, 1))
    tl.store(BACKWARDS + at, tl.flip(x, 1))


@triton.jit
def product(
    A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr, SPLIT: tl.constexpr
):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    sums = tl.zeros([BM, BN], C.dtype.element_ty)
    for s in range(tl.program_id(2) * BK, K, BK * SPLIT):
        k = s + tl.arange(0, BK)
        a = tl.load(A + m[:, None] * K + k[None, :], mask=m[:, None] < M)
        b = tl.load(B + k[:, None] * N + n[None, :], mask=n[None, :] < N)
        sums = tl.dot(a, b, sums, input_precision=PRECISION, out_dtype=C.dtype.element_ty)
    mask = (m[:, None] < M) & (n[None, :] < N)
    if SPLIT > 1:
        tl.atomic_add(C + m[:, None] * N + n[None, :], sums, mask=mask, sem="relaxed")
    else:
        tl.store(C + m[:, None] * N + n[None, :], sums, mask=mask)


@triton.jit
def to_bytes(X, BYTES, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(BYTES + i, tl.load(X + i).to(BYTES.dtype.element_ty))
