"""Faults planted in the headers of wgmma_matmul: each replaces text and names the expected findings."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from header_edits import edited
from mutation_testing import WRONG
from wgmma_cases import CASES, small_kernel

from measurements.emulator import FindingKind
from measurements.emulator.order import OrderKind
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.matmul import Matmul

K = FindingKind
_KERNEL = "autosched/kernels/wgmma_matmul.cuh"
_OUT = "autosched/intrinsics/wgmma_out.cuh"
_STREAM_K = "autosched/common/stream_k.cuh"


@dataclass(frozen=True)
class WgmmaFault:
    """A fault: ``old`` is replaced by ``new`` in a header.

    The emulation of CASES[case] must report one of ``findings`` (kinds of findings, or WRONG) in every order of warps,
    with the blocks in the order ``blocks``. ``clusters`` is the number of clusters that run at a time; 0 means all.
    """

    name: str
    case: str
    old: str
    new: str
    findings: tuple[str, ...]
    header: str = _KERNEL
    blocks: OrderKind = "ascending"
    clusters: int = 0

    def kernel(self) -> tuple[Matmul, GeneratedKernel]:
        problem, kernel = small_kernel(*CASES[self.case])
        headers = edited(kernel.headers, self.header, self.old, self.new)
        grid = kernel.grid_of(self.clusters) if self.clusters else kernel.grid
        return problem, dataclasses.replace(kernel, headers=headers, grid=grid)


PERSISTENT, STORES, TURNS = "persistent", "persistent, with stores", "taking turns"
WHOLE = "persistent, staged whole"
_WRITTEN = """ptx::fence_async_proxy();
      ptx::barrier_sync(barrier, 128);  // every thread has written its part of all boxes"""
TURNED = "a copied by a warp, b by TMA, ping-pong"
STREAM, STREAM_STORES = "stream-K", "stream-K, with stores"
STREAM_TURNS = "stream-K, ping-pong, in clusters"
ALONG_M, ALONG_N, ALL = "cluster along m", "cluster along n", "all of it"
LOST = (K.ASYNC_READ_BEFORE_WAIT, K.BARRIER_NOT_REACHED, K.SHARED_RACE, WRONG, K.MBARRIER_MISUSE, K.WGMMA_IN_FLIGHT)
BY_WARP, MIXED, SHIFTED = "copied by a warp", "copied, beside multicast", "shifted"
THREADS = "copied by threads although TMA could"
FRAGMENTS = "a from registers"
_FRAGMENT, _BOXES = "autosched/intrinsics/wgmma_fragment.cuh", "autosched/intrinsics/wgmma.cuh"
_COPY = "autosched/intrinsics/wgmma_copy.cuh"
_ARRIVE = "ptx::mbarrier_arrive(arrived"
_FENCE = "ptx::fence_async_proxy();\n    " + _ARRIVE
_READ = "ptx::fence_async_proxy();\n      ptx::warp_sync();"
_NEXT_TURN = """if (more) ptx::barrier_arrive(of_turns + (1 - int(threadIdx.x) / 128), consumer_threads);
    }
    if constexpr (C::in_flight"""
_FIRST_ROUND = """
#pragma unroll 1
      for (int t = 0; t < work.tiles; ++t, stage.advance()) {
        wait(stage.empty(), stage.parity ^ 1u);  // in the first"""
_BODY = "body(Work(next, order), turn, next + launched < works);"
_NEXT_BOX = "if (threadIdx.x % 128 < 32 && ptx::elect()) ptx::wait_stores_read<C::store_buffers - 1>();"
_LAST_BOX = """// TMA must have read shared memory before the block exits.
      if (threadIdx.x % 128 < 32 && ptx::elect()) ptx::wait_stores_read<0>();"""

# The first faults, one per mechanism, are part of every test run; the others are nightly.
FAULTS = (
    WgmmaFault("no proxy fence before a store", STORES, "Box::write(box, x);\n        ptx::fence_async_proxy();",
               "Box::write(box, x);", (K.MISSING_PROXY_FENCE,)),
    WgmmaFault("a box is overwritten while TMA stores it", STORES, _NEXT_BOX, "", (K.BULK_COPY_IN_FLIGHT,)),
    WgmmaFault("no stage is skipped", TURNS, "return stage.skip(work.tiles);", "return;", LOST),
    WgmmaFault("releases stages only in its own block", ALONG_M, "peer(i < peers ? i : 0))", "rank())", LOST),
    WgmmaFault("no proxy fence after copies", BY_WARP, _FENCE, _ARRIVE, (K.MISSING_PROXY_FENCE,)),
    WgmmaFault("copies are not waited for", BY_WARP, "ptx::cp_async_wait_group<behind>();", "",
               (K.ASYNC_READ_BEFORE_WAIT,)),
    WgmmaFault("reads past the end of a line", BY_WARP, "between(0, left, piece)", "inside ? piece : 0",
               (WRONG, K.OUT_OF_BOUNDS_GLOBAL), _COPY),
    WgmmaFault("no fence between storing sums and the flag", STREAM,
               "ptx::fence_gpu();  // cumulative: also orders the stores", "// ",
               (K.GLOBAL_RACE,), _STREAM_K),
    WgmmaFault("sums are read without waiting for their flag", STREAM,
               "while (ptx::ld_acquire(stored) == 0) {\n      }", "", (K.GLOBAL_RACE,), _STREAM_K),
    # Stream-K.
    WgmmaFault("the wait has no acquire semantics", STREAM,
               "ptx::ld_acquire(stored)", "*stored", (K.GLOBAL_RACE,), _STREAM_K),
    WgmmaFault("waits for the ticket instead of the sums' flag", STREAM,
               "ptx::ld_acquire(stored)", "ptx::ld_acquire(tickets)",
               (K.GLOBAL_RACE,), _STREAM_K),
    WgmmaFault("waits for the inverse of the flag", STREAM, "ld_acquire(stored) == 0", "ld_acquire(stored) != 0",
               (K.GLOBAL_RACE, K.DEADLOCK), _STREAM_K),
    WgmmaFault("the flag is set before all threads have stored sums", STREAM_STORES,
               "ptx::barrier_sync(barrier, Threads);  // all threads have stored their sums", "",
               (K.GLOBAL_RACE,), _STREAM_K),
    WgmmaFault("only one thread waits for the sums", STREAM_STORES,
               "ready for the next launch\n    }\n    ptx::barrier_sync(barrier, Threads);",
               "ready for the next launch\n    }", (K.GLOBAL_RACE,), _STREAM_K),
    WgmmaFault("the tickets are not reset", STREAM_TURNS, "ptx::atomic_add(tickets, -2u);", "",
               (K.WORKSPACE_NOT_ZERO,), _STREAM_K),
    WgmmaFault("the sums' flag is not reset", STREAM, "ptx::atomic_add(stored, -1u);", "",
               (K.WORKSPACE_NOT_ZERO,), _STREAM_K),
    WgmmaFault("the sums are added twice", STREAM, "registers[r + i] += ",
               "registers[r + i] += Element<Sum>::of(other.word[i]) + ", (WRONG,), _STREAM_K),
    WgmmaFault("the other worker's sums are not added", STREAM, "registers[r + i] += ", "registers[r + i] += 0 * ",
               (WRONG,), _STREAM_K),
    WgmmaFault("a k-tile is assigned to two workers", STREAM, "first_dealt(worker + 1) - dealt,",
               "first_dealt(worker + 1) - dealt + (worker == 0),", (WRONG, K.LOST_WRITE), _STREAM_K),
    WgmmaFault("a k-tile is assigned to no worker", STREAM_STORES, "first_dealt(worker + 1) - dealt,",
               "first_dealt(worker + 1) - dealt - (worker == 1),",
               (WRONG, K.UNWRITTEN_OUTPUT, K.BARRIER_NOT_REACHED), _STREAM_K),
    WgmmaFault("the last part of a tile starts at its first k-tile", STREAM,
               "work.first = part.first;", "work.first = 0;",
               (WRONG,)),
    WgmmaFault("both workers finish the tile", STREAM, "tile.tell_stored();\n    return false;",
               "tile.tell_stored();\n    return true;",
               (K.GLOBAL_RACE, K.LOST_WRITE, WRONG), _STREAM_K),
    WgmmaFault("no worker finishes the tile", STREAM, "+= Element<Sum>::of(other.word[i]);\n  }\n  return true;",
               "+= Element<Sum>::of(other.word[i]);\n  }\n  return false;", (K.UNWRITTEN_OUTPUT,), _STREAM_K),
    WgmmaFault("a worker uses its neighbour's workspace slot", STREAM_STORES, "first > 0 ? worker - 1 : worker",
               "first > 0 ? worker : worker", (K.WORKSPACE_NOT_ZERO, K.UNWRITTEN_OUTPUT), _STREAM_K),
    WgmmaFault("all clusters share one workspace slot", STREAM_STORES, "(work.cut * cluster + rank()) * sharing",
               "rank() * sharing", (WRONG, K.UNWRITTEN_OUTPUT), blocks="descending"),
    WgmmaFault("blocks of a cluster share a workspace slot", STREAM_TURNS, "(work.cut * cluster + rank()) * sharing",
               "work.cut * cluster * sharing", (K.GLOBAL_RACE, WRONG, K.UNWRITTEN_OUTPUT, K.LOST_WRITE)),
    WgmmaFault("warpgroups share a workspace slot", STREAM_STORES, "* sharing + rows;", "* sharing;",
               (K.GLOBAL_RACE, WRONG, K.UNWRITTEN_OUTPUT, K.LOST_WRITE)),
    WgmmaFault("blocks also exchange sums of whole tiles", STREAM_TURNS, "if (work.tiles < C::tiles_k && !Exchange",
               "if (!Exchange", (K.WORKSPACE_NOT_ZERO, K.UNWRITTEN_OUTPUT, K.OUT_OF_BOUNDS_GLOBAL)),
    WgmmaFault("a whole tile is left out", STREAM_TURNS, "dealt_tiles + worker};",
               "dealt_tiles + worker + 1};", (K.UNWRITTEN_OUTPUT,), _STREAM_K),
    # Copies by threads.
    WgmmaFault("no proxy fence after the shift", SHIFTED, _FENCE, _ARRIVE, (K.MISSING_PROXY_FENCE,)),
    WgmmaFault("reads past the last line", SHIFTED,
               "(!Anywhere && Height % Operand::lines == 0) || pass * lines_of_pass < lines_left", "true",
               (WRONG, K.OUT_OF_BOUNDS_GLOBAL), _COPY),
    WgmmaFault("the wait leaves one k-tile too many in flight", BY_WARP, "wait_group<behind>", "wait_group<behind + 1>",
               (K.ASYNC_READ_BEFORE_WAIT,)),
    WgmmaFault("the last copies are not waited for", BY_WARP, "ptx::cp_async_wait_group<0>();", "",
               (K.ASYNC_READ_BEFORE_WAIT,)),
    WgmmaFault("the last copies are not signalled", BY_WARP, "if constexpr (!shifts_differ) publish_rest(0);", "",
               (K.BARRIER_NOT_REACHED,)),
    WgmmaFault("k-tiles that consumers wait for are signalled too late", "copied along n, beside TMA",
               "C::stages - 1 - C::in_flight;",
               "C::stages;", (K.BARRIER_NOT_REACHED, *LOST)),
    WgmmaFault("TMA's arrival is not counted", MIXED, "copying_threads + (tma_bytes > 0)", "copying_threads", LOST),
    WgmmaFault("the barrier also expects bytes that threads copy", MIXED,
               "stage.full(), tma_bytes);", "stage.full(), C::stage_bytes);", LOST),
    WgmmaFault("copies before the stage is empty", BY_WARP,
               "wait(stage.empty(), stage.parity ^ 1u);\n        const int k0",
               "const int k0", LOST),
    WgmmaFault("copies are not swizzled", MIXED, "(linear ^ ((linear >> 7 & (Operand::line / 16 - 1)) << 4))", "linear",
               (WRONG,), _COPY),
    WgmmaFault("lines are not shifted", SHIFTED, "0x1111u *", "0u *", (WRONG,), _COPY),
    WgmmaFault("all lines have the first line's shift", SHIFTED, "(line + pass * lines_of_pass) * int(pitch % 4)",
               "line * 0 * int(pitch % 4)", (WRONG, K.MISALIGNED_ACCESS), _COPY),
    WgmmaFault("all matrices have the first matrix's shift", "ping-pong, each matrix shifted by a different distance",
               "matrix * int(matrix_bytes % 4)", "0 * matrix", (WRONG, K.MISALIGNED_ACCESS), _COPY),
    WgmmaFault("a line's last word has no successor", SHIFTED, "last_of_line() ? next[i] : neighbour", "neighbour",
               (WRONG,), _COPY),
    WgmmaFault("a and b use the same memory for the words after their lines", SHIFTED,
               "return stage.ends() + CopyA::ends_bytes;", "return stage.ends();", (K.SHARED_RACE, WRONG, *LOST)),
    WgmmaFault("all stages use the same memory for the words after the lines", SHIFTED,
               "+ barrier / 16 * unsigned(C::ends_bytes)", "", (K.SHARED_RACE, K.ASYNC_READ_BEFORE_WAIT, WRONG)),
    WgmmaFault("no proxy fence after copies of 16 bytes", THREADS, _FENCE, _ARRIVE, (K.MISSING_PROXY_FENCE,)),
    WgmmaFault("passes of 16 bytes overlap", THREADS, "pass / repeats * period", "pass / repeats * 1024",
               (WRONG, K.SHARED_RACE, K.ASYNC_READ_BEFORE_WAIT, K.UNINITIALIZED_SHARED_READ), _COPY),
    WgmmaFault("copies of 16 bytes read past the last line", THREADS,
               "(!Anywhere && Height % Operand::lines == 0) || pass * lines_of_pass < lines_left", "true",
               (WRONG, K.OUT_OF_BOUNDS_GLOBAL), _COPY),
    # Operand a in registers.
    WgmmaFault("loads of other lanes are not waited for", FRAGMENTS, _READ, "ptx::fence_async_proxy();",
               (K.SHARED_RACE,)),
    WgmmaFault("no proxy fence between loads and TMA's writes", FRAGMENTS,
               _READ, "ptx::warp_sync();", (K.MISSING_PROXY_FENCE,)),
    WgmmaFault("registers of A are not fenced", FRAGMENTS, "ptx::wgmma_fence();  // also orders the registers of A", "",
               (K.MISSING_WGMMA_FENCE,)),
    WgmmaFault("registers of A are loaded while they are multiplied", FRAGMENTS,
               "ptx::wgmma_wait_group<C::in_flight>();", "ptx::wgmma_wait_group<1>();", (K.WGMMA_IN_FLIGHT,)),
    WgmmaFault("halves of k exchanged", FRAGMENTS, "lane / 16 * 16));", "(1 - lane / 16) * 16));", (WRONG,), _FRAGMENT),
    WgmmaFault("rows of A along m exchanged", "a from registers, along m, ping-pong", "lane / 8 % 2 * 8) * 2",
               "(1 - lane / 8 % 2) * 8) * 2", (WRONG,), _FRAGMENT),
    WgmmaFault("words of A exchanged", "32-bit a from registers, along m", "r / 2 * 4 + lane % 4, m = row + r % 2 * 8",
               "r % 2 * 4 + lane % 4, m = row + r / 2 * 8", (WRONG,), _FRAGMENT),
    WgmmaFault("A is not swizzled for its loads", FRAGMENTS, "linear ^ ((linear >> 7 & (line / 16 - 1)) << 4)",
               "linear", (WRONG,), _BOXES),
    WgmmaFault("all consumers load the first rows", "32-bit a from registers, along m",
               "group * fragments * 64 + int(threadIdx.x) / 32 % 4", "int(threadIdx.x) / 32 % 4", (WRONG,)),
    # Boxes of the output.
    WgmmaFault("the wait leaves one box too many in flight", STORES, "<C::store_buffers - 1>", "<C::store_buffers>",
               (K.BULK_COPY_IN_FLIGHT,)),
    WgmmaFault("a box is stored before all threads have written it", STORES,
               "ptx::barrier_sync(barrier, 128);  // every thread has written its part\n", "", (K.SHARED_RACE,)),
    WgmmaFault("threads write a box before TMA has read it", STORES,
               "ptx::barrier_sync(barrier, 128);  // TMA has read the previous contents of the box", "",
               (K.BULK_COPY_IN_FLIGHT,)),
    WgmmaFault("stores are not committed", STORES,
               "work.batch, box);\n          ptx::commit_stores();", "work.batch, box);", (K.BULK_COPY_IN_FLIGHT,)),
    WgmmaFault("exits during a store", STORES, _LAST_BOX, "", (K.BULK_COPY_IN_FLIGHT,)),
    WgmmaFault("all groups store to the first rows", "stores of f32 past the edges",
               "row0 + next % fragments * 64, work.batch,", "row0, work.batch,",
               (WRONG, K.UNWRITTEN_OUTPUT, K.LOST_WRITE)),
    WgmmaFault("both consumers use one box", STORES, "boxes += unsigned(group * ", "boxes += unsigned(0 * group * ",
               (K.SHARED_RACE, K.BULK_COPY_IN_FLIGHT)),
    WgmmaFault("out is not swizzled", STORES, "linear ^ ((linear >> 7 & (Line / 16 - 1)) << 4)", "linear",
               (WRONG,), _OUT),
    WgmmaFault("halves of f32 exchanged", "stores of f32 past the edges", "r / 2 % 2 * 8", "(1 - r / 2 % 2) * 8",
               (WRONG,), _OUT),
    WgmmaFault("columns of stmatrix exchanged", STORES, "r / 4 + lane / 16", "r / 4 + 1 - lane / 16", (WRONG,), _OUT),
    WgmmaFault("no proxy fence before a whole tile is stored", WHOLE, _WRITTEN,
               "ptx::barrier_sync(barrier, 128);  // every thread has written its part of all boxes",
               (K.MISSING_PROXY_FENCE,)),
    WgmmaFault("a whole tile is stored before all threads have written it", WHOLE,
               _WRITTEN, "ptx::fence_async_proxy();",
               (K.SHARED_RACE,)),
    WgmmaFault("a whole tile is written before TMA has read the previous one", WHOLE,
               "ptx::barrier_sync(barrier, 128);  // TMA has read the boxes of the previous tile", "",
               (K.BULK_COPY_IN_FLIGHT,)),
    WgmmaFault("no thread waits for the previous tile's stores", WHOLE,
               "if (staged_whole && C::several_tiles) {", "if (staged_whole && C::several_tiles && C::tile_m > 9999) {",
               (K.BULK_COPY_IN_FLIGHT,)),
    WgmmaFault("a box of a whole tile is left out", WHOLE, "next < C::store_buffers; ++next",
               "next < C::store_buffers - 1; ++next", (K.UNWRITTEN_OUTPUT,)),
    # Several tiles per block.
    WgmmaFault("each tile begins with the first stage", PERSISTENT,
               "for_each_work(chosen.order, [&](const Work& work, int, bool) {" + _FIRST_ROUND,
               "for_each_work(chosen.order, [&, at = stage](const Work& work, int, bool) { PipelineState stage = at;"
               + _FIRST_ROUND, LOST),
    WgmmaFault("skipped stages do not change the parity", TURNS,
               "parity ^= count / unsigned(C::stages) & 1u;", "", LOST),
    WgmmaFault("strides over blocks, not clusters", ALL, "int(gridDim.x / unsigned(cluster))", "int(gridDim.x)",
               (WRONG, K.UNWRITTEN_OUTPUT, K.BARRIER_NOT_REACHED)),
    WgmmaFault("the stride exceeds the number of launched clusters", TURNED, "next += launched", "next += launched + 1",
               (WRONG, K.UNWRITTEN_OUTPUT), clusters=1),
    WgmmaFault("the test for the last tile counts one cluster too many", TURNED, _BODY,
               _BODY.replace("launched", "launched + 1"), LOST, clusters=1),
    WgmmaFault("the copies stop one tile early", PERSISTENT, _BODY,
               "if (threadIdx.x < consumer_threads || next + launched < works) body(Work(next, order), turn, true);",
               LOST),
    # Two consumers that alternate tiles (ping-pong).
    WgmmaFault("a consumer starts before its turn", "taking turns, with registers",
               "ptx::barrier_sync(of_turns + group, consumer_threads);", "", LOST),
    WgmmaFault("a consumer does not let the other have the next turn", TURNS,
               _NEXT_TURN, _NEXT_TURN.replace("more", "false"), (K.BARRIER_NOT_REACHED,)),
    WgmmaFault("no consumer has the first turn", TURNS, "if (group == 1) ptx::barrier_arrive",
               "if (false) ptx::barrier_arrive", (K.BARRIER_NOT_REACHED,)),
    WgmmaFault("both multiply the same tiles", TURNS, "if (turn % 2 != group)", "if (turn % 2 != 0)",
               (K.BARRIER_NOT_REACHED, *LOST)),
    WgmmaFault("a stage waits for both consumers", TURNS, "4 * sharing * peers", "4 * C::consumer_warpgroups * peers",
               (K.BARRIER_NOT_REACHED,)),
    # Clusters.
    WgmmaFault("descriptors contain the rank of the block", "cluster along m, several boxes per tile of b",
               "(address & 0x3ffff) >> 4", "address >> 4", (WRONG, K.OUT_OF_BOUNDS_SHARED, *LOST), _BOXES),
    WgmmaFault("a stage is refilled without its peers' release", ALL, "4 * sharing * peers", "4 * sharing", LOST),
    WgmmaFault("a block exits while its peers use its shared memory", ALONG_M,
               "    drain(stage);\n  }\n\n  // The code of all", "  }\n\n  // The code of all",
               (K.BLOCK_EXITED,)),
    WgmmaFault("a block exits one stage too early", ALONG_M, "i < C::stages; ++i, stage",
               "i < C::stages - 1; ++i, stage", (K.BLOCK_EXITED,)),
    WgmmaFault("copying threads exit while their peers use the block", TURNED, "publish_rest(0);\n    drain(stage);",
               "publish_rest(0);", (K.BLOCK_EXITED,)),
    WgmmaFault("a lost release of a peer's stage", ALONG_M, "threadIdx.x % 32 < peers", "threadIdx.x % 32 < peers - 1",
               (K.DEADLOCK, K.BARRIER_NOT_REACHED)),
    WgmmaFault("no fence after initialising barriers", ALONG_M, "ptx::fence_mbarrier_init();", "",
               (K.MISSING_MBARRIER_FENCE,)),
    WgmmaFault("a block starts before its peers have initialised barriers", ALONG_M,
               "    sync();\n", "    ptx::barrier_sync();\n",
               (K.MBARRIER_MISUSE, K.BLOCK_EXITED)),
    WgmmaFault("multicast only to the issuing block", ALONG_N, "blocks_along_n << rank_m()", "1u << Plan::rank()",
               (K.BARRIER_NOT_REACHED,)),
    WgmmaFault("multicast only to other blocks", ALONG_M, "((1u << C::cluster_m) - 1) << (rank_n() * C::cluster_m)",
               "(((1u << C::cluster_m) - 1) << (rank_n() * C::cluster_m)) & ~(1u << Plan::rank())", LOST),
    WgmmaFault("all copy the same part", ALONG_M, "Multicast ? part * Lines : 0", "0 * part * Lines",
               (K.SHARED_RACE, K.UNINITIALIZED_SHARED_READ)),
    WgmmaFault("only the bytes of the block's own part are expected", ALONG_M, "stage.full(), tma_bytes);",
               "stage.full(), A::bytes + B::bytes / C::cluster_m);", LOST),
    WgmmaFault("all compute the first tile", ALL, "tile.m * C::cluster_m + rank_m()", "tile.m * C::cluster_m",
               (WRONG, K.UNWRITTEN_OUTPUT)),
    WgmmaFault("forgets those along m", ALL, "cluster_m + C::cluster_n - 1;", "cluster_n;", LOST),
)  # fmt: skip
