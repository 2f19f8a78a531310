"""Triton kernels whose verdicts are golden files. The golden files contain line numbers of this file."""

# mypy: ignore-errors
import torch
import triton
import triton.language as tl


@triton.jit
def scale(o, x, n, END: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n) * 2, mask=i < n + END)


@triton.jit
def last_writer(o, x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + tl.program_id(0) * BLOCK + i))


@triton.jit
def accumulate(o, x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(o + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def tickets(o, count):
    tl.store(o + tl.program_id(0), tl.atomic_add(count, 1))


@triton.jit
def wait_for(flags, o, SETTER: tl.constexpr):
    block = tl.program_id(0)
    if block == SETTER:
        tl.atomic_xchg(flags, 1)
    else:
        while tl.load(flags, volatile=True) == 0:
            pass
    tl.store(o + block, block)


@triton.jit
def wrong_from_128(o, x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    factor = 2.0 if BLOCK < 128 else 2.5
    tl.store(o + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)


@triton.jit
def writes_half(o, x, n, BLOCK: tl.constexpr, HALF: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < (n // 2 if HALF else n)
    tl.store(o + i, tl.load(x + i, mask=inside), mask=inside)


@triton.jit
def stages(o, x, n, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    i = tl.arange(0, WIDE)
    total = tl.dot(tl.load(x + i[:, None] * WIDE + i[None, :]), tl.load(x + i[:, None] * WIDE + i[None, :]))
    tl.store(o + i[:, None] * WIDE + i[None, :], total.to(tl.float16))


def doubled(x, **_):
    return {"o": x * 2}


def arguments(n=1000):
    return {"o": torch.zeros(n), "x": torch.arange(n, dtype=torch.float32), "n": n}
