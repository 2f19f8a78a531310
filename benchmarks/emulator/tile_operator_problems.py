"""Problems of operators with tile programs; ``sampled_verifications`` samples and verifies their schedules.

Small problems, such as the first problem of each operator, are emulated completely. Problems with sizes of real models
are verified on smaller (reduced) problems.
"""

from __future__ import annotations

from dataclasses import replace

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
from search_spaces.tile_operators.tile_problem import TileOperator

_APPEND = QkNormRopeAppend(3, 4, 2, page=16, pages=4, head_size=32, length=20)
_LINEAR, _DLOGITS = LinearCrossEntropy(70, 300, 72), LinearCrossEntropyDlogits(70, 150, 72, dtype="f16")
_DECODE = DecodeAttention(batch=2, heads=8, kv_heads=2, head_size=32, entries=5, page=16, pages=11)
_PAGES = DecodeAttention(batch=16, heads=32, kv_heads=8, pages=1024, entries=128)
_ATTENTION = Attention(batch=1, heads=2, kv_heads=1, queries=70, keys=150, head_size=64, causal=1)
_LONG = Attention(batch=1, heads=8, kv_heads=8, queries=4000, causal=1)
_GRADIENTS = AttentionBackward(batch=1, heads=2, kv_heads=1, queries=70, head_size=64, causal=1)
_INT4, _GROUPED = QuantizedMatmul(m=20, n=140, k=256), GroupedMatmul(m=90, n=136, k=72, groups=4)

PROBLEMS: dict[str, tuple[TileOperator, ...]] = {
    "rmsnorm_quantize": (RmsNormQuantize(6, 200), RmsNormQuantize(3, 4096, dtype="f16"), RmsNormQuantize(1000, 5000)),
    "qk_norm_rope": (
        QkNormRope(3, 5, 32, length=20),
        QkNormRope(3, 8, 64, length=20, norm=0, dtype="f16"),
        QkNormRope(tokens=2000, heads=30),
    ),
    "qk_norm_rope_append": (
        _APPEND,
        replace(_APPEND, tokens=5, kv_heads=3, page=64, norm=0, dtype="f16", order="heads", pages=2),
        QkNormRopeAppend(9, 3, 2, 32, sequences=3, entries=2, length=40, cache="e4m3", dtype="f16"),
        QkNormRopeAppend(tokens=1000, heads=32, kv_heads=8, sequences=8, entries=64),
    ),
    "router_topk": (
        RouterTopK(9, 60, top=6),
        RouterTopK(9, 64, top=3, renormalize=0, dtype="bf16"),
        RouterTopK(tokens=5000, experts=256),
    ),
    "cross_entropy": (CrossEntropy(5, 1300), CrossEntropy(3, 900, dtype="f32"), CrossEntropy(2000, 32000)),
    "cross_entropy_backward": (
        CrossEntropyBackward(5, 1300),
        CrossEntropyBackward(3, 900, dtype="f32"),
        CrossEntropyBackward(2000, 32000),
    ),
    "linear_cross_entropy": (
        _LINEAR,
        replace(_LINEAR, rows=66, columns=1000, k=256, dtype="f16"),
        replace(_LINEAR, rows=2000, columns=32000, k=4096),
    ),
    "linear_cross_entropy_dlogits": (
        _DLOGITS,
        replace(_DLOGITS, rows=66, columns=500, k=256, dtype="bf16"),
        replace(_DLOGITS, rows=2000, columns=32000, k=4096),
    ),
    "decode_attention": (
        _DECODE,
        replace(_DECODE, queries=3, page=128, order="heads", entries=2, pages=4),
        replace(_DECODE, cache="e4m3", dtype="bf16"),
        _PAGES,
        replace(_PAGES, page=64, pages=256, entries=32, cache="e4m3", queries=2),
    ),
    "attention": (
        _ATTENTION,
        replace(_ATTENTION, queries=100, keys=100, alibi=1, sinks=1, log_sum_exp=1),
        replace(_ATTENTION, batch=3, queries=150, packed=1, window=33, soft_cap=4.0, keys=150),
        replace(_ATTENTION, queries=300, keys=300, head_size=32, value_size=32, dtype="f16", log_sum_exp=1),
        _LONG,
        replace(_LONG, queries=300, keys=16384, sinks=1),
        replace(_LONG, queries=8192, keys=8192, heads=32, window=1000),
        replace(_LONG, queries=1000, keys=3000, causal=0, head_size=96, value_size=64),
    ),
    "attention_backward": (
        _GRADIENTS,
        replace(_GRADIENTS, head_size=32, dtype="f16", window=33, keys=130),
        replace(_GRADIENTS, batch=3, packed=1, queries=80, keys=80, window=30, soft_cap=2.0, alibi=1),
        AttentionBackward(batch=1, heads=8, kv_heads=4, queries=2000, causal=1),
    ),
    "quantized_matmul": (
        _INT4,
        replace(_INT4, m=3, weights="int8", group=0, dtype="bf16"),
        replace(_INT4, m=300, zero_points=1, group=64),
        replace(_INT4, weights="nvf4", group=16, layout="fragments"),
        QuantizedMatmul(m=16, n=6144, k=4096),
        QuantizedMatmul(m=512, n=4096, k=4096, weights="e4m3", group=0, dtype="bf16"),
    ),
    "grouped_matmul": (
        _GROUPED,
        replace(_GROUPED, n=40, activation="silu_up", tokens=40, w_order="col", dtype="f16"),
        replace(_GROUPED, m=70, groups=3, rows="masked"),
        replace(_GROUPED, k=256, dtype="f16", w_order="col", weights="int4", scale_group=128, zero_points=1),
        GroupedMatmul(m=4096, n=4096, k=4096, groups=8),
        GroupedMatmul(m=2048, n=1024, k=2048, groups=64, activation="silu_up"),
    ),
}
