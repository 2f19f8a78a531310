"""A schedule of wgmma_matmul, and small schedules in which each decision has an effect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kernels import generate

from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.parameters import Value
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.wgmma_matmul.proxy import proxy
from search_spaces.templates.wgmma_matmul.transposed import WGMMA_MATMUL_TRANSPOSED

H200 = device("h200")
PROBLEM = Matmul(4096, 4096, 4096, a="bf16")
_GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "wgmma" / "bf16_specialised.json").read_text())
GOOD = Schedule.from_json(_GOLDEN["template"], _GOLDEN["schedule"])
SMALL = GOOD.replace(
    **{"tile_m": 64, "tile_n": 32, "consumer_warpgroups": 1, "stages": 2, "producer_registers": 0, "raster": "row"},
    **{"store_buffers": 0, "tiles_per_block": 1, "cluster_m": 1, "stream_k": 0},
)
BY_THREADS: dict[str, Value] = {"copy_a": "cp.async", "copy_b": "cp.async"}
FROM_REGISTERS: dict[str, Value] = {"a_operand_source": "registers", "in_flight": 0}
# For each decision: (changes to the small schedule, changes to the problem).
CASES: dict[str, tuple[dict[str, Value], dict[str, Any]]] = {
    "stores of f32 past the edges": (
        {"tile_m": 128, "store_buffers": 2},
        {"m": 131, "n": 100, "out": "f32", "epilogue": "bias+gelu"},
    ),
    "many stages, and a tile of 56 columns": ({"tile_n": 56, "stages": 12, "tile_m": 64}, {"k": 1480, "n": 104}),
    "a tile of more rows than a box": ({"tile_m": 320, "tile_n": 16, "store_buffers": 1}, {"m": 331, "n": 24}),
    "persistent": ({"tiles_per_block": 3}, {}),
    "persistent, staged whole": (
        {
            "tile_m": 128,
            "tile_n": 128,
            "consumer_warpgroups": 2,
            "producer_registers": 40,
            "tiles_per_block": 3,
            "store_buffers": 2,
        },
        {"n": 256, "epilogue": "gelu"},
    ),
    "persistent, with stores": (
        {
            "tile_m": 128,
            "tile_n": 128,
            "consumer_warpgroups": 2,
            "producer_registers": 40,
            "tiles_per_block": 3,
            "store_buffers": 1,
        },
        {"n": 256, "epilogue": "relu"},
    ),
    "taking turns": (
        {"consumer_warpgroups": 2, "tiles_per_block": 3, "ping_pong": 1, "in_flight": 0, "store_buffers": 1},
        {},
    ),
    "taking turns, with registers": ({"consumer_warpgroups": 2, "tiles_per_block": 4, "ping_pong": 1, "stages": 3}, {}),
    "cluster along m": ({"cluster_m": 2, "store_buffers": 1}, {}),
    "cluster along n": ({"cluster_n": 2, "swizzle_b": 64}, {"order_a": "col", "order_b": "row"}),
    "cluster along m, several boxes per tile of b": (
        {"cluster_m": 2, "tile_n": 64, "swizzle_b": 32},
        {"order_b": "row"},
    ),
    "cluster of four along n": ({"cluster_n": 4, "tile_n": 8}, {}),
    "cluster of four, with splits": ({"cluster_m": 4, "split_k": 2}, {"k": 640}),
    "copied by a warp": ({"stages": 3, "in_flight": 0}, {"k": 322}),
    "copied along n, beside TMA": (
        {"tile_m": 128, "tile_n": 64, "consumer_warpgroups": 2, "producer_registers": 48, "stages": 4},
        {"n": 132, "order_b": "row"},
    ),
    "copied, beside multicast": ({"tile_n": 64, "cluster_m": 2}, {"k": 322, "order_b": "row"}),
    "copied by threads although TMA could": (
        {"tile_m": 128, "tile_n": 64, "consumer_warpgroups": 2, "producer_registers": 48, "stages": 3, **BY_THREADS},
        {"m": 131, "k": 328, "n": 136, "order_b": "row"},
    ),
    "a copied by a warp, b by TMA, ping-pong": (
        {
            "consumer_warpgroups": 2,
            "tiles_per_block": 3,
            "ping_pong": 1,
            "stages": 3,
            "cluster_m": 2,
            "copy_a": "cp.async",
        },
        {"order_a": "col", "batch": 2},
    ),
    "b copied by a warp without a swizzle": (
        {"copy_b": "cp.async", "swizzle_b": 0, "tile_k": 128, "tile_n": 24, "split_k": 2, "cluster_n": 2},
        {"a": "e4m3", "out": "bf16", "n": 96, "k": 656},
    ),
    "a from registers": (
        {**FROM_REGISTERS, "tile_m": 128, "tile_n": 48, "swizzle_b": 32, "split_k": 2},
        {"m": 131, "k": 648, "order_b": "row"},
    ),
    "a from registers, along m, ping-pong": (
        {
            **FROM_REGISTERS,
            "consumer_warpgroups": 2,
            "tiles_per_block": 3,
            "ping_pong": 1,
            "swizzle_a": 64,
            "cluster_n": 2,
        },
        {"order_a": "col", "a": "f16"},
    ),
    "8-bit a from registers, without a swizzle": (
        {
            **FROM_REGISTERS,
            "tile_k": 128,
            "swizzle_a": 0,
            "tile_m": 128,
            "consumer_warpgroups": 2,
            "producer_registers": 40,
        },
        {"a": "i8", "m": 131},
    ),
    "32-bit a from registers, along m": (
        {
            **FROM_REGISTERS,
            "tile_k": 32,
            "tile_m": 128,
            "consumer_warpgroups": 2,
            "producer_registers": 40,
            "cluster_m": 2,
        },
        {"a": "f32", "order_a": "col", "m": 512},
    ),
    "32-bit a from registers, along m, copied by threads": (
        {**FROM_REGISTERS, "tile_k": 32, "swizzle_a": 32},
        {"a": "f32", "order_a": "col", "m": 129},
    ),
    "shifted": (
        {"tile_m": 128, "tile_n": 48, "consumer_warpgroups": 2, "producer_registers": 64, "stages": 3, "swizzle_b": 32},
        {"m": 131, "n": 101, "k": 323, "order_a": "row", "order_b": "row"},
    ),
    "ping-pong, each matrix shifted by a different distance": (
        {
            "tile_n": 64,
            "consumer_warpgroups": 2,
            "producer_registers": 64,
            "stages": 3,
            "tiles_per_block": 3,
            "ping_pong": 1,
        },
        {"m": 129, "n": 65, "k": 131, "batch": 3, "order_a": "col", "order_b": "row"},
    ),
    "shifted bytes, by a warp": ({"tile_k": 128}, {"a": "i8", "k": 321}),
    "stream-K": ({"tiles_per_block": 2, "stream_k": 1}, {"m": 192, "n": 64, "batch": 1}),
    "stream-K, with stores": (
        {
            "tile_m": 128,
            "consumer_warpgroups": 2,
            "tiles_per_block": 3,
            "stream_k": 1,
            "store_buffers": 1,
            "in_flight": 0,
        },
        {"m": 700, "n": 92, "k": 500, "epilogue": "bias+gelu", "out": "f32"},
    ),
    "stream-K, ping-pong, in clusters": (
        {
            "consumer_warpgroups": 2,
            "tiles_per_block": 3,
            "ping_pong": 1,
            "stream_k": 1,
            "cluster_m": 2,
            "store_buffers": 1,
        },
        {"m": 512, "batch": 3},
    ),
    "all of it": (
        {
            "consumer_warpgroups": 2,
            "tiles_per_block": 2,
            "ping_pong": 1,
            "cluster_m": 2,
            "cluster_n": 2,
            "store_buffers": 1,
        },
        {"batch": 2},
    ),
}


# Cases of the transposed template, which computes out^T: a column of out^T is a row of out. If a block computes several
# tiles, it has the columns of all of these tiles.
TRANSPOSED: dict[str, tuple[dict[str, Value], dict[str, Any]]] = {
    "few rows": ({"tile_n": 16}, {"m": 16, "n": 136, "epilogue": "bias+silu"}),
    "odd rows of f32": ({"tile_n": 24, "tile_m": 128}, {"m": 17, "n": 131, "out": "f32", "epilogue": "bias"}),
    "splits, by columns": (
        {"tile_n": 16, "split_k": 2, "swizzle_b": 32},
        {"m": 8, "n": 136, "k": 640, "order_a": "col"},
    ),
    "copied by threads": (
        {"tile_n": 8, "swizzle_b": 0, "stages": 3, **BY_THREADS},
        {"m": 8, "n": 136, "order_a": "col"},
    ),
    "words of b along n": (
        {**FROM_REGISTERS, "tile_n": 16, "tile_k": 32},
        {"a": "f32", "m": 16, "n": 132, "order_b": "row", "epilogue": "bias"},
    ),
    "words of b along n, many rows": (
        {**FROM_REGISTERS, "tile_m": 128, "tile_n": 48, "tile_k": 32, "cluster_m": 2, "consumer_warpgroups": 2},
        {"a": "f32", "m": 150, "n": 512, "order_b": "row", "epilogue": "bias+gelu"},
    ),
    "by rows, ping-pong": (
        {"tiles_per_block": 3, "tile_n": 16, "ping_pong": 1, "consumer_warpgroups": 2, "cluster_m": 2},
        {"m": 5, "n": 512, "order_b": "row", "batch": 2},
    ),
}


def small_transposed(changes: dict[str, Value], fields: dict[str, Any]) -> tuple[Matmul, GeneratedKernel]:
    problem = Matmul(**{"m": 16, "n": 128, "k": 320, "a": "bf16", "order_b": "col", **fields})
    schedule = Schedule.from_json("wgmma_matmul_transposed", {**SMALL.to_json(), **changes})
    small = WGMMA_MATMUL_TRANSPOSED.proxy(problem, schedule) if WGMMA_MATMUL_TRANSPOSED.proxy else problem
    return small, generate(small, schedule, H200)


def small_kernel(changes: dict[str, Value], fields: dict[str, Any]) -> tuple[Matmul, GeneratedKernel]:
    problem = Matmul(**{"m": 256, "n": 128, "k": 320, "a": "bf16", "order_b": "col", **fields})
    schedule = Schedule.from_json("wgmma_matmul", {**SMALL.to_json(), **changes})
    small = proxy(problem, schedule)
    return small, generate(small, schedule, H200)
