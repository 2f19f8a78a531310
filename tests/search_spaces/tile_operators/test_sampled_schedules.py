"""Two hundred sampled schedules of each operator are right in the emulator."""

from __future__ import annotations

import pytest
from tile_operator_checks import kernel_of, outcome, sampled

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

PROBLEMS: tuple[TileOperator, ...] = (
    RmsNormQuantize(6, 200),
    QkNormRope(3, 5, 32, length=20),
    QkNormRopeAppend(3, 4, 2, page=16, pages=4, head_size=32, length=20),
    RouterTopK(9, 60, top=6),
    CrossEntropy(5, 1300),
    CrossEntropyBackward(5, 1300),
    LinearCrossEntropy(70, 300, 72),
    LinearCrossEntropyDlogits(70, 150, 72, dtype="f16"),
    DecodeAttention(batch=2, heads=8, kv_heads=2, head_size=32, entries=5, page=16, pages=11),
    Attention(batch=1, heads=2, kv_heads=1, queries=70, keys=150, head_size=64, causal=1),
    AttentionBackward(batch=1, heads=2, kv_heads=1, queries=70, head_size=64, causal=1),
    QuantizedMatmul(m=20, n=140, k=256),
    GroupedMatmul(m=90, n=136, k=72, groups=4),
)
SCHEDULES = 200


@pytest.mark.nightly
@pytest.mark.parametrize("gpu", ["a100", "h100"])
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.operator)
def test_sampled_schedules_are_right(problem: TileOperator, gpu: str) -> None:
    schedules = sampled(problem, gpu, SCHEDULES // 2, seed=7)
    assert [s for s in schedules if outcome(problem, kernel_of(problem, gpu, s)) != "ok"] == []
