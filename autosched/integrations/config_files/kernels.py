"""Replacements for the kernels of vLLM and SGLang: a grouped matmul of experts, and a scaled matmul.

The replacements are used on machines without these packages. Parameters have the same names as in the packages, so that
the arguments are the same for all kernels.
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def fused_moe_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    a_scale_ptr,
    b_scale_ptr,
    topk_weights_ptr,
    sorted_token_ids_ptr,
    expert_ids_ptr,
    num_tokens_post_padded_ptr,
    N,
    K,
    EM,
    num_valid_tokens,
    stride_am,
    stride_ak,
    stride_be,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    stride_asm,
    stride_ask,
    stride_bse,
    stride_bsk,
    stride_bsn,
    group_n: tl.constexpr,
    group_k: tl.constexpr,
    BLOCK_SIZE_M: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr,
    BLOCK_SIZE_K: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr,
    MUL_ROUTED_WEIGHT: tl.constexpr,
    top_k: tl.constexpr,
    compute_type: tl.constexpr,
    use_fp8_w8a8: tl.constexpr,
    use_int8_w8a8: tl.constexpr,
    use_int8_w8a16: tl.constexpr,
    per_channel_quant: tl.constexpr,
):
    """Multiply rows by matrices of experts: output row r is row ``r // top_k`` of A times the matrix of r's expert.

    ``sorted_token_ids_ptr`` lists output rows sorted by expert, padded to whole blocks with numbers of at least
    ``num_valid_tokens``. A block with expert -1 handles rows of an expert on another rank, and writes zeros.
    """
    program = tl.program_id(0)
    column_blocks = tl.cdiv(N, BLOCK_SIZE_N)
    block_m, block_n = tl.swizzle2d(
        program // column_blocks, program % column_blocks, tl.cdiv(EM, BLOCK_SIZE_M), column_blocks, GROUP_SIZE_M
    )
    if block_m * BLOCK_SIZE_M >= tl.load(num_tokens_post_padded_ptr):
        return
    assigned = tl.load(sorted_token_ids_ptr + block_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)).to(tl.int64)
    valid = assigned < num_valid_tokens
    columns = block_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    expert = tl.load(expert_ids_ptr + block_m).to(tl.int64)
    scaled: tl.constexpr = use_fp8_w8a8 or use_int8_w8a8
    in_groups: tl.constexpr = scaled and group_n > 0 and group_k > 0
    depth = tl.where(expert < 0, 0, K)
    expert = tl.maximum(expert, 0)

    wrapped = (columns % N).to(tl.int64)  # memory after the last column belongs to the next expert, or is out of bounds
    k = tl.arange(0, BLOCK_SIZE_K)
    rows = assigned // top_k
    a_at = a_ptr + rows[:, None] * stride_am + k[None, :] * stride_ak
    b_at = b_ptr + expert * stride_be + k[:, None] * stride_bk + wrapped[None, :] * stride_bn
    if scaled and (in_groups or per_channel_quant):
        a_scales = a_scale_ptr + rows * stride_asm
    if scaled or use_int8_w8a16:
        b_scales = b_scale_ptr + expert * stride_bse
    sums = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for first in range(0, depth, BLOCK_SIZE_K):
        a = tl.load(a_at, mask=valid[:, None] & (k[None, :] < depth - first), other=0.0)
        b = tl.load(b_at, mask=k[:, None] < depth - first, other=0.0)
        if in_groups:
            group = first // group_k
            a_scale = tl.load(a_scales + group * stride_ask, mask=valid, other=0.0)
            b_scale = tl.load(b_scales + group * stride_bsk + wrapped // group_n * stride_bsn)
            sums += tl.dot(a, b) * a_scale[:, None] * b_scale[None, :]
        elif use_int8_w8a16:
            sums = tl.dot(a, b.to(compute_type), sums)
        elif use_fp8_w8a8:
            sums = tl.dot(a, b, sums)
        else:
            sums += tl.dot(a, b)
        a_at += BLOCK_SIZE_K * stride_ak
        b_at += BLOCK_SIZE_K * stride_bk
    if use_int8_w8a16:
        sums *= tl.load(b_scales + wrapped * stride_bsn)[None, :]
    elif scaled and not in_groups:
        if per_channel_quant:
            a_scale = tl.load(a_scales, mask=valid, other=0.0)
            sums *= a_scale[:, None] * tl.load(b_scales + wrapped * stride_bsn)[None, :]
        else:
            sums *= tl.load(a_scale_ptr) * tl.load(b_scale_ptr + expert)
    if MUL_ROUTED_WEIGHT:
        sums *= tl.load(topk_weights_ptr + assigned, mask=valid, other=0.0)[:, None]
    at = c_ptr + assigned[:, None] * stride_cm + columns[None, :] * stride_cn
    tl.store(at, sums.to(compute_type), mask=valid[:, None] & (columns[None, :] < N))


@triton.jit
def scaled_matmul(
    A,
    B,
    C,
    As,
    Bs,
    M,
    N,
    K,
    group_n,
    group_k,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    stride_As_m,
    stride_As_k,
    stride_Bs_k,
    stride_Bs_n,
    BLOCK_SIZE_M: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr,
    BLOCK_SIZE_K: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr,
):
    """Compute C = A B. Each group of ``group_k`` elements of a row of A has a scale, and so has each block of B."""
    program = tl.program_id(0)
    column_blocks = tl.cdiv(N, BLOCK_SIZE_N)
    block_m, block_n = tl.swizzle2d(
        program // column_blocks, program % column_blocks, tl.cdiv(M, BLOCK_SIZE_M), column_blocks, GROUP_SIZE_M
    )
    rows = block_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    columns = block_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    row, column = rows % M, columns % N
    k = tl.arange(0, BLOCK_SIZE_K)
    a_at = A + row[:, None] * stride_am + k[None, :] * stride_ak
    b_at = B + k[:, None] * stride_bk + column[None, :] * stride_bn
    sums = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for first in range(0, K, BLOCK_SIZE_K):
        a = tl.load(a_at, mask=k[None, :] < K - first, other=0.0)
        b = tl.load(b_at, mask=k[:, None] < K - first, other=0.0)
        group = first // group_k
        a_scale = tl.load(As + row * stride_As_m + group * stride_As_k)
        b_scale = tl.load(Bs + group * stride_Bs_k + column // group_n * stride_Bs_n)
        sums += tl.dot(a, b) * a_scale[:, None] * b_scale[None, :]
        a_at += BLOCK_SIZE_K * stride_ak
        b_at += BLOCK_SIZE_K * stride_bk
    at = C + rows[:, None] * stride_cm + columns[None, :] * stride_cn
    tl.store(at, sums.to(C.dtype.element_ty), mask=(rows[:, None] < M) & (columns[None, :] < N))
