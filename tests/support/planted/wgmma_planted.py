"""Faults planted in wgmma_matmul that the mutation engine cannot generate.

They change several statements, move one, or use a wrong formula, scope or tensor map.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from header_edits import edited
from kernels import generate
from wgmma_cases import CASES, H200, SMALL

from measurements.emulator import FindingKind
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.tensor_map import TensorMap
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

K = FindingKind
WRONG = "wrong_result"
_KERNEL = "autosched/kernels/wgmma_matmul.cuh"
_STREAM_K = "autosched/common/stream_k.cuh"
_OPERAND = "autosched/intrinsics/wgmma.cuh"
_OUT = "autosched/intrinsics/wgmma_out.cuh"
_FINISH = "autosched/common/finish.cuh"
_TMA = "autosched/ptx/tensor_map/tensor_map.cuh"
_REGISTERS = "autosched/ptx/wgmma/setmaxnreg.cuh"

# Schedules in addition to CASES: changes to the small schedule and to the problem.
MORE_CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "tail of k": ({}, {"k": 296}),
    "square": ({}, {"m": 128, "n": 128, "k": 128}),
    "f16": ({}, {"a": "f16", "out": "f16"}),
    "long ring": ({"stages": 4, "tile_k": 128}, {"m": 64, "n": 32, "k": 640}),
    "registers": ({"tile_m": 128, "consumer_warpgroups": 2, "producer_registers": 40}, {}),
    "no swizzle": ({"swizzle_a": 0, "swizzle_b": 0}, {"k": 192}),
    "narrow swizzle": ({"swizzle_a": 32, "swizzle_b": 32}, {"k": 192, "order_a": "col", "order_b": "row"}),
    "stream-K of two consumers": (
        {"tile_m": 128, "consumer_warpgroups": 2, "producer_registers": 40, "tiles_per_block": 2, "stream_k": 1},
        {"m": 640, "n": 32, "k": 264},
    ),
    "bias, with boxes": ({"store_buffers": 1}, {"epilogue": "bias+relu", "n": 96}),
    "bias": ({}, {"epilogue": "bias+relu", "n": 96}),
    "splits of a batch": ({"split_k": 2}, {"k": 384, "batch": 2, "m": 128, "n": 64}),
    "boxes of a batch": ({"store_buffers": 1}, {"k": 128, "batch": 2, "m": 128, "n": 64}),
    "scaled blocks": ({"tile_k": 128, "in_flight": 0}, {"a": "e4m3", "scale": "block", "k": 400, "n": 264}),
    "scaled rows": ({"tile_k": 128}, {"a": "e4m3", "scale": "row_column", "k": 272, "m": 131}),
    "boxes of scaled rows": (
        {"tile_k": 128, "store_buffers": 1},
        {"a": "e4m3", "scale": "row_column", "k": 272, "m": 131},
    ),
}


@dataclass(frozen=True)
class Planted:
    """A fault in the kernel of a case: everywhere in ``header``, each key of ``edits`` is replaced by its value.

    ``maps`` changes fields of tensor maps. ``finding`` is a kind of finding, or WRONG.
    """

    name: str
    case: str
    finding: str
    edits: Mapping[str, str] = dataclasses.field(default_factory=dict)
    header: str = _KERNEL
    maps: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)

    def problem(self) -> Matmul:
        _, fields = (CASES | MORE_CASES)[self.case]
        order = {} if fields.get("a") == "e4m3" else {"order_b": "col"}
        return Matmul(**{"m": 256, "n": 128, "k": 320, "a": "bf16", **order, **fields})

    def schedule(self) -> Schedule:
        changes, _ = (CASES | MORE_CASES)[self.case]
        return SMALL.replace(**changes)

    def right_kernel(self) -> GeneratedKernel:
        return generate(self.problem(), self.schedule(), H200)

    def kernel(self) -> GeneratedKernel:
        kernel = self.right_kernel()
        headers = kernel.headers
        for old, new in self.edits.items():
            headers = edited(headers, self.header, old, new, everywhere=True)
        arguments = tuple(
            dataclasses.replace(a, **self.maps[a.name]) if isinstance(a, TensorMap) and a.name in self.maps else a
            for a in kernel.arguments
        )
        return dataclasses.replace(kernel, headers=headers, arguments=arguments)


STREAM = "stream-K of two consumers"
PERSISTENT, STORES, TURNS = "persistent", "persistent, with stores", "taking turns"
ALONG_M, ALONG_N, OF_FOUR = "cluster along m", "cluster along n", "cluster of four, with splits"
_EXPECT = "ptx::mbarrier_arrive_expect_tx(stage.full(), tma_bytes);"
_LAST_WAIT = "ptx::wgmma_wait_group<0>();\n      release(stage.empty_before(), elsewhere);"
_STORE = "store(acc, ends, out, work, rows);"
_SCALED = "sums[i][r] += a[i][r / 2 % 2] * b[r / 4 * 8 / block] * acc[i][r];"
_BOX = "Box::write(box, x);\n        ptx::fence_async_proxy();"
_READ = "if (threadIdx.x % 128 < 32 && ptx::elect()) ptx::wait_stores_read<C::store_buffers - 1>();"

PLANTED = (
    # The first faults are part of every test run; the others are nightly.
    Planted("one slice of k is multiplied twice", "plain", WRONG,
            {"B::from_base(step, 0)": "B::from_base(step & ~1, 0)"}),
    Planted("expects only the bytes inside the matrix", "tail of k", K.BARRIER_NOT_REACHED,
            {_EXPECT:
             "ptx::mbarrier_arrive_expect_tx(stage.full(), (k0 + C::tile_k > C::k ? C::k - k0 : C::tile_k) * "
             "2 * (C::tile_m + C::tile_n));"}),
    # Descriptors, and boxes.
    Planted("half the stride", "plain", WRONG, {"group_bytes = 8 * line": "group_bytes = 4 * line"}, _OPERAND),
    Planted("the leading offset of the other layout", "narrow swizzle", WRONG,
            {"(Swizzle ? box_bytes : group_bytes)": "(Swizzle ? group_bytes : box_bytes)"}, _OPERAND),
    Planted("strides exchanged without a swizzle", "no swizzle", K.OUT_OF_BOUNDS_SHARED,
            {"(Swizzle ? 16 : box_bytes)": "(Swizzle ? 16 : group_bytes)",
             "AlongK || Swizzle ? group_bytes : box_bytes": "Swizzle ? group_bytes : box_bytes"}, _OPERAND),
    Planted("the mode of the next swizzle", "narrow swizzle", WRONG,
            {"Swizzle == 32 ? 3": "Swizzle == 32 ? 2"}, _OPERAND),
    Planted("a's slices of k in reverse", "plain", WRONG,
            {"A::from_base(step, 64 * i)": "A::from_base(steps_of_tile - 1 - step, 64 * i)"}),
    Planted("both consumers multiply the first rows", "registers", WRONG,
            {"A::advance(0, 64 * fragments) * group": "0 * group"}),
    Planted("a tile after the first 64 KB", "long ring", K.ASYNC_READ_BEFORE_WAIT,
            {"return start | ": "return (start & 0xfff) | "}, _OPERAND),
    Planted("a map of one row less", "plain", WRONG, maps={"a_map": {"sizes": (320, 255, 1)}}),
    Planted("a map without its swizzle", "plain", K.BARRIER_NOT_REACHED,
            maps={"b_map": {"swizzle": "64B", "box": (32, 32, 1)}}),
    Planted("lines of the map are 16 bytes too short", "plain", WRONG,
            maps={"a_map": {"strides": (624, 163840), "sizes": (312, 256, 1)}}),
    # Waits and arrivals.
    Planted("consumers wait with the other parity", "plain", K.ASYNC_READ_BEFORE_WAIT,
            {"wait_together(stage.full(), stage.parity);\n      multiply_tile(acc, stage, group, first)":
             "wait_together(stage.full(), stage.parity ^ 1u);\n      multiply_tile(acc, stage, group, first)"}),
    Planted("the copies wait with the other parity", "plain", K.BARRIER_NOT_REACHED,
            {"wait(stage.empty(), stage.parity ^ 1u);  // in the first":
             "wait(stage.empty(), stage.parity);  // the first"}),
    Planted("the parity flips only once", PERSISTENT, K.ASYNC_READ_BEFORE_WAIT,
            {"parity ^= 1u;": "parity = 1u;"}),
    Planted("the release of a stage arrives at the next stage's barrier", "plain", K.BARRIER_NOT_REACHED,
            {"return full() + 8; }": "return empty(); }"}),
    Planted("the barriers do not wrap around after the last stage", "plain", K.MBARRIER_MISUSE,
            {"barrier == unsigned(16 * C::stages - 16) ? 0 : barrier + 16": "barrier + 16"}),
    Planted("the first k-tile is added to uninitialised sums", "plain", WRONG, {"turn(true);": "turn(false);"}),
    Planted("two lanes of a warp release a stage", "plain", K.MBARRIER_MISUSE,
            {"if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(empty);":
             "if (threadIdx.x % 32 < 2) ptx::mbarrier_arrive(empty);"}),
    Planted("one more arrival at a full stage", "plain", K.MBARRIER_MISUSE,
            {_EXPECT: _EXPECT + "\nptx::mbarrier_arrive(stage.full());"}),
    Planted("arrival and expected bytes in two instructions", "plain", K.ASYNC_READ_BEFORE_WAIT,
            {_EXPECT:
             "ptx::mbarrier_arrive(stage.full());\n"
             'asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(stage.full()), '
             '"r"(tma_bytes));'}),
    Planted("one lane waits for its warp", "plain", K.ASYNC_READ_BEFORE_WAIT,
            {"wait_together(stage.full(), stage.parity);\n      multiply_tile(acc, stage, group, first)":
             "if (threadIdx.x % 32 == 0) Plan::wait(stage.full(), stage.parity);\n"
             "      multiply_tile(acc, stage, group, first)"}),
    Planted("every warpgroup makes the barriers", "registers", K.MBARRIER_MISUSE,
            {"if (warp == 0 && ptx::elect()) {": "if (warp % 4 == 0 && ptx::elect()) {"}),
    Planted("releases a tile too early", "plain", K.WGMMA_IN_FLIGHT,
            {"if (C::in_flight > 0 && !first) release(stage.empty_before(), elsewhere);\n      stage.advance();":
             "stage.advance();\n      release(stage.empty_before(), elsewhere);",
             _LAST_WAIT: "ptx::wgmma_wait_group<0>();"}),
    Planted("stored before the multiplications have ended", "plain", K.WGMMA_IN_FLIGHT,
            {_LAST_WAIT: "release(stage.empty_before(), elsewhere);",
             _STORE: _STORE + "\n ptx::wgmma_wait_group<0>();"}),
    Planted("one multiplication too many remains in flight", "plain", K.WGMMA_IN_FLIGHT,
            {"ptx::wgmma_wait_group<C::in_flight>();": "ptx::wgmma_wait_group<C::in_flight + 1>();"}),
    # Clusters.
    Planted("the mask is short by one block", OF_FOUR, K.BARRIER_NOT_REACHED,
            {"((1u << C::cluster_m) - 1) << (rank_n()": "((1u << (C::cluster_m - 1)) - 1) << (rank_n()"}),
    Planted("releases are signalled to the wrong blocks", "all of it", K.SHARED_RACE,
            {"m = along_n ? rank_m() :": "m = along_n ? rank_n() :"}),
    Planted("the first block exits without waiting for its cluster", ALONG_M, K.BLOCK_EXITED,
            {"(int i = 0; i < C::stages;": "(int i = Plan::rank() ? 0 : 99; i < C::stages;"}),
    Planted("the barriers are initialised after the synchronisation", ALONG_M, K.MBARRIER_MISUSE,
            {"    sync();\n    if (warp >= consumer_warps)": "    if (warp >= consumer_warps)",
             "    const PipelineState first{ptx::shared_memory()};":
             "    const PipelineState first{ptx::shared_memory()};\n    sync();"}),
    # Tiles in a block.
    Planted("the last tile is left out", PERSISTENT, K.UNWRITTEN_OUTPUT,
            {"next < works; next": "turn == 0 || next + launched < works; next"}),
    Planted("two blocks compute the same tile", PERSISTENT, K.GLOBAL_RACE,
            {"next < works; next += launched": "next < works; next += launched - 1"}),
    Planted("sums go on in the next tile", PERSISTENT, WRONG,
            {"      Accumulators acc;\n      if constexpr (C::scale": "      if constexpr (C::scale",
             "    for_each_work(order, [&](const Work& work, int turn, bool more)":
             "    Accumulators acc{};\n    for_each_work(order, [&](const Work& work, int turn, bool more)",
             "multiply_tile(acc, stage, group, first)": "multiply_tile(acc, stage, group, false)"}),
    Planted("splits of all matrices share their sums", "splits of a batch", K.GLOBAL_RACE,
            {"output_tile = (batch * C::tiles_m + tile_m)": "output_tile = (0 * C::tiles_m + tile_m)"}),
    Planted("the first split is added twice, the last never", "splits of a batch", WRONG,
            {"from += sums;": "if (s > 0) from += sums;"}),
    Planted("the second split begins with the first's last tile", "splits of a batch", WRONG,
            {"first = split * C::tiles_of_split;": "first = split * C::tiles_of_split - (split > 0);"}),
    # Tiles that two workers share.
    Planted("sums are reported before a fence", STREAM, K.GLOBAL_RACE,
            {"ptx::fence_gpu();  // cumulative: also orders the stores": "// "},
            _STREAM_K),
    Planted("sums are reported before all threads have stored them", STREAM, K.GLOBAL_RACE,
            {"ptx::barrier_sync(barrier, Threads);  // all threads have stored their sums": ""}, _STREAM_K),
    Planted("read by threads that did not wait", STREAM, K.GLOBAL_RACE,
            {"ready for the next launch\n    }\n    ptx::barrier_sync(barrier, Threads);":
             "ready for the next launch\n    }"}, _STREAM_K),
    Planted("the flag of stored sums is read without an acquire", STREAM, K.GLOBAL_RACE,
            {"ptx::ld_acquire(stored)": "ptx::ld_global_cg<4>(stored).word[0]"}, _STREAM_K),
    Planted("waits only for the other worker's ticket", STREAM, K.GLOBAL_RACE,
            {"ptx::ld_acquire(stored)": "ptx::ld_acquire(tickets)"}, _STREAM_K),
    Planted("all split tiles use the same memory for their sums", STREAM, K.UNWRITTEN_OUTPUT,
            {"(work.cut * cluster + rank())": "(0 * work.cut * cluster + rank())"}),
    Planted("both consumers in a block share a flag", STREAM, K.SHARED_RACE, {"flags + unsigned(4 * group)": "flags"}),
    Planted("both workers finish the tile", STREAM, K.GLOBAL_RACE,
            {"tile.tell_stored();\n    return false;": "tile.tell_stored();\n    return true;"}, _STREAM_K),
    Planted("a k-tile between two workers is left out", STREAM, K.UNWRITTEN_OUTPUT,
            {"first_dealt(worker + 1) - dealt,": "first_dealt(worker + 1) - dealt - 1,"}, _STREAM_K),
    # The epilogue.
    Planted("rows of stmatrix exchanged", STORES, WRONG,
            {"box + at(warp * 16 + lane % 16, r / 4": "box + at(warp * 16 + (lane % 16 ^ 8), r / 4"}, _OUT),
    Planted("fenced, then written", STORES, K.MISSING_PROXY_FENCE,
            {_BOX: "ptx::fence_async_proxy();\n        Box::write(box, x);"}),
    Planted("the fence of the other space", STORES, K.MISSING_PROXY_FENCE,
            {"fence.proxy.async.shared::cta": "fence.proxy.async.global"}, _TMA),
    Planted("another thread waits for the stores", STORES, K.BULK_COPY_IN_FLIGHT,
            {_READ: _READ.replace("< 32", ">= 96")}),
    Planted("another thread commits the stores", STORES, K.BULK_COPY_IN_FLIGHT,
            {"ptx::commit_stores();\n        }":
             "}\n        if (threadIdx.x % 128 >= 96 && ptx::elect()) ptx::commit_stores();"}),
    Planted("boxes and turns use the same barrier", TURNS, K.INVALID_ARGUMENT,
            {"of_turns = 2, of_boxes = 4": "of_turns = 2, of_boxes = 2"}),
    Planted("boxes of the first matrix", "boxes of a batch", K.GLOBAL_RACE,
            {"next % fragments * 64, work.batch,": "next % fragments * 64, 0,"}),
    Planted("bias of the tile before", "bias", WRONG,
            {".at(C::transposed ? col0 : row0, C::transposed ? row0 : col0)":
             ".at(C::transposed ? col0 : row0, C::transposed ? row0 : col0 - (work.n0 > 0 ? C::tile_n : 0))"}),
    Planted("bias of the first tile", "bias, with boxes", WRONG, {".at(0, col0)": ".at(0, col0 - work.n0)"}),
    Planted("activated, then biased", "bias", WRONG,
            {"x[i] += get_element<Out>(added, i);":
             "x[i] = activate<activation(C::activation)>(x[i]) + get_element<Out>(added, i);",
             "x[i] = activate<activation(C::activation)>(x[i]);\n}":
             "x[i] = C::has_bias ? x[i] : activate<activation(C::activation)>(x[i]);\n}"}, _FINISH),
    Planted("sums rounded to 16 bits after each k-tile", "plain", WRONG,
            {"ptx::wgmma_wait_group<C::in_flight>();\n      if (C::in":
             "ptx::wgmma_wait_group<0>();\n"
             "for (int i = 0; i < fragments; ++i) for (int r = 0; r < C::tile_n / 2; ++r)\n"
             "acc[i][r] = Element<typename C::Out>::of(round_to<typename C::Out>(acc[i][r]));\n"
             "      if (C::in"}),
    Planted("split sums rounded to 16 bits", "splits of a batch", WRONG,
            {"{{round_to<Sum>(registers[r])}}":
             "{{round_to<Sum>(Element<typename C::Out>::of(round_to<typename C::Out>(registers[r])))}}"}),
    Planted("rounded before the bias", "bias", WRONG,
            {"x[i] += get_element<Out>(added, i);":
             "x[i] = Element<Out>::of(round_to<Out>(x[i])) + get_element<Out>(added, i);"}, _FINISH),
    Planted("the largest number in place of infinity", "f16", WRONG,
            {"x[i] = activate<activation(C::activation)>(x[i]);\n}":
             "x[i] = x[i] > 65504.0f ? 65504.0f : activate<activation(C::activation)>(x[i]);\n}"}, _FINISH),
    # Other faults.
    Planted("elements outside the matrix are NaN", "tail of k", WRONG,
            maps={"a_map": {"fill": "NAN_REQUEST_ZERO_FMA"}}),
    Planted("asks once whether a phase has ended", "plain", K.MBARRIER_MISUSE,
            {"while (!ptx::mbarrier_try_wait": "if (!ptx::mbarrier_try_wait",
             "while (!ptx::vote_all": "if (!ptx::vote_all"}),
    Planted("a and b exchanged", "square", WRONG,
            {"load<A, lines_a, (C::cluster_n > 1)>(a,":
             "load<A, lines_a, (C::cluster_n > 1)>(reinterpret_cast<const FromA&>(b),",
             "load<B, lines_b, (C::cluster_m > 1)>(b,":
             "load<B, lines_b, (C::cluster_m > 1)>(reinterpret_cast<const FromB&>(a),"}),
    Planted("the batch counted twice", "boxes of a batch", K.GLOBAL_RACE,
            {"batch = id / (of_matrix * C::split_k);": "batch = id / (of_matrix * C::split_k) & 0;"}),
    Planted("boxes begin 16 bytes further", STORES, K.MISALIGNED_ACCESS,
            {"% C::store_buffers * Box::bytes);\n        Finished":
             "% C::store_buffers * Box::bytes) + 16;\n        Finished"}),
    Planted("small sums are zero", "plain", WRONG,
            {"ptx::hold_register(acc[i][r]);\n    }\n  }\n\n  // Like main_loop":
             "{\n"
             "        ptx::hold_register(acc[i][r]);\n"
             "        if (acc[i][r] * acc[i][r] < 1e-3f) acc[i][r] = 0;\n"
             "      }\n"
             "    }\n"
             "  }\n"
             "\n"
             "  // As"}),
    # Scales.
    Planted("the scale of the previous k block is used", "scaled blocks", WRONG,
            {"(column < blocks_n ? column : blocks_n - 1) * blocks_k + t);":
             "(column < blocks_n ? column : blocks_n - 1) * blocks_k + (t > 0 ? t - 1 : 0));"}),
    Planted("the scale of the first columns", "scaled blocks", WRONG, {"work.n0 / block + q": "0 * work.n0 + q"}),
    Planted("rows eight apart use the same scale", "scaled blocks", WRONG,
            {"row0 + i * 64 + half * 8;\n          a[i]": "row0 + i * 64;\n          a[i]"}),
    Planted("all sums are scaled by the last block", "scaled blocks", WRONG,
            {_SCALED: "sums[i][r] = (sums[i][r] + acc[i][r]) * a[i][r / 2 % 2] * b[r / 4 * 8 / block];"}),
    Planted("scales after the last row are read", "boxes of scaled rows", K.OUT_OF_BOUNDS_GLOBAL,
            {"ends.of_row(row < C::m ? row : C::m - 1)": "ends.of_row(row)"}),
    Planted("of each 16 columns, the last 8 use the scales of the first 8", "scaled rows", WRONG,
            {"ends.scale_b + col);": "ends.scale_b + col / 16 * 16);"}, _FINISH),
    # Registers.
    Planted("the consumers request too many registers", "registers", K.BARRIER_NOT_REACHED,
            {"setmaxnreg_inc<C::consumer_registers>": "setmaxnreg_inc<C::consumer_registers + 8>"}),
    Planted("the producer releases too few registers", "registers", K.BARRIER_NOT_REACHED,
            {"setmaxnreg_dec<C::producer_registers>": "setmaxnreg_dec<C::producer_registers + 24>"}),
    Planted("one warp releases its registers", "registers", K.BARRIER_NOT_REACHED,
            {"if constexpr (reallocates_registers) ptx::setmaxnreg_dec":
             "if (threadIdx.x % 128 < 32) ptx::setmaxnreg_dec"}),
    Planted("registers are released instead of acquired", "registers", K.INVALID_ARGUMENT,
            {"setmaxnreg.inc": "setmaxnreg.dec"}, _REGISTERS),
)  # fmt: skip
