"""Faults planted in tma_matmul: missing or wrong waits, releases and counts, and boxes at wrong positions."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from header_edits import edited
from kernels import generate

from measurements.emulator import FindingKind
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

K = FindingKind
WRONG = "wrong_result"
KERNEL = "autosched/kernels/tma_matmul.cuh"
_RING = "autosched/tile/box_ring.cuh"
_LAYOUT = "autosched/common/shared_layout.cuh"
_EXCHANGE = "autosched/kernels/matmul/split_k.cuh"
_WORK = "autosched/kernels/matmul/work.cuh"
_DEAL = "autosched/common/stream_k.cuh"

SMALL: dict[str, int | str] = {
    "tile_m": 64, "tile_n": 64, "tile_k": 64, "intrinsic": "mma_m16n8k16_bf16", "subgroups_m": 2, "subgroups_n": 1,
    "sg_data_m": 32, "sg_data_n": 64, "swizzle_a": 128, "swizzle_b": 128, "stages": 2, "fragment_buffers": 1,
    "epilogue": "registers", "min_blocks": 1, "split_k": 1, "stream_k": 0, "raster": "row", "batch_mapping": "outer",
    "l2_promotion": 128,
}  # fmt: skip
# For each case: (changes to the small schedule, changes to the problem).
CASES: dict[str, tuple[dict[str, int | str], dict[str, Any]]] = {
    "plain": ({}, {}),
    "two buffers": ({"fragment_buffers": 2, "stages": 3, "epilogue": "shared"}, {"epilogue": "bias"}),
    "lines of a along m, of b along n": (
        {"tile_n": 128, "sg_data_n": 64},
        {"order_a": "col", "order_b": "row", "m": 152, "n": 136},
    ),
    "wide boxes of k": ({"tile_k": 128}, {"k": 640}),
    "splits": ({"split_k": 2, "epilogue": "shared"}, {"k": 640}),
    "batch": ({}, {"batch": 2, "m": 64, "n": 64}),
    # Four blocks compute nine tiles: each block computes one whole tile, and stream-K divides the other five.
    "stream-K": ({"stream_k": 1, "epilogue": "shared"}, {"n": 136}),
    "stream-K, two buffers": ({"stream_k": 1, "fragment_buffers": 2, "stages": 3}, {"n": 136, "epilogue": "bias"}),
    "nvf4": (
        {"intrinsic": "mma_m16n8k64_nvf4", "tile_k": 128, "fragment_buffers": 2},
        {"a": "nvf4", "k": 1024, "out": "bf16"},
    ),
}


@dataclass(frozen=True)
class Planted:
    """A fault in the kernel of a case: everywhere in ``header``, ``old`` is replaced by ``new``.

    ``finding`` is the kind of finding that must be reported.
    """

    name: str
    case: str
    finding: str
    old: str
    new: str
    header: str = KERNEL

    def problem(self) -> Matmul:
        return Matmul(**{"m": 150, "n": 72, "k": 320, "a": "bf16", "order_b": "col", **CASES[self.case][1]})

    def schedule(self) -> Schedule:
        return Schedule("tma_matmul", tuple((SMALL | CASES[self.case][0]).items()))

    def right_kernel(self) -> GeneratedKernel:
        return generate(self.problem(), self.schedule(), device("rtx5090" if self.case == "nvf4" else "h200"))

    def kernel(self) -> GeneratedKernel:
        right = self.right_kernel()
        headers = edited(right.headers, self.header, self.old, self.new, everywhere=True)
        return dataclasses.replace(right, headers=headers)


_FULL = "tile::wait_phase(stage.full(), stage.parity);"
_FENCE = "ptx::fence_async_proxy();"
_READ = """  // orders TMA's next writes after this lane's reads; the mbarrier does not order them
      ptx::warp_sync();  // all lanes have read
"""
_RELEASE = "if (lane == 0) ptx::mbarrier_arrive(stage.empty());"
PLANTED = (
    Planted("stages are not waited for", "plain", K.UNINITIALIZED_SHARED_READ, _FULL, ""),
    Planted("with two buffers, the kernel does not wait for stages", "two buffers", K.BARRIER_NOT_REACHED, _FULL, ""),
    Planted("the other phase is waited for", "plain", K.ASYNC_READ_BEFORE_WAIT,
            _FULL, "tile::wait_phase(stage.full(), stage.parity ^ 1u);"),
    Planted("a stage is not released", "plain", K.BARRIER_NOT_REACHED, _RELEASE, ""),
    Planted("every lane releases the stage", "plain",
            K.BARRIER_NOT_REACHED, _RELEASE, "ptx::mbarrier_arrive(stage.empty());"),
    Planted("lanes are not waited for", "plain", K.SHARED_RACE, "ptx::warp_sync();  // all lanes have read", ""),
    Planted("a stage is released before it is read", "plain",
            K.ASYNC_READ_BEFORE_WAIT, "if (step + 1 == tile_steps) release();",
            "if (step == 0) release();"),
    Planted("one warp releases a stage for all warps", "plain", K.BARRIER_NOT_REACHED,
            _RELEASE, "if (lane == 0 && warp_m == 0) ptx::mbarrier_arrive(stage.empty());"),
    Planted("no proxy fence between reads and TMA's writes", "plain", K.MISSING_PROXY_FENCE, _FENCE, ""),
    Planted("no proxy fence between reads and TMA's writes, with two buffers", "two buffers",
            K.MISSING_PROXY_FENCE, _FENCE, ""),
    Planted("one lane fences for all lanes", "plain", K.MISSING_PROXY_FENCE, _FENCE, f"if (lane == 0) {_FENCE}"),
    Planted("the proxy fence is executed after the release", "stream-K", K.MISSING_PROXY_FENCE,
            f"{_FENCE}{_READ}      {_RELEASE}", f"{_READ.strip()}\n      {_RELEASE}\n      {_FENCE}"),
    Planted("a full stage is filled again", "plain", K.MBARRIER_MISUSE,
            "while (!ptx::mbarrier_try_wait(stage.empty(), stage.parity ^ 1u)) {", "while (false) {"),
    Planted("stages are not empty at first", "plain", K.BARRIER_NOT_REACHED,
            "stage.parity ^ 1u)) {", "stage.parity)) {"),
    Planted("only a's bytes are expected", "plain", K.ASYNC_READ_BEFORE_WAIT, "(stage.full(), C::stage_bytes)",
            "(stage.full(), C::stage_bytes_a)"),
    Planted("more bytes are expected", "plain", K.BARRIER_NOT_REACHED, "(stage.full(), C::stage_bytes)",
            "(stage.full(), C::stage_bytes + 16)"),
    Planted("b overwrites a", "plain", K.SHARED_RACE,
            "stage.tile + unsigned(C::stage_bytes_a), work.n0()", "stage.tile, work.n0()"),
    Planted("rows of another tile", "plain", WRONG, "(a, stage.tile, work.m0(),", "(a, stage.tile, work.n0(),"),
    Planted("every split begins at 0", "splits", WRONG, "(work.first + t) * C::tile_k", "t * C::tile_k"),
    Planted("the first matrix is used for all", "batch", WRONG, "k0, work.batch, stage.full());\n      load<BoxesB>",
            "k0, 0, stage.full());\n      load<BoxesB>"),
    Planted("the first box is used for all", "wide boxes of k", WRONG, " + i * Boxes::width", ""),
    Planted("boxes overlap", "wide boxes of k", K.SHARED_RACE, "unsigned(i * Boxes::box_bytes)",
            "unsigned(i * Boxes::box_bytes / 2)"),
    Planted("line and column coordinates exchanged", "lines of a along m, of b along n",
            WRONG, "along_k ? mn0 : k0,", "along_k ? k0 : mn0,"),
    Planted("barriers are used before they are made", "plain", K.MBARRIER_MISUSE,
            "ptx::barrier_sync();\n    PipelineState stage",
            "PipelineState stage"),
    Planted("all lanes issue copies", "plain", K.MBARRIER_MISUSE, "if (ptx::elect()) Work::for_each", "Work::for_each"),
    Planted("one k-tile too many is loaded", "plain",
            K.BULK_COPY_IN_FLIGHT, "t < work.count; ++t", "t < work.count + 1; ++t"),
    Planted("the producer stays at its stage", "plain", K.SHARED_RACE, "++t, stage.advance())", "++t)"),
    Planted("a step is loaded twice", "two buffers", WRONG, "stage.tile, step + 1,", "stage.tile, step,"),
    Planted("consumers wait for a stage that is never filled", "two buffers", K.BARRIER_NOT_REACHED,
            "if (left > 1) {", "if (left > 0) {"),
    Planted("steps in one buffer", "two buffers", WRONG, "held[step % 2].multiply", "held[0].multiply"),
    Planted("the first scales are used for all k-tiles", "nvf4", WRONG, "words = next;", ""),
    Planted("one counter for all tiles", "splits", K.GLOBAL_RACE,
            "counters + output_tile, output_tile", "counters, output_tile", _EXCHANGE),
    Planted("all results are stored to the first matrix", "batch", K.GLOBAL_RACE,
            "out + static_cast<long long>(work.batch) * C::m * C::n", "out"),
    Planted("results are staged in a stage that is being filled", "stream-K", K.SHARED_RACE,
            "results_at = C::stream_k ? C::stages * C::stage_bytes : 0;", "results_at = 0;"),
    Planted("the exchange flag is in a stage that is being filled", "stream-K", K.SHARED_RACE,
            "work, shared + unsigned(results_at), partials", "work, shared, partials"),
    Planted("the producer restarts its stages for every part", "stream-K", K.BARRIER_NOT_REACHED,
            "produce(const ptx::TensorMap& a, const ptx::TensorMap& b, const Work& work,\n"
            "                                                 PipelineState& stage)",
            "produce(const ptx::TensorMap& a, const ptx::TensorMap& b, const Work& work, PipelineState stage)"),
    Planted("consumers restart their stages for every part", "stream-K", K.BARRIER_NOT_REACHED,
            "Scales scales, const Work& work, PipelineState& stage)",
            "Scales scales, const Work& work, PipelineState stage)"),
    Planted("only the first part is loaded", "stream-K", K.BARRIER_NOT_REACHED,
            "Work::for_each(order, [&](const Work& work) { produce(a, b, work, stage); });",
            "produce(a, b, Work::alone(order), stage);"),
    Planted("sums continue from part to part", "stream-K", WRONG,
            "Work::for_each(order, [&](const Work& work) {\n      Accumulators acc = {};",
            "Accumulators acc = {};\n    Work::for_each(order, [&](const Work& work) {"),
    Planted("every part starts at the first k-tile", "stream-K", WRONG,
            "work.first = part.first;", "work.first = 0;", _WORK),
    Planted("a part has all k-tiles", "stream-K", WRONG, "work.count = part.count;", "work.count = C::tiles_k;", _WORK),
    Planted("blocks also exchange sums of whole tiles", "stream-K", K.WORKSPACE_NOT_ZERO,
            "if (work.count < C::tiles_k) {", "if (true) {", _EXCHANGE),
    Planted("parts of tiles are stored without an exchange", "stream-K", K.GLOBAL_RACE,
            "if (work.count < C::tiles_k) {", "if (false) {", _EXCHANGE),
    Planted("all pairs share one workspace slot", "stream-K", K.LOST_WRITE,
            "const int cut = part.cut(int(blockIdx.x));", "const int cut = 0;", _EXCHANGE),
    Planted("all pairs share their counters", "stream-K", WRONG, "counters + 2 * cut", "counters", _EXCHANGE),
    Planted("no fence between storing sums and the flag", "stream-K, two buffers", K.GLOBAL_RACE,
            "ptx::fence_gpu();", "", _DEAL),
    Planted("the other worker's sums are not waited for", "stream-K, two buffers", K.GLOBAL_RACE,
            "while (ptx::ld_acquire(stored) == 0) {", "while (false) {", _DEAL),
    Planted("a whole tile is left out", "stream-K, two buffers", K.UNWRITTEN_OUTPUT,
            "dealt_tiles + worker};", "dealt_tiles + worker + 1};", _DEAL),
    Planted("the tickets are not reset", "stream-K", K.WORKSPACE_NOT_ZERO,
            "ptx::atomic_add(tickets, -2u);", "", _DEAL),
    Planted("one warp's release suffices", "plain",
            K.BARRIER_NOT_REACHED, "unsigned(16 * stage + 8), C::consumer_warps)",
            "unsigned(16 * stage + 8), 1)", _RING),
    Planted("the ring is short", "two buffers", K.INVALID_ARGUMENT,
            "if (++index == C::stages) {", "if (++index == C::stages - 1) {",
            _RING),
    Planted("the parity never changes", "plain", K.ASYNC_READ_BEFORE_WAIT, "parity ^= 1u;", "", _RING),
    Planted("boxes side by side", "wide boxes of k", WRONG,
            "at / Width * (lines * Width)", "at / Width * Width", _LAYOUT),
    Planted("lines as wide as the tile", "wide boxes of k", K.OUT_OF_BOUNDS_SHARED,
            "+ at_line * Width", "+ at_line * 2 * Width", _LAYOUT),
)  # fmt: skip
