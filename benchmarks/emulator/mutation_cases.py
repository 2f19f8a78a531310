"""Correct kernels to which mutations are applied.

These are the golden cases, and schedules of wgmma_matmul and matmul for code paths that the golden cases do not reach.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from autosched.verify.schedule_runs import emulated_problem
from search_spaces.catalogue import problem_from_json, template
from search_spaces.hardware.devices import Device, device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Reduce
from search_spaces.spaces.schedule import Schedule

GOLDEN = Path(__file__).parents[2] / "tests/golden"
LARGE = ("matvec_document", "matvec_document_expanded")  # golden cases that are excluded, because each takes minutes

Changes = dict[str, int | str]  # new values of a schedule's parameters, by name

# Schedules of wgmma_matmul, as changes to the schedule in tests/golden/wgmma/bf16_specialised.json.
_ALONE: Changes = {
    **{"tile_m": 64, "tile_n": 32, "consumer_warpgroups": 1, "stages": 2, "producer_registers": 0, "raster": "row"},
    **{"store_buffers": 0, "tiles_per_block": 1, "cluster_m": 1},
}
_BOTH: Changes = {**_ALONE, "tile_m": 128, "tile_n": 64, "consumer_warpgroups": 2, "producer_registers": 40}
_IN_TURN: Changes = {**_ALONE, "consumer_warpgroups": 2, "tiles_per_block": 3, "ping_pong": 1}
_CURVE: Changes = {**_ALONE, "tile_n": 8, "raster": "hilbert"}
# The cases combine storage orders, batches, epilogues, and sizes that no tile divides. Each code path of the kernel
# runs with several more k-tiles than stages.
_WGMMA: dict[str, tuple[Matmul, Changes]] = {
    "boxes_f32": (
        Matmul(131, 136, 200, a="f16", b="f16", out="f32"),
        {**_BOTH, "tile_n": 128, "stages": 3, "store_buffers": 2, "raster": "column"},
    ),
    "three_consumers": (
        Matmul(201, 101, 264, batch=2, a="bf16", b="bf16", order_b="col", epilogue="bias+relu"),
        {
            **_BOTH,
            "tile_m": 192,
            "tile_n": 80,
            "consumer_warpgroups": 3,
            "producer_registers": 24,
            "split_k": 2,
            "cluster_n": 2,
        },
    ),
    "columns_of_a": (
        Matmul(200, 72, 200, a="f16", b="f16", order_a="col", epilogue="bias+gelu"),
        {**_ALONE, "tile_n": 24, "tile_k": 128, "in_flight": 0, "swizzle_b": 0, "raster": "grouped_2"},
    ),
    "long_ring": (
        Matmul(72, 104, 840, a="bf16", b="bf16", order_a="col", order_b="row", out="f32"),
        {**_ALONE, "tile_m": 128, "tile_n": 48, "swizzle_b": 32, "stages": 8, "l2_promotion": 128},
    ),
    "odd_rows": (
        Matmul(300, 105, 264, a="f16", b="f16", order_b="col"),
        {**_BOTH, "tile_n": 80, "split_k": 2, "cluster_n": 2},
    ),
    "persistent": (
        Matmul(192, 160, 200, a="bf16", order_b="col", epilogue="relu", batch=2),
        {**_BOTH, "tiles_per_block": 3, "store_buffers": 1, "raster": "column"},
    ),
    "in_turn": (
        Matmul(136, 72, 264, a="bf16", order_b="col", epilogue="bias"),
        {**_IN_TURN, "in_flight": 0, "store_buffers": 1, "l2_evict_last": "a"},
    ),
    "cluster_m": (Matmul(128, 40, 320, a="f16", order_b="row", out="f32"), {**_ALONE, "cluster_m": 2, "swizzle_b": 64}),
    "cluster_of_four": (
        Matmul(128, 64, 200, a="bf16", order_b="col", batch=2),
        {**_IN_TURN, "tiles_per_block": 2, "cluster_m": 2, "cluster_n": 2, "store_buffers": 1},
    ),
    "narrow_boxes": (Matmul(72, 24, 200, a="f16", order_b="col"), {**_ALONE, "tile_n": 8, "store_buffers": 1}),
    "boxes_of_one_tile": (  # boxes with fewer columns than the tile
        Matmul(72, 24, 200, a="f16", order_b="col", epilogue="bias"),
        {**_ALONE, "tile_n": 32, "store_buffers": 1},
    ),
    "copied": (Matmul(67, 40, 322, a="f16", order_b="col"), {**_ALONE, "stages": 3, "in_flight": 0}),
    "copied_by_group": (
        Matmul(130, 132, 200, a="bf16", order_b="row", epilogue="silu"),
        {**_BOTH, "producer_registers": 48, "stages": 4},
    ),
    "copied_beside_multicast": (
        Matmul(128, 64, 322, a="f16", order_b="row"),
        {**_ALONE, "tile_n": 64, "cluster_m": 2},
    ),
    "shifted": (
        Matmul(131, 143, 263, a="bf16", order_b="row"),  # no box of the last tile is completely outside the output
        {**_BOTH, "tile_n": 48, "producer_registers": 64, "stages": 3, "swizzle_b": 32},
    ),
    "shifted_a": (  # only one operand is shifted, by an amount that depends on the batch index
        Matmul(67, 48, 131, a="f16", batch=2, order_b="row"),
        {**_BOTH, "tile_n": 48, "producer_registers": 64, "stages": 3, "swizzle_b": 32},
    ),
    "shifted_in_turn": (
        Matmul(129, 65, 131, a="f16", batch=3, order_a="col", order_b="row"),
        {**_IN_TURN, "tile_n": 64, "producer_registers": 64, "stages": 3},
    ),
    "shifted_bytes": (Matmul(70, 40, 321, a="i8", order_b="col"), {**_ALONE, "tile_k": 128}),
    "tf32": (Matmul(70, 40, 132, a="f32", order_b="col"), {**_ALONE, "tile_k": 32}),
    "scaled_blocks": (
        Matmul(131, 136, 400, a="e4m3", batch=2, scale="block"),
        {**_BOTH, "tile_n": 64, "tile_k": 128, "in_flight": 0},
    ),
    "scaled_in_turn": (
        Matmul(131, 136, 272, a="e4m3", scale="block"),
        {**_IN_TURN, "tile_n": 64, "tile_k": 128, "in_flight": 0},
    ),
    "scaled_splits": (
        Matmul(67, 136, 784, a="e4m3", scale="block"),
        {**_ALONE, "tile_n": 128, "tile_k": 128, "in_flight": 0, "split_k": 3},
    ),
    "stream_k": (
        Matmul(300, 40, 264, a="f16", order_b="col", epilogue="bias+relu"),
        {**_ALONE, "tile_n": 40, "tiles_per_block": 2, "stream_k": 1},
    ),
    "stream_k_of_two": (
        Matmul(300, 104, 200, a="bf16", epilogue="silu", batch=2, out="f32"),
        {**_BOTH, "tiles_per_block": 4, "store_buffers": 1, "stream_k": 1, "raster": "column"},
    ),
    "stream_k_in_turn": (
        Matmul(300, 40, 200, a="f16", order_b="col"),
        {**_IN_TURN, "tile_n": 24, "tiles_per_block": 4, "stream_k": 1},
    ),
    "stream_k_of_clusters": (
        Matmul(384, 72, 200, a="bf16", order_a="col", order_b="col", epilogue="bias"),
        {**_ALONE, "tile_n": 32, "tiles_per_block": 3, "cluster_m": 2, "stream_k": 1},
    ),
    # Hilbert curves for wide and for tall outputs. The first output has few tiles along one side, so the curve visits
    # them line by line.
    "hilbert": (Matmul(300, 72, 72, a="f16", order_b="col"), {**_ALONE, "tile_n": 24, "raster": "hilbert"}),
    "hilbert_square": (Matmul(560, 88, 72, a="f16", order_b="col"), _CURVE),
    "hilbert_wide": (Matmul(320, 135, 72, a="bf16"), {**_CURVE, "tiles_per_block": 2, "swizzle_b": 0}),
    # a curve that consists of several pieces, each of which covers four rows of tiles
    "hilbert_even": (Matmul(500, 157, 72, a="f16", order_b="col"), _CURVE),
    "hilbert_high": (Matmul(860, 41, 72, a="f16", order_b="col"), _CURVE),
    "fragments": (
        Matmul(131, 104, 264, a="bf16", order_b="row", epilogue="relu"),
        {**_BOTH, "tile_n": 48, "swizzle_b": 32, "a_operand_source": "registers", "in_flight": 0},
    ),
    "fragments_of_two": (  # each consumer has two fragments
        Matmul(260, 40, 136, a="f16", order_b="col"),
        {**_BOTH, "tile_m": 256, "tile_n": 24, "a_operand_source": "registers", "in_flight": 0, "swizzle_b": 32},
    ),
    "fragments_of_columns": (
        Matmul(136, 72, 200, a="f16", order_a="col", order_b="col"),
        {**_IN_TURN, "swizzle_a": 64, "a_operand_source": "registers", "in_flight": 0},
    ),
    "fragments_of_words": (
        Matmul(72, 40, 132, a="f32", order_a="col", order_b="col"),
        {**_ALONE, "tile_m": 128, "tile_k": 32, "a_operand_source": "registers", "in_flight": 0},
    ),
    "fragments_copied": (
        Matmul(67, 40, 200, a="f16", order_b="col"),
        {**_ALONE, "tile_k": 128, "a_operand_source": "registers", "in_flight": 0, "copy_a": "cp.async"},
    ),
    "copied_b": (
        Matmul(72, 40, 200, a="bf16", order_a="col"),
        {**_ALONE, "copy_b": "cp.async", "swizzle_b": 64},
    ),
    "one_column": (Matmul(67, 1, 136, a="f16", order_b="col"), {**_ALONE, "tile_n": 8}),
    # Sums in f16, two per register. The cases are: boxes that are stored in several parts, few columns with stream-K,
    # and operand ``a`` read from registers.
    "f16_sums_boxes": (
        Matmul(140, 136, 200, a="f16", acc="f16", order_b="col", epilogue="bias+gelu"),
        {**_ALONE, "tile_n": 96, "store_buffers": 1},
    ),
    "f16_sums_stream_k": (
        Matmul(300, 8, 264, a="f16", acc="f16"),
        {**_ALONE, "tile_n": 8, "swizzle_b": 0, "tiles_per_block": 3, "stream_k": 1},
    ),
    "f16_sums_fragments": (
        Matmul(140, 45, 400, a="f16", acc="f16", out="f32", order_a="col"),
        {
            **_ALONE,
            **{
                "tile_n": 24,
                "swizzle_b": 0,
                "copy_b": "cp.async",
                "a_operand_source": "registers",
                "in_flight": 0,
                "split_k": 2,
            },
        },
    ),
    "f16_sums_in_turn": (
        Matmul(296, 136, 264, a="f16", acc="f16", order_a="col", epilogue="silu"),
        {
            **{**_IN_TURN, "tile_m": 128, "producer_registers": 40, "tile_n": 80, "swizzle_b": 0, "store_buffers": 2},
            **{"tiles_per_block": 2},
        },
    ),
    "scaled_rows_alone": (  # wgmma reads a from registers, in two fragments
        Matmul(131, 37, 144, a="e4m3", scale="row_column", out="f32"),
        {**_ALONE, "tile_m": 128, "tile_k": 128},
    ),
    "scaled_tensors": (Matmul(67, 37, 144, a="e4m3", scale="tensor"), {**_ALONE, "tile_k": 128}),
    # An activation with many instructions, which is therefore applied to a few columns at a time.
    "in_parts": (Matmul(67, 72, 136, a="bf16", order_b="col", epilogue="bias+gelu"), {**_ALONE, "tile_n": 64}),
    "f16_sums_in_parts": (
        Matmul(67, 104, 136, a="f16", acc="f16", order_b="col", epilogue="gelu"),
        {**_ALONE, "tile_n": 96},
    ),
    "scaled_rows": (
        Matmul(131, 72, 400, a="e4m3", batch=2, scale="row_column", epilogue="bias+relu"),
        {**_BOTH, "tile_k": 128, "store_buffers": 1},
    ),
}
_TRANSPOSED: dict[str, tuple[Matmul, Changes]] = {
    "transposed": (
        Matmul(17, 131, 200, a="bf16", order_b="col", epilogue="bias+silu", out="f32"),
        {**_ALONE, "tile_m": 128, "tile_n": 24},
    ),
    "transposed_splits": (
        Matmul(8, 136, 320, a="bf16", order_a="col", order_b="col"),
        {**_ALONE, "tile_n": 16, "split_k": 2, "swizzle_b": 32},
    ),
    "f16_sums_transposed": (
        Matmul(40, 136, 400, a="f16", acc="f16", batch=2, order_b="col", epilogue="bias"),
        {**_ALONE, "tile_n": 40},
    ),
}
# Changes to a golden schedule. The resulting cases have instructions, storage orders and sizes that no golden case has.
_WMMA: Changes = {
    **{"tile_m": 32, "tile_n": 32, "subgroups_n": 1, "sg_data_m": 16, "min_blocks": 1},
    **{"copy_a": "cp.async", "vector_a": 8, "copy_columns_a": 4, "copy_columns_b": 4},
}
_BF16: Changes = {**_WMMA, "intrinsic": "wmma_m16n16k16_bf16"}
_TURNED = "transpose+pad(8,1)"
_TURNED_SWIZZLE = "transpose+swizzle(2,3,3)"
_STREAM_K: Changes = {
    **{"tile_m": 32, "tile_n": 32, "subgroups_n": 1, "sg_data_m": 16, "layout_a": "swizzle(2,3,3)", "stages": 3},
    **{"layout_b": "swizzle(2,3,3)", "copy_columns_a": 4, "copy_columns_b": 4},
}
_F16_SUMS: Changes = {
    **{"tile_m": 64, "tile_n": 32, "subgroups_n": 1, "copy_columns_a": 4, "copy_columns_b": 4, "stages": 2},
    **{"fragment_buffers": 1, "epilogue": "registers", "min_blocks": 1, "raster": "row", "stream_k": 0},
    **{"layout_b": "swizzle(2,3,3)"},
}
_OF_K8: Changes = {**_F16_SUMS, "intrinsic": "mma_m16n8k8_f16_f16", "unroll": 4}
_OF_GOLDEN: dict[str, tuple[str, str, Problem, Changes]] = {
    "wmma_f16_columns": (
        *("wmma_f16_padded", "h200"),
        Matmul(72, 72, 104, a="f16", order_a="col", order_b="col"),
        {**_WMMA, "layout_a": _TURNED, "layout_b": _TURNED},
    ),
    "wmma_bf16_rows": (
        *("wmma_f16_padded", "h200"),
        Matmul(67, 72, 104, a="bf16", order_b="col", out="f32"),
        {**_BF16, "layout_b": _TURNED},
    ),
    "wmma_bf16_columns": (
        *("wmma_f16_padded", "h200"),
        Matmul(72, 72, 104, a="bf16", order_a="col", order_b="row", out="f32"),
        {**_BF16, "layout_a": _TURNED},
    ),
    "wmma_tf32": (
        *("wmma_f16_padded", "h200"),
        Matmul(67, 72, 52, a="f32", order_a="col", order_b="row"),
        {
            **_WMMA,
            **{"intrinsic": "wmma_m16n16k8_tf32", "tile_k": 16, "layout_a": "transpose+pad(4,1)"},
            **{"layout_b": "pad(4,1)", "vector_a": 1, "vector_b": 4, "copy_columns_b": 8},
        },
    ),
    "mma_e5m2": (
        *("eight_bit/mma_e4m3_bias", "rtx4090"),
        Matmul(67, 72, 80, a="e5m2", order_b="col"),
        {"intrinsic": "mma_m16n8k32_e5m2"},
    ),
    # Scaled sums, stored through shared memory and directly from registers.
    "mma_scaled_rows": (
        *("eight_bit/mma_e4m3_bias", "rtx4090"),
        Matmul(67, 72, 80, a="e4m3", order_b="col", scale="row_column", epilogue="bias"),
        {},
    ),
    "mma_scaled_from_registers": (
        *("eight_bit/mma_e4m3_bias", "rtx4090"),
        Matmul(67, 41, 80, a="e4m3", order_b="col", scale="row_column", batch=2),
        {"epilogue": "registers"},
    ),
    "mma_scaled_tensors": (
        *("eight_bit/mma_e4m3_bias", "rtx4090"),
        Matmul(67, 72, 80, a="e4m3", order_b="col", scale="tensor", epilogue="relu"),
        {},
    ),
    "mma_splits_outer": (
        *("mma_tf32_split", "h200"),
        Matmul(80, 96, 260, a="f32", batch=3, order_b="col"),
        {"batch_mapping": "outer"},
    ),
    # Two cases of matvec: one has an element after the last full step along k, the other has only full steps. One
    # case of reduce: rows are shorter than a vector, and each thread reduces one row.
    "matvec_one_more": ("matvec_f16_odd", "h200", Matvec(m=1, n=9, k=65, x="f16"), {}),
    "matvec_whole": ("matvec_f16_odd", "h200", Matvec(m=1, n=9, k=128, x="f16"), {}),
    "reduce_argmax_short": (
        *("reduce_f16_argmax_peeled", "h200"),
        Reduce(rows=67, columns=5, dtype="f16", kind="argmax"),
        {"lanes_k": 1, "split_k": 1},
    ),
    # Numbers of tiles that are not multiples of a wave, so that several pairs of blocks share a tile.
    "mma_stream_k_pairs": (
        *("mma_f16_stream_k", "h200"),
        Matmul(131, 72, 200, a="f16", order_b="col", epilogue="bias+relu"),
        {**_STREAM_K, "fragment_buffers": 1, "epilogue": "registers", "layout_b": _TURNED_SWIZZLE},
    ),
    "mma_stream_k_shared": (
        *("mma_f16_stream_k", "h200"),
        Matmul(131, 72, 200, a="f16", order_b="col"),
        {**_STREAM_K, "stages": 4, "layout_b": _TURNED_SWIZZLE},
    ),
    "mma_stream_k_batch": (
        *("mma_f16_stream_k", "h200"),
        Matmul(72, 104, 136, a="f16", batch=3, order_a="col", out="f32"),
        {**_STREAM_K, "batch_mapping": "inner", "raster": "column", "layout_a": _TURNED_SWIZZLE},
    ),
    # Cases of f16 sums: with split-K; with a single fragment of two registers; with a transposed operand and a second
    # output; through shared memory.
    "mma_f16_sums_split": (
        *("mma_f16_sums_stream_k", "rtx4090"),
        Matmul(70, 41, 200, a="f16", acc="f16", batch=2, order_b="col", epilogue="bias+silu"),
        {**_F16_SUMS, "layout_b": _TURNED_SWIZZLE, "split_k": 3},
    ),
    "mma_f16_sums_pairs": (
        *("mma_f16_sums_stream_k", "a100"),
        Matmul(150, 24, 136, a="f16", acc="f16", out="f32"),
        {
            **{**_OF_K8, "tile_m": 32, "tile_n": 16, "subgroups_n": 2, "sg_data_m": 16, "sg_data_n": 8, "vector_b": 4},
            **{"stream_k": 1},
        },
    ),
    "mma_f16_sums_row_sum": (
        *("mma_f16_sums_stream_k", "rtx3090"),
        Matmul(70, 40, 100, a="f16", acc="f16", order_a="col", epilogue="relu", reduction="row_sum"),
        {
            **{**_OF_K8, "layout_a": "transpose+swizzle(3,3,3)", "copy_columns_a": 8, "vector_a": 2},
            **{"epilogue": "shared"},
        },
    ),
    "mma_f16_sums_shared": (
        *("mma_f16_sums_stream_k", "a100"),
        Matmul(70, 40, 200, a="f16", acc="f16", out="bf16", epilogue="bias+gelu"),
        {**_F16_SUMS, "fragment_buffers": 2, "epilogue": "shared"},
    ),
}


@dataclass(frozen=True)
class Case:
    """A problem, and the kernel of a schedule for it."""

    name: str
    problem: Problem
    schedule: Schedule
    kernel: GeneratedKernel

    @property
    def cost(self) -> int:
        """Threads per block multiplied by operations. This is roughly proportional to the time of a verification."""
        return self.kernel.threads * self.problem.flops

    def with_headers(self, headers: Headers) -> GeneratedKernel:
        return replace(self.kernel, headers=headers)


@cache
def all_cases() -> tuple[Case, ...]:
    """Return the golden cases and the cases of the tables, fastest first. Large problems are reduced to a few tiles."""
    cases = []
    for path in sorted(GOLDEN.glob("**/*.json")):
        if path.stem not in LARGE:
            data = json.loads(path.read_text())
            schedule = Schedule.from_json(data["template"], data["schedule"])
            cases.append(_case(path.stem, problem_from_json(data["problem"]), schedule, device(data["device"])))
    for name, (golden, device_name, problem, changes) in _OF_GOLDEN.items():
        data = json.loads((GOLDEN / f"{golden}.json").read_text())
        schedule = Schedule.from_json(data["template"], {**data["schedule"], **changes})
        cases.append(_case(name, problem, schedule, device(device_name)))
    for of_template, table in (("wgmma_matmul", _WGMMA), ("wgmma_matmul_transposed", _TRANSPOSED)):
        cases += [_wgmma_case(name, problem, of_template, changes) for name, (problem, changes) in table.items()]
    return tuple(sorted(cases, key=lambda case: (case.cost, case.name)))


def cases_of_columns(n: int) -> Iterator[Case]:
    """Return cases with a tile of n columns, which together use every line of ``ptx/`` for this n.

    One case reads ``a`` from shared memory, where ``a`` is contiguous along k and ``b`` along n. Another case reads
    ``a`` from registers.
    Cases accumulate in f32 and in f16, and one case copies tf32 operands through registers.
    """
    shared: Changes = {**_ALONE, "tile_n": n, "swizzle_b": 0}
    registers: Changes = {**shared, "a_operand_source": "registers", "in_flight": 0}
    yield _wgmma_case(f"columns_{n}", Matmul(64, n, 136, a="f16", order_b="row"), "wgmma_matmul", shared)
    yield _wgmma_case(f"columns_{n}_fragments", Matmul(64, n, 136, a="f16", order_b="row"), "wgmma_matmul", registers)
    words = Matmul(64, n, 68, a="f32", order_b="col")
    yield _wgmma_case(f"columns_{n}_words", words, "wgmma_matmul", {**registers, "tile_k": 32})
    halves = Matmul(64, n, 136, a="f16", acc="f16", order_b="row")
    yield _wgmma_case(f"columns_{n}_f16_sums", halves, "wgmma_matmul", shared)
    yield _wgmma_case(f"columns_{n}_f16_sums_fragments", halves, "wgmma_matmul", registers)


def _wgmma_case(name: str, problem: Matmul, of_template: str, changes: Changes) -> Case:
    schedule = Schedule.from_json(of_template, {**_schedule("wgmma/bf16_specialised"), **changes})
    return _case(f"wgmma_{name}", problem, schedule, device("h200"))


def _schedule(golden: str) -> Changes:
    chosen: Changes = json.loads((GOLDEN / f"{golden}.json").read_text())["schedule"]
    return chosen


def _case(name: str, problem: Problem, schedule: Schedule, of: Device) -> Case:
    of_schedule = template(schedule.template)
    small = emulated_problem(of_schedule, problem, schedule)
    return Case(name, small, schedule, of_schedule.kernel(small, schedule, of))
