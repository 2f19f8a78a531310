"""A matmul in idiomatic Triton: tiles in grouped order, tuned by Triton's autotuner.

This baseline follows the matrix multiplication of the Triton tutorials. It needs torch and triton.
"""

# mypy: disable-error-code="no-untyped-def,misc,no-untyped-call,no-any-return,untyped-decorator"

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

_CONFIGS = [
    triton.Config({"BM": bm, "BN": bn, "BK": bk, "GROUP": 8}, num_stages=stages, num_warps=warps)
    for bm, bn, bk, stages, warps in (
        (128, 256, 64, 3, 8),
        (256, 128, 64, 3, 8),
        (128, 128, 64, 4, 4),
        (128, 128, 64, 3, 8),
        (128, 64, 64, 4, 4),
        (64, 128, 64, 4, 4),
        (64, 64, 64, 5, 4),
        (16, 64, 128, 5, 4),
        (16, 128, 128, 4, 4),
        (32, 64, 128, 4, 4),
    )
]


@triton.autotune(configs=_CONFIGS, key=["batch", "m", "n", "k", "sak", "sbk"])
@triton.jit
def _kernel(
    a, b, out, batch, m, n, k, sab, sam, sak, sbb, sbk, sbn, sob, som,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
    tile, which = tl.program_id(0), tl.program_id(1).to(tl.int64)
    in_group = GROUP * tiles_n
    first = tile // in_group * GROUP
    height = min(tiles_m - first, GROUP)
    row = first + tile % in_group % height
    column = tile % in_group // height
    rows = row * BM + tl.arange(0, BM)
    columns = column * BN + tl.arange(0, BN)
    steps = tl.arange(0, BK)
    rows_in = (rows % m).to(tl.int64)
    columns_in = (columns % n).to(tl.int64)
    at_a = a + which * sab + rows_in[:, None] * sam + steps[None, :] * sak
    at_b = b + which * sbb + steps[:, None] * sbk + columns_in[None, :] * sbn
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, k, BK):
        left = k - start
        x = tl.load(at_a, mask=steps[None, :] < left, other=0.0)
        y = tl.load(at_b, mask=steps[:, None] < left, other=0.0)
        total = tl.dot(x, y, total)
        at_a += BK * sak
        at_b += BK * sbk
    at_out = out + which * sob + rows.to(tl.int64)[:, None] * som + columns[None, :]
    tl.store(at_out, total.to(out.dtype.element_ty), mask=(rows[:, None] < m) & (columns[None, :] < n))


def matmul(a: Any, b: Any, out: Any) -> None:
    """Compute ``out = a @ b`` for torch tensors [m, k] and [k, n], or stacks of such tensors.

    Strides of a and b are arbitrary.
    """
    if a.dim() == 2:
        a, b, out = a[None], b[None], out[None]
    batch, m, k = a.shape
    n = b.shape[-1]

    def grid(chosen: dict[str, int]) -> tuple[int, int]:
        return triton.cdiv(m, chosen["BM"]) * triton.cdiv(n, chosen["BN"]), batch

    _kernel[grid](a, b, out, batch, m, n, k, *a.stride(), *b.stride(), out.stride(0), out.stride(1))
