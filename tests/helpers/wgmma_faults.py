"""Faults planted in the headers of wgmma_matmul, each a change of their text, with what must be found."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from wgmma_cases import CASES, small_kernel

from measurements.emulator import FindingKind
from search_spaces.operators.matmul import Matmul
from search_spaces.templates.headers import Headers
from search_spaces.templates.kernel import Kernel

K = FindingKind
WRONG = "wrong numbers"
_KERNEL = "autosched/kernels/wgmma_matmul.cuh"
_OUT = "autosched/intrinsics/wgmma_out.cuh"


@dataclass(frozen=True)
class WgmmaFault:
    """``old`` becomes ``new`` in a header; emulating the case of CASES must give one of ``found``: kinds of findings,
    or WRONG."""

    name: str
    case: str
    old: str
    new: str
    found: tuple[str, ...]
    header: str = _KERNEL

    def kernel(self) -> tuple[Matmul, Kernel]:
        problem, kernel = small_kernel(*CASES[self.case])
        text = dict(kernel.headers.files)[self.header]
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.header} has {text.count(self.old)} times {self.old!r}")
        changed = Headers.of({self.header: text.replace(self.old, self.new)})
        return problem, dataclasses.replace(kernel, headers=kernel.headers | changed)


PERSISTENT, STORES, TURNS = "persistent", "persistent, with stores", "taking turns"
ALONG_M, ALONG_N, ALL = "cluster along m", "cluster along n", "all of it"
LOST = (K.ASYNC_READ_BEFORE_WAIT, K.BARRIER_NOT_REACHED, K.SHARED_RACE, WRONG, K.MBARRIER_MISUSE, K.WGMMA_IN_FLIGHT)
_NEXT_BOX = "if (threadIdx.x % 128 == 0) ptx::wait_stores_read<C::store_buffers - 1>();"
_LAST_BOX = "if (threadIdx.x % 128 == 0) ptx::wait_stores_read<0>();"

# The first ones are run by default: one of each mechanism.
FAULTS = (
    WgmmaFault("no proxy fence before a store", STORES, "ptx::fence_async_proxy();", "", (K.MISSING_PROXY_FENCE,)),
    WgmmaFault("a box is written while it is stored", STORES, _NEXT_BOX, "", (K.BULK_COPY_IN_FLIGHT,)),
    WgmmaFault("no stage is skipped", TURNS, "return place.skip(work.tiles);", "return;", LOST),
    WgmmaFault("releases its own stage alone", ALONG_M, "peer(i < peers ? i : 0))", "rank())", LOST),
    # Boxes of out.
    WgmmaFault("waits for all boxes but one too many", STORES, "<C::store_buffers - 1>", "<C::store_buffers>",
               (K.BULK_COPY_IN_FLIGHT,)),
    WgmmaFault("stored before all have written", STORES,
               "ptx::barrier_sync(barrier, 128);  // every thread has written its part", "", (K.SHARED_RACE,)),
    WgmmaFault("written before the wait of one", STORES,
               "ptx::barrier_sync(barrier, 128);  // what the box held has been read", "", (K.BULK_COPY_IN_FLIGHT,)),
    WgmmaFault("not committed", STORES, "ptx::commit_stores();", "", (K.BULK_COPY_IN_FLIGHT,)),
    WgmmaFault("exits during a store", STORES, _LAST_BOX, "", (K.BULK_COPY_IN_FLIGHT,)),
    WgmmaFault("all groups store to the first rows", "stores of f32 past the edges", "row0 + i * 64", "row0",
               (WRONG, K.UNWRITTEN_OUTPUT, K.LOST_WRITE)),
    WgmmaFault("both consumers use one box", STORES, "boxes += unsigned(group * ", "boxes += unsigned(0 * group * ",
               (K.SHARED_RACE, K.BULK_COPY_IN_FLIGHT)),
    WgmmaFault("out is not swizzled", STORES, "linear ^ ((linear >> 7 & (Line / 16 - 1)) << 4)", "linear",
               (WRONG,), _OUT),
    WgmmaFault("halves of f32 exchanged", "stores of f32 past the edges", "r / 2 % 2 * 8", "(1 - r / 2 % 2) * 8",
               (WRONG,), _OUT),
    WgmmaFault("columns of stmatrix exchanged", STORES, "r / 4 + lane / 16", "r / 4 + 1 - lane / 16", (WRONG,), _OUT),
    # Several tiles of a block.
    WgmmaFault("each tile begins with the first stage", PERSISTENT, "for_each_work([&](const Work& work, int, bool) {",
               "for_each_work([&, at = place](const Work& work, int, bool) { Place place = at;", LOST),
    WgmmaFault("a parity is forgotten", TURNS, "parity ^= unsigned(stage / C::stages) & 1u;", "", LOST),
    WgmmaFault("strides over blocks, not clusters", ALL, "stride = C::launched_blocks / cluster", 
               "stride = C::launched_blocks", (WRONG, K.UNWRITTEN_OUTPUT, K.BARRIER_NOT_REACHED)),
    WgmmaFault("the copies end a tile early", PERSISTENT, "body(Work(next), turn, next + stride < works / cluster);",
               "if (threadIdx.x < consumer_threads || next + stride < works / cluster) body(Work(next), turn, true);",
               LOST),
    # Turns.
    WgmmaFault("begins before its turn", "taking turns, with registers",
               "ptx::barrier_sync(of_turns + group, consumer_threads);", "", LOST),
    WgmmaFault("keeps its turn", TURNS, "if (more) ptx::barrier_arrive", "if (false) ptx::barrier_arrive",
               (K.BARRIER_NOT_REACHED,)),
    WgmmaFault("nobody has the first turn", TURNS, "if (group == 1) ptx::barrier_arrive",
               "if (false) ptx::barrier_arrive", (K.BARRIER_NOT_REACHED,)),
    WgmmaFault("both multiply the same tiles", TURNS, "if (turn % 2 != group)", "if (turn % 2 != 0)",
               (K.BARRIER_NOT_REACHED, *LOST)),
    WgmmaFault("a stage waits for both", TURNS, "4 * sharing * peers", "4 * C::consumers * peers",
               (K.BARRIER_NOT_REACHED,)),
    # Clusters.
    WgmmaFault("blocks of the cluster are not asked", ALL, "4 * sharing * peers", "4 * sharing", LOST),
    WgmmaFault("exits before its cluster", ALONG_M,
               "if constexpr (cluster > 1) ptx::cluster_sync();  // others", "// others", (K.BLOCK_EXITED,)),
    WgmmaFault("begins before its cluster", ALONG_M, "    sync();\n", "    ptx::barrier_sync();\n",
               (K.MBARRIER_MISUSE, K.BLOCK_EXITED)),
    WgmmaFault("copies for itself alone", ALONG_N, "blocks_along_n << rank_m()", "1u << rank()",
               (K.BARRIER_NOT_REACHED,)),
    WgmmaFault("copies for the others alone", ALONG_M, "((1u << C::cluster_m) - 1) << (rank_n() * C::cluster_m)",
               "(((1u << C::cluster_m) - 1) << (rank_n() * C::cluster_m)) & ~(1u << rank())", LOST),
    WgmmaFault("all copy the same part", ALONG_M, "Multicast ? part * Lines : 0", "0 * part * Lines",
               (K.SHARED_RACE, K.UNINITIALIZED_SHARED_READ)),
    WgmmaFault("expects its own part alone", ALONG_M, "place.full(), C::stage_bytes);",
               "place.full(), A::bytes + B::bytes / C::cluster_m);", LOST),
    WgmmaFault("all compute the first tile", ALL, "tile.m * C::cluster_m + rank_m()", "tile.m * C::cluster_m",
               (WRONG, K.UNWRITTEN_OUTPUT)),
    WgmmaFault("forgets those along m", ALL, "cluster_m + C::cluster_n - 1;", "cluster_n;", LOST),
)  # fmt: skip
