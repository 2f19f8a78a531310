"""A matmul by Triton that does what PyTorch's template does: bands of tiles, sums in f32, k masked only at need."""

# mypy: ignore-errors
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

BAND = 8  # rows of tiles that blocks walk together
_PARAMETERS = ("a", "b", "out", "m", "n", "k", "line_a", "line_b")


@triton.jit
def matmul(
    a, b, out, m, n, k, line_a, line_b,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BAND: tl.constexpr, WHOLE: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """out[m, n] = a[m, k] @ b[k, n], by rows of ``line_a`` and ``line_b`` elements; WHOLE: BK divides k."""
    tiles_m, tiles_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
    first = tl.program_id(0) // (BAND * tiles_n) * BAND
    high = min(tiles_m - first, BAND)
    place = tl.program_id(0) % (BAND * tiles_n)
    rows = (first + place % high) * BM + tl.arange(0, BM)
    columns = place // high * BN + tl.arange(0, BN)
    # Rows and columns beyond the end read those of the beginning, so that loads need no mask.
    inside_m = tl.max_contiguous(tl.multiple_of(rows % m, BM), BM)
    inside_n = tl.max_contiguous(tl.multiple_of(columns % n, BN), BN)
    along_k = tl.arange(0, BK)
    at_a = a + inside_m[:, None] * line_a + along_k[None, :]
    at_b = b + along_k[:, None] * line_b + inside_n[None, :]
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for left in range(k, 0, -BK):
        if WHOLE:
            x, y = tl.load(at_a), tl.load(at_b)
        else:
            x = tl.load(at_a, mask=along_k[None, :] < left, other=0.0)
            y = tl.load(at_b, mask=along_k[:, None] < left, other=0.0)
        sums += tl.dot(x, y, input_precision=PRECISION)
        at_a += BK
        at_b += BK * line_b
    result = sums.to(out.dtype.element_ty)
    tl.store(out + rows[:, None] * n + columns[None, :], result, mask=(rows[:, None] < m) & (columns[None, :] < n))


def compiled(sm, element, precision, whole, config):
    """The kernel for ``sm``, elements "f16" or "f32" and a ``TritonConfig``; pointers and sizes are multiples of 16."""
    pointer = {"f16": "*fp16", "f32": "*fp32"}[element]
    values = {
        "BM": config.block_m,
        "BN": config.block_n,
        "BK": config.block_k,
        "BAND": BAND,
        "WHOLE": whole,
        "PRECISION": precision,
    }
    types = {name: pointer if name in ("a", "b", "out") else "i32" for name in _PARAMETERS}
    source = ASTSource(
        fn=matmul,
        signature={**types, **dict.fromkeys(values, "constexpr")},
        constexprs=values,
        attrs={(i,): [["tt.divisibility", 16]] for i in range(len(_PARAMETERS))},
    )
    options = {"num_warps": config.warps, "num_stages": config.stages}
    return triton.compile(source, target=GPUTarget("cuda", sm, 32), options=options)
