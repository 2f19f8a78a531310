"""Triton kernels of the tests of tuning, and functions that make their arguments."""

# mypy: ignore-errors
import torch
import triton
import triton.language as tl


@triton.jit
def scale(o, x, factor, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)


def device():
    """Return the device for tensors: "cuda" if torch has a GPU, real or simulated by ``emulated``."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def scale_args(n=1000):
    x = torch.arange(n, dtype=torch.float32, device=device())
    return {"grid": blocks(n), "o": torch.empty_like(x), "x": x, "factor": 3.0, "n": n}


def scaled(x, factor, **_):
    return {"o": x * factor}


def blocks(n):
    return lambda meta: (triton.cdiv(n, meta["BLOCK"]),)


@triton.jit
def wrong_from_128(o, x, n, BLOCK: tl.constexpr):
    """A kernel that is only correct if its block size is below 128."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    factor = 2.0 if BLOCK < 128 else 2.5
    tl.store(o + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)


def wrong_args(n=1000):
    return {"grid": blocks(n), "o": torch.empty(n, device=device()), "x": torch.ones(n, device=device()), "n": n}


@triton.jit
def writes_half(o, x, n, BLOCK: tl.constexpr, HALF: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < (n // 2 if HALF else n)
    tl.store(o + i, tl.load(x + i, mask=inside), mask=inside)


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128}, num_warps=2)], key=["n"])
@triton.jit
def accumulate(o, x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(o + i, tl.load(x + i, mask=i < n), mask=i < n)


def accumulate_args(n=300):
    return {"grid": blocks(n), "o": torch.zeros(n, device=device()), "x": torch.ones(n, device=device()), "n": n}


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * K + k[None, :], mask=(rows[:, None] < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b + k[:, None] * N + columns[None, :], mask=(k[:, None] < K) & (columns[None, :] < N), other=0.0)
        total += tl.dot(x, y)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16), mask=inside)


def matmul_args(m=256, n=256, k=256):
    a = torch.randn(m, k, device="cuda", dtype=torch.float16)
    b = torch.randn(k, n, device="cuda", dtype=torch.float16)
    c = torch.empty(m, n, device="cuda", dtype=torch.float16)
    grid = lambda meta: (triton.cdiv(m, meta["BM"]), triton.cdiv(n, meta["BN"]))  # noqa: E731
    return {"grid": grid, "a": a, "b": b, "c": c, "M": m, "N": n, "K": k}


def product(a, b, **_):
    return {"c": a.float() @ b.float()}


@triton.jit
def double(o, x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


CONFIGS = [triton.Config({"BLOCK": 32}, num_warps=1), triton.Config({"BLOCK": 512}), triton.Config({"BLOCK": 2048})]
