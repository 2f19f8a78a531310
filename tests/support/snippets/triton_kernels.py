"""Kernels like those of Triton's tutorials, and functions that compile them without a GPU."""

# mypy: ignore-errors
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from search_spaces.hardware.dtypes import SCALAR_DTYPES
from search_spaces.launches.launch import Argument, Launch, ScalarArgument
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import TensorMap


@triton.jit
def softmax(o, x, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + column, mask=column < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(o + row * n + column, e / tl.sum(e, axis=0), mask=column < n)


@triton.jit
def layer_norm(o, x, w, b, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < n
    v = tl.load(x + row * n + column, mask=inside, other=0.0).to(tl.float32)
    centred = tl.where(inside, v - tl.sum(v, axis=0) / n, 0.0)
    variance = tl.sum(centred * centred, axis=0) / n
    y = centred / tl.sqrt(variance + eps) * tl.load(w + column, mask=inside) + tl.load(b + column, mask=inside)
    tl.store(o + row * n + column, y, mask=inside)


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    k = tl.arange(0, BK)
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for first in range(0, K, BK):
        l = first + k  # noqa: E741
        x = tl.load(a + m * K + l[None, :], mask=(m < M) & (l[None, :] < K), other=0.0)
        y = tl.load(b + l[:, None] * N + n, mask=(l[:, None] < K) & (n < N), other=0.0)
        sums += tl.dot(x, y)
    tl.store(c + m * N + n, sums.to(tl.float16), mask=(m < M) & (n < N))


@triton.jit
def matmul_by_descriptors(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        sums = tl.dot(a.load([m, k]), b.load([k, n]), sums)
    c.store([m, n], sums.to(tl.float16))


@triton.jit
def matmul_by_made_descriptors(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Multiply matrices, accessed through tensor descriptors that the kernel creates in the launch's scratch memory."""
    of_a = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    of_b = tl.make_tensor_descriptor(b, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    of_c = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        sums = tl.dot(of_a.load([m, k]), of_b.load([k, n]), sums)
    of_c.store([m, n], sums.to(tl.float16))


@triton.jit
def copy_by_made_descriptors(o, x, M, N, BM: tl.constexpr, BN: tl.constexpr):
    of_x = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    of_o = tl.make_tensor_descriptor(o, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    for m in range(0, M, BM):
        of_o.store([m, 0], of_x.load([m, 0]) * 2)


@triton.jit
def scaled_dot(
    a, sa, b, sb, o, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, FORMAT: tl.constexpr, PACKED: tl.constexpr,
    GROUP: tl.constexpr,
):  # fmt: skip
    """Compute one tile of a @ b.T. Lines of a and b have K elements, PACKED per byte, and a scale per GROUP."""
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    along, groups = tl.arange(0, K // PACKED), tl.arange(0, K // GROUP)
    left = tl.load(a + rows[:, None] * (K // PACKED) + along[None, :])
    right = tl.load(b + columns[None, :] * (K // PACKED) + along[:, None])
    scale_left = tl.load(sa + rows[:, None] * (K // GROUP) + groups[None, :])
    scale_right = tl.load(sb + columns[:, None] * (K // GROUP) + groups[None, :])
    sums = tl.dot_scaled(left, scale_left, FORMAT, right, scale_right, FORMAT)
    tl.store(o + rows[:, None] * N + columns[None, :], sums)


def compiled(
    kernel: Any, signature: dict[str, str], constants: dict[str, Any], aligned: int = 0, sm: int = 80, **options: Any
) -> Any:
    """Compile ``kernel`` (a kernel or its name) for ``sm``. Its first ``aligned`` arguments are multiples of 16."""
    source = ASTSource(
        fn=globals()[kernel] if isinstance(kernel, str) else kernel,
        signature={**signature, **dict.fromkeys(constants, "constexpr")},
        constexprs=constants,
        attrs={(i,): [["tt.divisibility", 16]] for i in range(aligned)},
    )
    return triton.compile(source, target=GPUTarget("cuda", sm, 32), options=options or None)


def launch_by_descriptors(compiled: Any, m: int, n: int, k: int) -> Launch:
    """Return a launch of ``matmul_by_descriptors`` in boxes of 64 x 64."""
    f16, i32, i64 = (SCALAR_DTYPES[name] for name in ("f16", "i32", "i64"))
    arguments: list[Argument] = []
    for name, role, shape in (("a", "input", (m, k)), ("b", "input", (k, n)), ("c", "output", (m, n))):
        operand = Operand(name, role, f16, shape)
        arguments.append(TensorMap.dense(f"map_{name}", operand, (64, 64), swizzle="128B"))
        arguments += [ScalarArgument(f"{name}_size_{d}", i32, size) for d, size in enumerate(shape)]
        arguments += [ScalarArgument(f"{name}_stride_{d}", i64, stride) for d, stride in enumerate((shape[1], 1))]
    arguments += [ScalarArgument("K", i32, k), ScalarArgument("scratch", i64, 0), ScalarArgument("profile", i64, 0)]
    return Launch(
        entry="matmul_by_descriptors",
        arguments=tuple(arguments),
        grid=(-(-m // 64), -(-n // 64), 1),
        block=(32 * compiled.metadata.num_warps, 1, 1),
        dynamic_shared_bytes=compiled.metadata.shared,
    )


@triton.jit
def rope_in_place(q, cosine, sine, HALF: tl.constexpr):
    """Rotate pairs in place. A tile has fewer elements than a block has threads: several threads load each element."""
    row = tl.program_id(0)
    k = tl.arange(0, HALF)
    first, second = q + row * 2 * HALF + k, q + row * 2 * HALF + HALF + k
    x, y = tl.load(first), tl.load(second)
    c, s = tl.load(cosine + k), tl.load(sine + k)
    tl.store(first, x * c - y * s)
    tl.store(second, y * c + x * s)


@triton.jit
def rms_norm(o, x, n, eps, BLOCK: tl.constexpr):
    """RMS norm of a row with at most one element per thread."""
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + column, mask=column < n, other=0.0)
    scale = 1 / tl.sqrt(tl.sum(v * v, axis=0) / n + eps)
    tl.store(o + row * n + column, v * scale, mask=column < n)


@triton.jit
def in_turns(lock, o):
    """Let programs run one after another, in reverse order. Each polls a lock until its turn, then passes it on."""
    last = tl.num_programs(0) - 1
    block = last - tl.program_id(0)
    while tl.atomic_cas(lock, block, block) != block:
        pass
    tl.store(o + tl.program_id(0), block)
    tl.debug_barrier()
    tl.atomic_add(lock, 1)
