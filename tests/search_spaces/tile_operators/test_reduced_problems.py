"""Reduced problems exercise every feature of the problems that they represent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from search_spaces.hardware.devices import device
from search_spaces.tile_operators.attention import Attention
from search_spaces.tile_operators.attention_backward import AttentionBackward
from search_spaces.tile_operators.decode_attention import DecodeAttention
from search_spaces.tile_operators.grouped_matmul import BLOCK, GroupedMatmul
from search_spaces.tile_operators.linear_cross_entropy import LinearCrossEntropy, LinearCrossEntropyDlogits
from search_spaces.tile_operators.quantized_matmul import QuantizedMatmul
from search_spaces.tile_operators.tile_problem import ReducedLoops, TileOperator
from search_spaces.tile_operators.tile_template import tile_template

LONG = Attention(batch=4, heads=32, kv_heads=8, queries=8192, causal=1)
SHORT = replace(LONG, queries=500, keys=8192)
GRADIENTS = AttentionBackward(batch=4, heads=32, kv_heads=8, queries=8192, causal=1)
DECODE = DecodeAttention(batch=64, heads=32, kv_heads=8, entries=64)
INT4 = QuantizedMatmul(m=512, n=4096, k=4096)
GROUPED = GroupedMatmul(m=8192, n=4096, k=4096, groups=8, dtype="e4m3", w_order="col")
EXPERTS = replace(GROUPED, dtype="bf16", weights="int4", scale_group=128)
PROBLEMS: dict[str, TileOperator] = {
    "experts of int4": EXPERTS,
    "experts of packed int8": replace(EXPERTS, weights="int8", scale_group=0, layout="fragments", k=4160),
    "causal": LONG,
    "a few tiles": replace(LONG, queries=1000, keys=1000, batch=1, heads=8, kv_heads=4),
    "whole": replace(LONG, causal=0),
    "window": replace(LONG, window=4096),
    "window of no whole tiles": replace(LONG, queries=1000, keys=1000, window=200),
    "window, packed": replace(LONG, window=1000, packed=1),
    "window that hides nothing": replace(LONG, window=8192),
    "after a prefix": SHORT,
    "window after a prefix": replace(SHORT, window=513),
    "more queries than keys": replace(LONG, keys=300),
    "gradients": GRADIENTS,
    "gradients, window": replace(GRADIENTS, window=4096),
    "gradients, short window": replace(GRADIENTS, queries=1000, keys=1000, window=100),
    "gradients after a prefix": replace(GRADIENTS, queries=500),
    "gradients, packed": replace(GRADIENTS, causal=0, packed=1),
    "gradients, packed, window": replace(GRADIENTS, packed=1, window=1000),
    "pages": DECODE,
    "long pages": replace(DECODE, page=256, pages=0, cache="e4m3"),
    "int4": INT4,
    "int4, zero points": replace(INT4, zero_points=1, group=64),
    "int8, one group": replace(INT4, weights="int8", group=0),
    "nvf4": replace(INT4, weights="nvf4", group=16),
    "grouped": GROUPED,
    "grouped, gate and up": replace(GROUPED, activation="silu_up"),
    "grouped, masked": replace(GROUPED, rows="masked"),
    "linear layer": LinearCrossEntropy(rows=4096, columns=32000, k=4096),
}
CHOICES = {
    "attention": {"bm": (64, 128), "bn": (32, 64, 128)},
    "attention_backward": {"bm": (64, 128), "bn": (32, 128), "bt": (64, 128), "bs": (32, 128)},
    "decode_attention": {"bn": (32, 128)},
    "quantized_matmul": {"bm": (8, 256), "bn": (64, 128), "bk": (64, 128)},
    "grouped_matmul": {"bm": (16, 256), "bn": (64, 128), "bk": (128,)},
    "linear_cross_entropy": {"bm": (64, 128), "bn": (64, 128), "bk": (32, 64), "width": (512,)},
}


def features(problem: TileOperator, chosen: dict[str, int]) -> Iterator[str]:
    """Yield the features that a kernel uses for a problem, and might not use for a smaller problem."""
    match problem:
        case Attention() | AttentionBackward():
            yield from _features_of_attention(problem, chosen)
        case DecodeAttention():
            yield from _several(sequences=problem.batch, groups=problem.kv_heads, heads=problem.group)
            yield from _several(pages=problem.entries)
        case QuantizedMatmul():
            yield from _several(
                groups=problem.groups, tiles=-(-problem.n // chosen["bn"]), rows=-(-problem.m // chosen["bm"])
            )
            yield f"{problem.k % 128} after whole spans"
            domains = problem.tile_problem().program.domains(problem.tile_problem().values)
            yield f"tiles of {domains['bm']} rows, {domains['bk']} columns"  # one schedule must fit both
        case GroupedMatmul() if problem.quantised:
            yield from _several(groups=problem.groups, scales=problem.format.scales(problem.k))
            yield from _several(tiles=-(-problem.n // chosen["bn"]), steps=problem.k // chosen["bk"])
            yield f"{problem.k % 128} after whole spans"
        case GroupedMatmul():
            yield from _several(blocks=problem.width_blocks, steps=problem.k_blocks, groups=problem.groups)
            yield from _several(tiles=-(-problem.n // chosen["bn"]), own_blocks=-(-problem.n // BLOCK))
        case LinearCrossEntropy():
            yield from _several(tiles=-(-problem.rows // chosen["bm"]), columns=-(-problem.columns // chosen["bn"]))


def _several(**counts: int) -> Iterator[str]:
    yield from (f"several {name}" for name, count in counts.items() if count > 1)


def _features_of_attention(problem: Attention | AttentionBackward, chosen: dict[str, int]) -> Iterator[str]:
    yield from _several(sequences=problem.batch, groups=problem.kv_heads, heads=problem.group)
    yield from _several(tiles=-(-problem.queries // chosen["bm"]), steps=-(-problem.keys // chosen["bn"]))
    offset = problem.keys - problem.queries
    if problem.causal:
        yield "queries without keys" if offset < 0 else "a prefix" if offset else "nothing before the first query"
    longest = problem.keys  # keys of the longest sequence, which has at least half of all packed keys
    if problem.packed and problem.batch > 1:
        longest = problem.keys // 2
    if not problem.window:
        return
    of_tile = longest - chosen["bm"]  # upper bound of the first query's position among keys, in the last whole tile
    if of_tile - problem.window + 1 >= chosen["bn"]:
        yield "the loop over keys begins at a later tile"
    yield f"a window that ends {'within' if problem.window % 32 else 'with'} a tile"
    if "bt" in chosen and chosen["bt"] + problem.window + chosen["bs"] <= longest:
        yield "the loop over queries ends before the last tile"


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_reduced_problem_has_all_features(name: str, count: int) -> None:
    problem = PROBLEMS[name]
    names, values = zip(*CHOICES[problem.operator].items(), strict=True)
    for some in product(*values):
        chosen = dict(zip(names, some, strict=True))
        small = problem.reduced(ReducedLoops(count, chosen))
        assert set(features(small, chosen)) >= set(features(problem, chosen)), (chosen, small)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_reduced_problem_is_no_larger(name: str) -> None:
    problem = PROBLEMS[name]
    chosen = {tile: values[0] for tile, values in CHOICES[problem.operator].items()}
    small = problem.reduced(ReducedLoops(2, chosen))
    assert small.flops < problem.flops / 8
    assert small.reduced(ReducedLoops(2, chosen)) == small


@pytest.mark.parametrize(
    ("problem", "name"),
    [
        (LinearCrossEntropyDlogits(rows=2000, columns=32000, k=4096, dtype="f16"), "stream_k"),
        (LinearCrossEntropyDlogits(rows=200, columns=32000, k=4096), "stream_k"),
        (LinearCrossEntropy(rows=2000, columns=32000, k=4096), "products_stream_k"),
    ],
)
def test_schedules_with_stream_k_are_legal_for_the_reduced_problem(problem: TileOperator, name: str) -> None:
    template, chip = tile_template(type(problem)), device("a100")
    assert template.proxy is not None
    schedules = [s for s in template.space(problem, chip).sample(400, 1) if s[name]]
    assert schedules
    for schedule in schedules[:3]:
        small = template.proxy(problem, schedule)
        assert small.flops < problem.flops / 100
        template.config(small, schedule, chip)  # raises ValueError if the schedule is illegal
