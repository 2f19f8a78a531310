"""Faults planted in tcgen05_matmul: waits, fences and commits that are missing or misplaced, tensor memory that is not
allocated, freed or addressed as it must be, wrong descriptors, wrong places."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from header_edits import edited
from kernels import generate

from measurements.emulator import FindingKind
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.kernel import Kernel

K = FindingKind
WRONG = "wrong_result"
B200 = device("b200")
KERNEL = "autosched/kernels/tcgen05_matmul.cuh"
INTRINSIC = "autosched/intrinsics/tcgen05.cuh"

SMALL = Schedule(
    "tcgen05_matmul",
    tuple({
        "tile_m": 128, "tile_n": 64, "tile_k": 64, "swizzle_a": 128, "swizzle_b": 128, "stages": 2, "sum_buffers": 1,
        "split_k": 1, "raster": "row", "store_buffers": 0, "tiles_of_block": 1, "stream_k": 0,
        "tile_scheduler": "static", "l2_promotion": 128, "kept": "neither",
    }.items()),
)  # fmt: skip

MXF8 = {"a": "mxf8", "scale_order": "tiled", "k": 416, "n": 256, "batch": 2}

STREAMED = {"m": 128 * 9, "n": 64, "k": 192}
LAUNCHED = {"m": 768, "k": 128}

# Changes of the small schedule, and of the problem.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "edges": ({}, {"m": 200, "n": 120, "k": 104}),
    "bias": ({}, {"epilogue": "bias+relu"}),
    "batch": ({}, {"batch": 2, "m": 128, "n": 64}),
    "lines of b along n": ({}, {"order_b": "row"}),
    "several tiles": ({"sum_buffers": 2, "tiles_of_block": 4}, {"m": 512, "k": 128}),
    "boxes": ({"store_buffers": 1, "tile_n": 128}, {"n": 256}),
    "a pair": ({"tile_m": 256}, {"m": 512}),
    "mxf8": ({"tile_n": 128, "tile_k": 128}, MXF8),
    "mxf4": ({"tile_n": 128, "tile_k": 128}, MXF8 | {"a": "mxf4", "k": 704}),
    "nvf4": ({"tile_n": 128, "tile_k": 128}, MXF8 | {"a": "nvf4", "k": 704}),
    "mxf8 of a pair": ({"tile_m": 256, "tile_n": 256, "tile_k": 128}, MXF8 | {"m": 512, "n": 256}),
    "splits": ({"split_k": 3}, {"k": 640}),
    "stream-K": ({"stream_k": 1, "tiles_of_block": 2, "sum_buffers": 2}, STREAMED),
    "scales of blocks": (
        {"tile_k": 128, "sum_buffers": 2},
        {"a": "e4m3", "scale": "block", "k": 400, "m": 200, "n": 240},
    ),
    "launch control": ({"tile_scheduler": "launch_control", "sum_buffers": 2, "tiles_of_block": 4}, LAUNCHED),
    "launch control of pairs": (
        {"tile_m": 256, "tile_scheduler": "launch_control", "sum_buffers": 2, "tiles_of_block": 4},
        LAUNCHED | {"m": 1536},
    ),
    "several tiles of a pair": ({"tile_m": 256, "sum_buffers": 2, "tiles_of_block": 4}, {"m": 1024, "k": 128}),
}


@dataclass(frozen=True)
class Planted:
    """In the kernel of a case ``old`` becomes ``new``. ``found`` is a kind of finding, or WRONG."""

    name: str
    case: str
    found: str
    old: str
    new: str
    header: str = KERNEL

    def problem(self) -> Matmul:
        fields = {"m": 256, "n": 128, "k": 320, "a": "bf16", "order_b": "col"} | CASES[self.case][1]
        return Matmul(**fields)

    def schedule(self) -> Schedule:
        return SMALL.replace(**CASES[self.case][0])

    def right_kernel(self) -> Kernel:
        return generate(self.problem(), self.schedule(), B200)

    def kernel(self) -> Kernel:
        right = self.right_kernel()
        return dataclasses.replace(right, headers=edited(right.headers, self.header, self.old, self.new))


_LOADS = "ptx::tcgen05_wait_loads();\n"
_RELEASE = "ptx::tcgen05_fence_before_sync();\n      release(empty, lane);\n"
_WAIT_SUMS = "Plan::wait(sums.full(), sums.parity);\n        ptx::tcgen05_fence_after_sync();\n        tile.from"
_MULTIPLY = "Mma::multiply(d, at_a, at_b, instruction, add);"
_ALLOC = "ptx::tcgen05_alloc<pair>(shared + Plan::address_at, C::tensor_columns);\n"
_RELINQUISH = "ptx::tcgen05_relinquish_alloc_permit<pair>();\n"

_COPY = "ptx::tcgen05_copy_scales<pair>(columns, tcgen05_scales(shared + unsigned(word * 512)));"

PLANTED = (
    # Scales of blocks.
    Planted("scales of a are not copied", "mxf8", K.UNINITIALIZED_TENSOR_MEMORY, _COPY, ";"),
    Planted(
        "scales are not copied",
        "nvf4",
        K.UNINITIALIZED_TENSOR_MEMORY,
        "if constexpr (Plan::scales > 0) copy_scales(",
        "if constexpr (Plan::scales > 8) copy_scales(",
    ),
    Planted(
        "every stage has one place for scales",
        "mxf8",
        K.TCGEN05_IN_FLIGHT,
        "C::sum_buffers * C::tile_n + stage.place * Plan::scale_columns",
        "C::sum_buffers * C::tile_n",
    ),
    Planted(
        "scales lie on the sums",
        "mxf8",
        WRONG,
        "C::sum_buffers * C::tile_n + stage.place * Plan::scale_columns",
        "stage.place * Plan::scale_columns",
    ),
    Planted("the first scales for all steps", "mxf8", WRONG, "(step * Plan::scales % 4)", "(0)"),
    Planted("a scale further for each step", "mxf4", K.INVALID_ARGUMENT, "(step * Plan::scales % 4)", "(step % 4)"),
    Planted(
        "the first word for all steps", "nvf4", WRONG, "unsigned(step * Plan::scales / 4 * Plan::word_columns)", "0u"
    ),
    Planted("scales of b are those of a", "mxf8", WRONG, "with, of_a, of_a + 4,", "with, of_a, of_a,"),
    Planted(
        "scales of the next columns of b",
        "mxf8 of a pair",
        WRONG,
        "columns + unsigned(4 * (1 + line))",
        "columns + unsigned(4 * (2 - line))",
    ),
    Planted(
        "words of b's lines one behind another",
        "nvf4",
        WRONG,
        "((1 + line) * Plan::words + word) * 512",
        "(1 + line + word) * 512",
    ),
    Planted(
        "scales of the first k-tile", "mxf8", WRONG, "const int word = 2 * t * Plan::words;", "const int word = 0;"
    ),
    Planted("scales of the first rows", "mxf8", WRONG, "work.batch * of_a + work.m0 / 128", "work.batch * of_a"),
    Planted(
        "scales of a's matrices for b's",
        "mxf8 of a pair",
        WRONG,
        "work.batch * of_b + work.n0 / 128",
        "work.batch * of_a + work.n0 / 128",
    ),
    Planted("scales of one matrix", "mxf8", WRONG, "work.batch * of_a + work.m0 / 128", "work.m0 / 128"),
    Planted(
        "bytes of scales are not expected",
        "mxf8",
        K.ASYNC_READ_BEFORE_WAIT,
        "pair * (Plan::scales_at + Plan::scale_bytes)",
        "pair * Plan::scales_at",
    ),
    Planted("products behind k", "mxf8", WRONG, "step >= last_steps && work.first + t + 1 == C::tiles_k", "false"),
    Planted("the last k-tile is cut short", "mxf8", WRONG, "step >= last_steps &&", "step + 1 >= last_steps &&"),
    Planted("ue4m3 for ue8m0", "mxf4", K.INVALID_ARGUMENT, "unsigned(Scales != 4) << 23", "0u << 23", INTRINSIC),
    Planted("ue8m0 for ue4m3", "nvf4", WRONG, "unsigned(Scales != 4) << 23", "1u << 23", INTRINSIC),
    Planted(
        "lines of scales 64 bytes apart", "mxf8", WRONG, "8ull << 32 | 1ull << 46", "4ull << 32 | 1ull << 46", INTRINSIC
    ),
    # The thread that multiplies.
    Planted(
        "stages are not waited for", "plain", K.ASYNC_READ_BEFORE_WAIT, "Plan::wait(stage.full(), stage.parity);", ";"
    ),
    Planted(
        "stages of the other parity",
        "plain",
        K.ASYNC_READ_BEFORE_WAIT,
        "Plan::wait(stage.full(), stage.parity);",
        "Plan::wait(stage.full(), stage.parity ^ 1u);",
    ),
    Planted(
        "sums are multiplied onto while they are read",
        "several tiles",
        K.TCGEN05_IN_FLIGHT,
        "Plan::wait(sums.empty(), sums.parity ^ 1u);",
        ";",
    ),
    Planted(
        "the first product is added to what lies there",
        "plain",
        K.UNINITIALIZED_TENSOR_MEMORY,
        "step > 0 || (t > 0 && !Plan::scaled_k_tiles)",
        "true",
    ),
    Planted("every k-tile starts anew", "plain", WRONG, "step > 0 || (t > 0", "step > 0 || (false"),
    Planted("every product starts anew", "plain", WRONG, "step > 0 || (t > 0", "step > 0 && (t > 0"),
    Planted(
        "a stage is released before it is multiplied",
        "plain",
        K.MBARRIER_MISUSE,
        "const unsigned long long a = tcgen05_matrix<A>",
        "ptx::tcgen05_commit<pair>(stage.empty());\n        const unsigned long long a = tcgen05_matrix<A>",
    ),
    Planted(
        "a stage is never released", "plain", K.BARRIER_NOT_REACHED, "ptx::tcgen05_commit<pair>(stage.empty());", ";"
    ),
    Planted("sums are never complete", "plain", K.BARRIER_NOT_REACHED, "ptx::tcgen05_commit<pair>(sums.full());", ";"),
    Planted(
        "one buffer of sums for two tiles",
        "several tiles",
        K.TCGEN05_IN_FLIGHT,
        "tensor + unsigned(sums.place * C::tile_n);\n        Plan::wait",
        "tensor;\n        Plan::wait",
    ),
    Planted(
        "b is read where a lies",
        "plain",
        WRONG,
        "tcgen05_matrix<B>(stage.tile() + A::bytes)",
        "tcgen05_matrix<B>(stage.tile())",
    ),
    Planted("a does not advance along k", "plain", WRONG, "a + A::advance(step, 0)", "a"),
    Planted("b does not advance along k", "plain", WRONG, "b + B::advance(step, 0)", "b"),
    Planted(
        "b advances by twice as much",
        "plain",
        K.OUT_OF_BOUNDS_SHARED,
        "b + B::advance(step, 0)",
        "b + 64 * B::advance(step, 0)",
    ),
    Planted(
        "the last k-tile is left out",
        "plain",
        WRONG,
        "t < work.tiles; ++t, stage.advance()) {\n        if constexpr (Plan::scaled_k_tiles) begin",
        "t + 1 < work.tiles; ++t, stage.advance()) {\n        if constexpr (Plan::scaled_k_tiles) begin",
    ),
    Planted(
        "every second step is left out",
        "plain",
        WRONG,
        "step < steps_of_tile; ++step",
        "step < steps_of_tile; step += 2",
    ),
    Planted(
        "half of the columns",
        "plain",
        K.UNDEFINED_REGISTER,
        "C::tile_m, C::tile_n, A::major",
        "C::tile_m, C::tile_n / 2, A::major",
    ),
    Planted(
        "half of the rows",
        "plain",
        K.UNDEFINED_REGISTER,
        "tcgen05_instruction<T, C::tile_m,",
        "tcgen05_instruction<T, 64,",
    ),
    Planted(
        "rows that there are not",
        "plain",
        K.INVALID_ARGUMENT,
        "tcgen05_instruction<T, C::tile_m,",
        "tcgen05_instruction<T, 96,",
    ),
    Planted(
        "a whole warp multiplies", "plain", K.INVALID_ARGUMENT, "Plan::rank() == 0 && ptx::elect()", "Plan::rank() == 0"
    ),
    Planted(
        "the other block multiplies, too",
        "a pair",
        K.BARRIER_NOT_REACHED,
        "Plan::rank() == 0 && ptx::elect()",
        "ptx::elect()",
    ),
    # The warps that finish.
    Planted("sums are not waited for", "plain", K.UNDEFINED_REGISTER, _WAIT_SUMS, "tile.from"),
    Planted(
        "sums of the other parity",
        "plain",
        K.BARRIER_NOT_REACHED,
        _WAIT_SUMS,
        "Plan::wait(sums.full(), sums.parity);\n        " + _WAIT_SUMS.replace("parity", "parity ^ 1u"),
    ),
    Planted(
        "no fence behind the wait for sums",
        "plain",
        K.MISSING_TCGEN05_FENCE,
        _WAIT_SUMS,
        "Plan::wait(sums.full(), sums.parity); tile.from",
    ),
    Planted("registers are used before they are loaded", "plain", K.MISSING_TCGEN05_WAIT, _LOADS, ";\n"),
    Planted(
        "sums are handed back while they are loaded",
        "several tiles",
        K.TCGEN05_IN_FLIGHT,
        _LOADS + "    if (first + chunk == C::tile_n) {\n      " + _RELEASE + "    }",
        "if (first + chunk == C::tile_n) {\n      " + _RELEASE + "    }\n    " + _LOADS,
    ),
    Planted(
        "sums are handed back without a fence",
        "several tiles",
        K.MISSING_TCGEN05_FENCE,
        _RELEASE,
        "release(empty, lane);\n",
    ),
    Planted(
        "sums are handed back behind the first columns",
        "several tiles",
        K.TCGEN05_IN_FLIGHT,
        "if (first + chunk == C::tile_n) {",
        "if (first == 0) {",
    ),
    Planted(
        "sums are never handed back",
        "several tiles",
        K.BARRIER_NOT_REACHED,
        "      release(empty, lane);\n",
        "",
    ),
    Planted(
        "every lane hands sums back",
        "several tiles",
        K.BARRIER_NOT_REACHED,
        "if (lane == 0) Plan::arrive_in_first",
        "Plan::arrive_in_first",
    ),
    Planted(
        "lanes of another warp",
        "plain",
        K.TENSOR_MEMORY_MISUSE,
        "quarter = warp % 4",
        "quarter = warp - first_finishing_warp",
    ),
    Planted(
        "lanes of another warp's half",
        "plain",
        K.TENSOR_MEMORY_MISUSE,
        "unsigned(quarter * 32) << 16",
        "unsigned(quarter * 32 + 16) << 16",
    ),
    Planted(
        "rows of another warp",
        "plain",
        WRONG,
        "work.m0 + quarter * 32 + lane;",
        "work.m0 + (warp - first_finishing_warp) * 32 + lane;",
    ),
    Planted(
        "the first columns again",
        "plain",
        WRONG,
        "ptx::tcgen05_load(x, from + unsigned(first));",
        "ptx::tcgen05_load(x, from);",
    ),
    Planted(
        "columns behind the sums",
        "plain",
        K.TENSOR_MEMORY_MISUSE,
        "ptx::tcgen05_load(x, from + unsigned(first));",
        "ptx::tcgen05_load(x, from + unsigned(first) + 16);",
    ),
    Planted(
        "one buffer is finished twice",
        "several tiles",
        WRONG,
        "lanes + unsigned(sums.place * C::tile_n);\n        tile",
        "lanes;\n        tile",
    ),
    Planted("rows outside are stored", "edges", K.OUT_OF_BOUNDS_GLOBAL, "} else if (inside) {", "} else {"),
    Planted(
        "columns outside are stored",
        "edges",
        K.GLOBAL_RACE,
        "if (C::n % C::tile_n != 0 && n0 + first + i >= C::n) continue;\n      Finished<C> y[vector];",
        "Finished<C> y[vector];",
    ),
    Planted("the bias of the first columns", "bias", WRONG, ".at(0, work.n0)", ".at(0, 0)"),
    Planted("the bias of the first neighbours", "bias", WRONG, "of_row, column + i);", "of_row, column);"),
    # Boxes of out.
    Planted(
        "no proxy fence before a store",
        "boxes",
        K.MISSING_PROXY_FENCE,
        "ptx::fence_async_proxy();\n        ptx::warp_sync();",
        "ptx::warp_sync();",
    ),
    Planted(
        "a store does not wait for the other lanes",
        "boxes",
        K.SHARED_RACE,
        "ptx::fence_async_proxy();\n        ptx::warp_sync();",
        "ptx::fence_async_proxy();",
    ),
    Planted(
        "a box is overwritten while it is stored",
        "boxes",
        K.BULK_COPY_IN_FLIGHT,
        "ptx::wait_stores_read<C::store_buffers - 1>();",
        ";",
    ),
    Planted(
        "a box too many may be on its way",
        "boxes",
        K.BULK_COPY_IN_FLIGHT,
        "ptx::wait_stores_read<C::store_buffers - 1>();",
        "ptx::wait_stores_read<C::store_buffers>();",
    ),
    Planted("a block exits while it stores", "boxes", K.BULK_COPY_IN_FLIGHT, "ptx::wait_stores_read<0>();", ";"),
    Planted(
        "boxes without their swizzle",
        "boxes",
        WRONG,
        "linear ^ ((linear >> 7 & (C::store_line / 16 - 1)) << 4)",
        "linear",
    ),
    Planted(
        "boxes of another row",
        "boxes",
        WRONG,
        "work.m0 + quarter * 32, work.batch",
        "work.m0 + quarter * 16, work.batch",
    ),
    # Rings and barriers.
    Planted(
        "a stage expects two arrivals",
        "plain",
        K.BARRIER_NOT_REACHED,
        "ptx::mbarrier_init(stage.full(), 1);",
        "ptx::mbarrier_init(stage.full(), 2);",
    ),
    Planted(
        "sums are empty when one warp has read them",
        "several tiles",
        K.BARRIER_NOT_REACHED,
        "ptx::mbarrier_init(sums.empty(), finishing_warps * pair);",
        "ptx::mbarrier_init(sums.empty(), 1);",
    ),
    Planted(
        "sums are empty when one block has read them",
        "several tiles of a pair",
        K.BARRIER_NOT_REACHED,
        "ptx::mbarrier_init(sums.empty(), finishing_warps * pair);",
        "ptx::mbarrier_init(sums.empty(), finishing_warps);",
    ),
    Planted(
        "barriers that the other block does not see",
        "a pair",
        K.MISSING_MBARRIER_FENCE,
        "    ptx::fence_mbarrier_init();\n",
        "",
    ),
    Planted(
        "two rings at one place",
        "plain",
        K.MBARRIER_MISUSE,
        "sums_barriers_at = barriers_at + 16 * C::stages",
        "sums_barriers_at = barriers_at",
    ),
    Planted(
        "the address of sums on a barrier",
        "plain",
        K.MBARRIER_MISUSE,
        "address_at = sums_barriers_at + 16 * C::sum_buffers",
        "address_at = sums_barriers_at",
    ),
    Planted(
        "stages that overlap",
        "plain",
        K.SHARED_RACE,
        "this->place * C::stage_bytes",
        "this->place * (C::stage_bytes - 2048)",
    ),
    Planted("the parity never changes", "plain", K.ASYNC_READ_BEFORE_WAIT, "parity ^= 1u;\n", "parity = 1u;\n"),
    Planted(
        "each block its own barriers",
        "a pair",
        K.BARRIER_NOT_REACHED,
        "pair == 1 ? address : address & 0xfeffffffu",
        "address",
    ),
    Planted("the first matrix twice", "batch", K.GLOBAL_RACE, "batch = id / (of_matrix * C::split_k);", "batch = 0;"),
    Planted(
        "both blocks the same rows", "a pair", K.GLOBAL_RACE, "tile.m * C::tile_m + rank() * rows", "tile.m * C::tile_m"
    ),
    # The copies.
    Planted(
        "a stage is filled while it is multiplied",
        "plain",
        K.SHARED_RACE,
        "Plan::wait(stage.empty(), stage.parity ^ 1u);",
        ";",
    ),
    Planted(
        "the first round waits",
        "plain",
        K.BARRIER_NOT_REACHED,
        "Plan::wait(stage.empty(), stage.parity ^ 1u);",
        "Plan::wait(stage.empty(), stage.parity);",
    ),
    Planted(
        "half of the bytes are expected",
        "a pair",
        K.ASYNC_READ_BEFORE_WAIT,
        "pair * (Plan::scales_at + Plan::scale_bytes)",
        "C::stage_bytes",
    ),
    Planted(
        "too many bytes are expected",
        "plain",
        K.BARRIER_NOT_REACHED,
        "pair * (Plan::scales_at + Plan::scale_bytes)",
        "pair * C::stage_bytes + 16",
    ),
    Planted(
        "both blocks the same columns of b", "a pair", WRONG, "work.n0 + Plan::rank() * (C::tile_n / pair)", "work.n0"
    ),
    Planted(
        "b is a k-tile ahead",
        "plain",
        WRONG,
        "A::bytes, column, t * C::tile_k",
        "A::bytes, column, (t + 1) * C::tile_k",
    ),
    Planted(
        "b is copied onto a", "plain", K.SHARED_RACE, "load<B>(b, stage.tile() + A::bytes,", "load<B>(b, stage.tile(),"
    ),
    Planted(
        "coordinates of b swapped",
        "lines of b along n",
        WRONG,
        "const int x = (Operand::major ? mn0 : k0) + along, y = Operand::major ? k0 : mn0;",
        "const int x = (Operand::major ? k0 : mn0) + along, y = Operand::major ? mn0 : k0;",
    ),
    # Tensor memory.
    Planted("not freed", "plain", K.TENSOR_MEMORY_MISUSE, "ptx::tcgen05_dealloc<pair>(sums, C::tensor_columns);", ";"),
    Planted(
        "half of it freed",
        "plain",
        K.TENSOR_MEMORY_MISUSE,
        "ptx::tcgen05_dealloc<pair>(sums, C::tensor_columns);",
        "ptx::tcgen05_dealloc<pair>(sums, C::tensor_columns / 2);",
    ),
    Planted(
        "freed before it is read",
        "plain",
        K.TCGEN05_IN_FLIGHT,
        "      ptx::cluster_arrive();\n      ptx::cluster_wait();\n    } else {\n      ptx::barrier_sync();\n    }\n",
        "      ptx::cluster_arrive();\n      ptx::cluster_wait();\n    }\n",
    ),
    Planted(
        "freed without a fence behind the barrier",
        "plain",
        K.MISSING_TCGEN05_FENCE,
        "ptx::tcgen05_fence_after_sync();\n      ptx::tcgen05_dealloc",
        "ptx::tcgen05_dealloc",
    ),
    Planted(
        "permission given back too early",
        "plain",
        K.TENSOR_MEMORY_MISUSE,
        _ALLOC + "      " + _RELINQUISH,
        _RELINQUISH + "      " + _ALLOC,
    ),
    Planted(
        "allocated by the first lane's half of the columns",
        "plain",
        K.TENSOR_MEMORY_MISUSE,
        "Plan::address_at, C::tensor_columns);",
        "Plan::address_at, C::tensor_columns / 2);",
    ),
    Planted(
        "allocated columns that are no power of two",
        "plain",
        K.TENSOR_MEMORY_MISUSE,
        "Plan::address_at, C::tensor_columns);",
        "Plan::address_at, C::tensor_columns + 32);",
    ),
    Planted(
        "allocated by every warp",
        "plain",
        K.TENSOR_MEMORY_MISUSE,
        "if (warp == multiplying_warp) {\n      ptx::tcgen05_alloc",
        "if (warp >= multiplying_warp) {\n      ptx::tcgen05_alloc",
    ),
    Planted(
        "the address is read before it is there",
        "plain",
        K.UNINITIALIZED_SHARED_READ,
        "    }\n    ptx::barrier_sync();\n    ptx::tcgen05_fence_after_sync();",
        "    }\n    ptx::tcgen05_fence_after_sync();",
    ),
    # Descriptors.
    Planted(
        "a is f16",
        "plain",
        K.INVALID_ARGUMENT,
        "sums << 4 | Tcgen05Type<T>::code << 7",
        "sums << 4 | 0u << 7",
        INTRINSIC,
    ),
    Planted("sums are f16", "plain", WRONG, "Tcgen05Type<T>::sums << 4", "0u", INTRINSIC),
    Planted("lines of b along k", "lines of b along n", WRONG, "unsigned(MajorB) << 16", "0u", INTRINSIC),
    Planted(
        "sparse operands",
        "plain",
        K.INVALID_ARGUMENT,
        "Tcgen05Type<T>::sums << 4 |",
        "Tcgen05Type<T>::sums << 4 | 4u |",
        INTRINSIC,
    ),
    Planted(
        "a descriptor of wgmma",
        "plain",
        K.INVALID_ARGUMENT,
        "descriptor(address & 0x3ffff) | 1ull << 46",
        "descriptor(address)",
        INTRINSIC,
    ),
    Planted(
        "a swizzle that there is not",
        "plain",
        K.INVALID_ARGUMENT,
        "descriptor(address & 0x3ffff) | 1ull << 46",
        "descriptor(address) | 1ull << 46 | 1ull << 61",
        INTRINSIC,
    ),
    # Blocks that share a tile.
    Planted("a split begins at the first k-tile", "splits", WRONG, "first = split * C::tiles_of_split;", "first = 0;"),
    Planted(
        "the last split ends too early",
        "splits",
        WRONG,
        "C::tiles_k - first : C::tiles_of_split;",
        "C::tiles_k - first - 1 : C::tiles_of_split;",
    ),
    Planted(
        "every split finishes the tile",
        "splits",
        K.GLOBAL_RACE,
        "if (!leave_split(tile, partials, counters, shared, work)) return;",
        "leave_split(tile, partials, counters, shared, work);",
    ),
    Planted("splits leave sums in one place", "splits", K.GLOBAL_RACE, "* C::split_k + work.split;", "* C::split_k;"),
    Planted(
        "one split is not added",
        "splits",
        WRONG,
        "split < C::split_k; ++split, others",
        "split + 1 < C::split_k; ++split, others",
    ),
    Planted("one counter for all tiles", "splits", WRONG, "(counters + work.output_tile, shared", "(counters, shared"),
    Planted("a part begins at the first k-tile", "stream-K", WRONG, "work.first = part.first;", "work.first = 0;"),
    Planted("both finish a tile", "stream-K", K.GLOBAL_RACE, "if (others == nullptr) return;\n        }", "}"),
    Planted("the other part is not added", "stream-K", WRONG, "if constexpr (C::stream_k) add(x, others, first);", ""),
    Planted("the other part is not waited for", "stream-K", K.GLOBAL_RACE, "    two.wait_stored();\n", ""),
    Planted("nobody says that a part is stored", "stream-K", K.DEADLOCK, "      two.tell_stored();\n", ""),
    Planted(
        "whole tiles are taken for parts",
        "stream-K",
        K.GLOBAL_RACE,
        "if (work.tiles < C::tiles_k) {",
        "if (work.tiles <= C::tiles_k) {",
    ),
    # Scales of blocks.
    Planted(
        "the scale of the first k-tile", "scales of blocks", WRONG, "End::number(of_a + t) *", "End::number(of_a) *"
    ),
    Planted(
        "the scale of the first columns",
        "scales of blocks",
        WRONG,
        "* blocks_n + work.n0 / block) * blocks_k",
        "* blocks_n) * blocks_k",
    ),
    Planted(
        "the scale of another row",
        "scales of blocks",
        WRONG,
        "* C::m + row) * blocks_k + work.first;",
        "* C::m + row / 2) * blocks_k + work.first;",
    ),
    Planted(
        "sums of a k-tile are not waited for",
        "scales of blocks",
        K.UNDEFINED_REGISTER,
        "      Plan::wait(sums.full(), sums.parity);\n      ptx::tcgen05_fence_after_sync();\n#pragma",
        "#pragma",
    ),
    Planted("k-tiles add up in tensor memory", "scales of blocks", WRONG, "t > 0 && !Plan::scaled_k_tiles", "t > 0"),
    Planted(
        "sums of a k-tile are overwritten",
        "scales of blocks",
        K.TCGEN05_IN_FLIGHT,
        "if constexpr (Plan::scaled_k_tiles) begin(sums);",
        "",
    ),
    # Cluster launch control.
    Planted(
        "an answer is not waited for",
        "launch control",
        K.ASYNC_READ_BEFORE_WAIT,
        "    wait(answer.full(), answer.parity);\n",
        "",
    ),
    Planted(
        "no proxy fence behind the read of an answer",
        "launch control",
        K.MISSING_PROXY_FENCE,
        "    ptx::fence_async_proxy();  // it has been read before the next one is written\n",
        "",
    ),
    Planted(
        "an answer is overwritten while it is read",
        "launch control",
        K.SHARED_RACE,
        "    if (rank() == 0) wait(answer.empty(), answer.parity ^ 1u);\n",
        "",
    ),
    Planted(
        "nobody says that an answer was read",
        "launch control",
        K.BARRIER_NOT_REACHED,
        "if (Who != Role::finishes || threadIdx.x % 32 == 0) arrive_in_first(answer.empty());",
        "",
    ),
    Planted(
        "an answer is not expected",
        "launch control",
        K.BARRIER_NOT_REACHED,
        "    ptx::mbarrier_arrive_expect_tx(answer.full(), 16);\n",
        "",
    ),
    Planted(
        "half of an answer is expected",
        "launch control",
        K.BARRIER_NOT_REACHED,
        "mbarrier_arrive_expect_tx(answer.full(), 16)",
        "mbarrier_arrive_expect_tx(answer.full(), 8)",
    ),
    Planted(
        "a tile is asked for behind the last one",
        "launch control",
        K.MBARRIER_MISUSE,
        "        body(Work(next));\n        next = take<Who>(answer);",
        "        body(Work(next));\n        if constexpr (Who == Role::copies) ask(answer);\n"
        "        next = take<Who>(answer);",
    ),
    Planted(
        "the tile of an answer is not computed",
        "launch control",
        K.UNWRITTEN_OUTPUT,
        "return block < 0 ? -1 : block / pair;",
        "return -1;",
    ),
    Planted(
        "the own tile is computed again",
        "launch control",
        K.UNWRITTEN_OUTPUT,
        "        next = take<Who>(answer);",
        "        next = take<Who>(answer) < 0 ? -1 : id;",
    ),
    Planted(
        "the block of a pair for its tile",
        "launch control of pairs",
        WRONG,
        "return block < 0 ? -1 : block / pair;",
        "return block;",
    ),
    Planted(
        "both blocks of a pair ask",
        "launch control of pairs",
        K.INVALID_ARGUMENT,
        "if (rank() == 0) ptx::try_cancel<pair>",
        "ptx::try_cancel<pair>",
    ),
    Planted(
        "the second block does not expect the answer",
        "launch control of pairs",
        K.BARRIER_NOT_REACHED,
        "    ptx::mbarrier_arrive_expect_tx(answer.full(), 16);\n    if (rank() == 0)",
        "    if (rank() == 0) ptx::mbarrier_arrive_expect_tx(answer.full(), 16);\n    if (rank() == 0)",
    ),
    Planted(
        "readers of one block alone are waited for",
        "launch control of pairs",
        K.BARRIER_NOT_REACHED,
        "readers = pair * (1 + finishing_warps) + 1;",
        "readers = 1 + finishing_warps + 1;",
    ),
    Planted(
        "an answer of a pair is read by its own block alone",
        "launch control of pairs",
        K.BARRIER_NOT_REACHED,
        "arrive_in_first(answer.empty());",
        "ptx::mbarrier_arrive(answer.empty());",
    ),
)
