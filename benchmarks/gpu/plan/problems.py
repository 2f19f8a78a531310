"""The sixty problems of the plan. Two dozen are from language models, and their times are compared with cuBLAS."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.reporting.formatting import one_line
from search_spaces.operators.copy import Copy
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import LayerNorm, Reduce, RmsNorm, Softmax
from search_spaces.operators.transpose import Transpose
from search_spaces.tile_operators.attention import Attention
from search_spaces.tile_operators.attention_backward import AttentionBackward
from search_spaces.tile_operators.cross_entropy import CrossEntropy, CrossEntropyBackward
from search_spaces.tile_operators.decode_attention import DecodeAttention
from search_spaces.tile_operators.grouped_matmul import GroupedMatmul
from search_spaces.tile_operators.linear_cross_entropy import LinearCrossEntropy, LinearCrossEntropyDlogits
from search_spaces.tile_operators.qk_norm_rope import QkNormRope
from search_spaces.tile_operators.qk_norm_rope_append import QkNormRopeAppend
from search_spaces.tile_operators.quantized_matmul import QuantizedMatmul
from search_spaces.tile_operators.rmsnorm_quantize import RmsNormQuantize
from search_spaces.tile_operators.router_topk import RouterTopK

# (m, n, k) of linear layers, whose weights are stored as (outputs, inputs). Sizes are from the models' published
# configurations.
_LAYERS = (
    (4096, 6144, 4096),  # Llama 3.1 8B: query, key and value projections
    (4096, 28672, 4096),  # gate and up projections
    (4096, 4096, 14336),  # down projection
    (4096, 4096, 4096),  # output projection of attention
    (4096, 10240, 8192),  # Llama 3.1 70B: query, key and value projections
    (4096, 8192, 28672),  # down projection
    (4096, 10240, 5120),  # Qwen3 32B: query, key and value projections
    (4096, 5120, 25600),  # down projection
    (4096, 2112, 7168),  # DeepSeek V3: compressed queries, keys and values
    (4096, 24576, 1536),  # query projection
    (4096, 7168, 2048),  # down projection of an expert
    (512, 28672, 4096),
    (256, 6144, 4096),
    (128, 7168, 16384),
    (64, 28672, 4096),
    (64, 5120, 25600),
    (32, 8192, 8192),
    (16, 6144, 4096),
    (16, 2112, 7168),
    (8, 4096, 14336),
    (4, 57344, 8192),
    (1, 4096, 4096),
)
_E4M3 = ((4096, 7168, 2048), (4096, 24576, 1536), (64, 7168, 16384), (4096, 4096, 7168))
_SQUARES = (1024, 2048, 8192)
_ODD = ((1023, 1025, 1027), (4095, 4097, 4099), (333, 7777, 2047), (1000, 1000, 1000))

FINALS: tuple[Problem, ...] = (
    *(Matmul(m=m, n=n, k=k, a="bf16", order_b="col") for m, n, k in _LAYERS),
    Matmul(m=4095, n=4097, k=4099),
    Matmul(m=1000, n=1000, k=1000),
)
"""Problems whose times are compared with cuBLAS. Some have odd sizes or few rows."""

PROBLEMS: tuple[Problem, ...] = (
    *FINALS,
    *(Matmul(m=m, n=n, k=k, a="e4m3", order_b="col") for m, n, k in _E4M3),
    *(Matmul(m=size, n=size, k=size, a="bf16") for size in _SQUARES),
    *(Matmul(m=m, n=n, k=k) for m, n, k in _ODD if (m, n, k) not in ((4095, 4097, 4099), (1000, 1000, 1000))),
    Matmul(m=4096, n=4096, k=4096, a="i8", order_b="col"),
    Matmul(m=2048, n=2048, k=2048, a="f32"),
    Matmul(m=4096, n=4096, k=4096, a="f32"),
    Matmul(m=2048, n=2048, k=2048, order_a="col"),
    Matmul(m=4096, n=4096, k=4096, epilogue="bias+gelu"),
    Matmul(m=1024, n=1024, k=128, batch=64, order_b="col"),
    Matmul(m=256, n=256, k=256, batch=256),
    Matmul(m=512, n=512, k=32768, a="bf16"),
    Matmul(m=16384, n=128, k=8192, a="bf16"),
    Matmul(m=4096, n=4096, k=4096),
    Matvec(m=1, n=4096, k=4096, x="bf16", out="bf16"),
    Matvec(m=4, n=6656, k=16384),
    *(Softmax(4096, columns) for columns in (1024, 8192, 65536)),
    *(RmsNorm(4096, columns) for columns in (1024, 8192, 65536)),
    LayerNorm(4096, 8192),
    LayerNorm(4096, 65536),
    *(Reduce(4096, columns) for columns in (1024, 8192, 65536)),
    Reduce(16384, 16384, axis="column"),
    Transpose(8192, 8192, dtype="u16"),
    Transpose(8192, 8192),
    Copy(8192, 8192),
)

YARDSTICKS: tuple[Problem, ...] = (
    *(Copy(rows, 8192) for rows in (512, 2048, 8192, 16384, 32768)),
    Reduce(32768, 8192),
)
"""Problems that measure bandwidth: copies of 32 MB to 2 GB, and a sum, whose traffic is almost only reads."""

SUSTAINED: Problem = Matmul(m=8192, n=8192, k=8192, a="bf16")
"""A matmul large enough to run at the power limit of an H100."""


@dataclass(frozen=True)
class NextToTorch:
    """An operator of language models, and torch's equivalent.

    Attributes:
        problem: The operator.
        torch_call: A key of ``device_child.LANGUAGE``; "" if torch has no equivalent.
        torch_computes: Description of torch's call and of its differences from the operator; without a call, the
            feature that torch lacks.
    """

    problem: Problem
    torch_call: str
    torch_computes: str

    @property
    def key(self) -> str:
        return one_line(self.problem)


def _attention(heads: int, kv_heads: int, positions: int, size: int, causal: int = 1) -> NextToTorch:
    problem = Attention(
        batch=1, heads=heads, kv_heads=kv_heads, queries=positions, head_size=size, causal=causal, dtype="f16"
    )
    return NextToTorch(problem, "attention", "scaled_dot_product_attention")


_HEADS = {"heads": 32, "kv_heads": 8}
_DECODE = {"batch": 4, **_HEADS, "entries": 32, "page": 64}
_LOSS = {"rows": 2048, "columns": 32000}
_LINEAR = {"rows": 1024, "columns": 32000, "k": 2048}
_WEIGHTS = {"n": 6144, "k": 4096, "dtype": "bf16", "layout": "fragments"}
_UNPAGED = "scaled_dot_product_attention of contiguous keys: torch has no paged cache"

LANGUAGE: tuple[NextToTorch, ...] = (
    *(_attention(*shape) for shape in ((8, 2, 2048, 128), (32, 8, 2048, 128), (16, 16, 4096, 64))),
    *(_attention(*shape, causal=0) for shape in ((8, 2, 2048, 128), (32, 8, 2048, 128))),
    NextToTorch(DecodeAttention(**_DECODE), "decode_attention", _UNPAGED),
    NextToTorch(DecodeAttention(**_DECODE, cache="e4m3"), "", "no attention over a cache of e4m3"),
    *(NextToTorch(QuantizedMatmul(m=m, group=128, **_WEIGHTS), "int4_matmul", "_weight_int4pack_mm") for m in (16, 64)),
    NextToTorch(QuantizedMatmul(m=16, weights="int8", **_WEIGHTS), "int8_matmul", "_weight_int8pack_mm"),
    NextToTorch(GroupedMatmul(m=4096, n=1024, k=2048, groups=16), "grouped_matmul", "grouped_mm"),
    NextToTorch(
        GroupedMatmul(m=4096, n=1024, k=2048, groups=16, dtype="e4m3", w_order="col"),
        "", "no grouped product with scales of blocks",
    ),
    NextToTorch(
        Matmul(m=4096, n=6144, k=4096, a="e4m3", order_b="col", scale="row_column", out="bf16"),
        "scaled_matmul", "_scaled_mm",
    ),
    NextToTorch(RmsNorm(4096, 8192, "bf16"), "rms_norm", "rms_norm"),
    NextToTorch(RmsNormQuantize(4096, 4096), "residual_rms_norm", "an addition and rms_norm: nothing is quantised"),
    NextToTorch(CrossEntropy(**_LOSS), "cross_entropy", "cross_entropy"),
    NextToTorch(CrossEntropyBackward(**_LOSS), "cross_entropy_backward", "the gradient of cross_entropy"),
    NextToTorch(LinearCrossEntropy(**_LINEAR), "linear_cross_entropy",
                "linear_cross_entropy (before torch 2.13: a matmul, then cross_entropy)"),
    NextToTorch(LinearCrossEntropyDlogits(**_LINEAR), "", "torch has no function that computes only these gradients"),
    NextToTorch(AttentionBackward(batch=1, heads=8, kv_heads=8, queries=1024, causal=1), "attention_backward",
                "the gradient of scaled_dot_product_attention"),
    NextToTorch(RouterTopK(4096, 128, top=8), "router_topk", "topk and softmax"),
    NextToTorch(QkNormRope(1024, 32), "", "no rotary positions"),
    *(NextToTorch(QkNormRopeAppend(tokens, **_HEADS, page=64), "", "no paged cache") for tokens in (1, 1024)),
)  # fmt: skip
"""Operators measured next to torch's equivalents, if torch has any."""
