"""Small problems of every operator with a tile program, and torch calls that compute these problems."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from search_spaces.launches.operand import Operand
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

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "i32": torch.int32, "u8": torch.uint8,
         "i8": torch.int8, "e4m3": torch.float8_e4m3fn}  # fmt: skip
PROBLEMS: dict[str, TileOperator] = {
    "decode_attention": DecodeAttention(batch=2, heads=4, kv_heads=2, head_size=32, entries=3, page=16),
    "quantized_matmul": QuantizedMatmul(m=3, n=24, k=128, group=64, zero_points=1, dtype="bf16"),
    "attention": Attention(
        batch=2, heads=4, kv_heads=2, queries=9, head_size=16, packed=1, causal=1, window=4, sinks=1, soft_cap=3.0
    ),
    "attention_backward": AttentionBackward(batch=2, heads=4, kv_heads=2, queries=9, keys=12, head_size=16, causal=1),
    "rmsnorm_quantize": RmsNormQuantize(3, 40, eps=1e-3),
    "qk_norm_rope": QkNormRope(3, 2, 16, length=9),
    "qk_norm_rope_append": QkNormRopeAppend(3, 2, 1, 16, length=9),
    "router_topk": RouterTopK(4, 12, top=3),
    "cross_entropy": CrossEntropy(3, 40),
    "cross_entropy_backward": CrossEntropyBackward(3, 40),
    "linear_cross_entropy": LinearCrossEntropy(3, 40, 24),
    "linear_cross_entropy_dlogits": LinearCrossEntropyDlogits(3, 40, 24),
    "grouped_matmul": GroupedMatmul(m=40, n=16, k=24, groups=3, tokens=10, activation="silu_up"),
}


def tensor(operand: Operand, stored: Any) -> Any:
    flat = torch.from_numpy(np.ascontiguousarray(stored).view(np.uint8).reshape(-1).copy())
    return flat.view(TYPES[operand.dtype.name]).reshape(operand.shape)


def called(problem: TileOperator) -> tuple[list[Any], dict[str, Any]]:
    """Return the positional arguments (tensors) and the keyword arguments (tensors and options) of a call."""
    stored = problem.random_inputs(1)
    tensors = {o.name: tensor(o, stored[o.name]) for o in problem.operands() if o.role != "output"}
    options = {name: type(usual)(getattr(problem, name)) for name, usual in problem.call_options.items()}
    return [tensors.pop(name) for name in problem.inputs], {**tensors, **options}


def outputs(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple | list) else [result]
