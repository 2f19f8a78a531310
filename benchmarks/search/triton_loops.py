"""GEMM and the forward pass of attention in Triton, for comparison of main loops with tile programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from measurements.compiler.disassembly import disassemble, main_loop, mix


@triton.jit  # type: ignore[untyped-decorator]
def gemm(  # type: ignore[no-untyped-def]
    a, b, bias, out, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """Compute relu(a @ b + bias) for sizes that are multiples of the tiles."""
    rows, columns = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    steps = tl.arange(0, BK)
    left, right = a + rows[:, None] * K + steps[None, :], b + steps[:, None] * N + columns[None, :]
    acc = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        acc = tl.dot(tl.load(left), tl.load(right), acc)
        left += BK
        right += BK * N
    x = tl.maximum(acc + tl.load(bias + columns)[None, :], 0.0)
    tl.store(out + rows[:, None] * N + columns[None, :], x.to(tl.float16))


@triton.jit  # type: ignore[untyped-decorator]
def attention(q, k, v, out, S, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):  # type: ignore[no-untyped-def]
    """Compute softmax(q @ k^T / sqrt(D)) @ v without a mask, one head per program."""
    head = tl.program_id(1).to(tl.int64) * S * D
    rows, lanes, keys = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D), tl.arange(0, BN)
    query = tl.load(q + head + rows[:, None] * D + lanes[None, :])
    of_k, of_v = k + head + lanes[:, None] + keys[None, :] * D, v + head + keys[:, None] * D + lanes[None, :]
    top, total = tl.full((BM,), float("-inf"), tl.float32), tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    scale = 1.4426950408889634 / D**0.5
    for _ in range(0, S, BN):
        z = tl.dot(query, tl.load(of_k))
        peak = tl.maximum(top, tl.max(z, 1) * scale)
        e = tl.math.exp2(z * scale - peak[:, None])
        fade = tl.math.exp2(top - peak)
        total = total * fade + tl.sum(e, 1)
        acc = tl.dot(e.to(tl.float16), tl.load(of_v), acc * fade[:, None])
        top = peak
        of_k += BN * D
        of_v += BN * D
    tl.store(out + head + rows[:, None] * D + lanes[None, :], (acc / total[:, None]).to(tl.float16))


@dataclass(frozen=True)
class Loop:
    """A main loop with ``loop_instructions`` instructions per iteration, of which ``tensor`` run on tensor cores."""

    loop_instructions: int
    tensor: int
    all_instructions: int


def gemm_loop(bm: int, bn: int, bk: int, warps: int, stages: int, sm: int = 80) -> Loop:
    types = {"a": "*fp16", "b": "*fp16", "bias": "*fp32", "out": "*fp16", "M": "i32", "N": "i32", "K": "i32"}
    return _loop(gemm, types, {"BM": bm, "BN": bn, "BK": bk}, warps, stages, sm)


def attention_loop(bm: int, bn: int, d: int, warps: int, stages: int, sm: int = 80) -> Loop:
    types = {"q": "*fp16", "k": "*fp16", "v": "*fp16", "out": "*fp16", "S": "i32"}
    return _loop(attention, types, {"D": d, "BM": bm, "BN": bn}, warps, stages, sm)


def _loop(kernel: Any, types: dict[str, str], sizes: dict[str, int], warps: int, stages: int, sm: int) -> Loop:
    """Return the main loop of a kernel, compiled for pointers and sizes that are multiples of 16."""
    names = [*types, *sizes]
    signature = types | dict.fromkeys(sizes, "constexpr")
    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in types}
    source = ASTSource(kernel, signature, {(names.index(n),): size for n, size in sizes.items()}, attributes)
    options = {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": True}
    compiled = triton.compile(source, target=GPUTarget("cuda", sm, 32), options=options)
    code = disassemble(compiled.asm["cubin"], compiled.metadata.name)
    loop = mix(main_loop(code))
    return Loop(loop.instructions, loop.count("tensor"), len(code))
