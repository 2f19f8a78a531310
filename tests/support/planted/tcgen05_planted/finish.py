"""Faults of the epilogue warps, which wait for accumulators, release them, and store rows, columns and boxes."""

from __future__ import annotations

from tcgen05_planted.cases import WRONG, K, Planted

_LOADS = "ptx::tcgen05_wait_loads();\n"
_RELEASE = "ptx::tcgen05_fence_before_sync();\n      release(empty, lane);\n"
_WAIT_SUMS = "Plan::wait(sums.full(), sums.parity);\n        ptx::tcgen05_fence_after_sync();\n        tile.from"

PLANTED = (
    # The epilogue warps.
    Planted("sums are not waited for", "plain", K.UNDEFINED_REGISTER, _WAIT_SUMS, "tile.from"),
    Planted(
        "a second wait for sums uses the other parity",
        "plain",
        K.BARRIER_NOT_REACHED,
        _WAIT_SUMS,
        "Plan::wait(sums.full(), sums.parity);\n        " + _WAIT_SUMS.replace("parity", "parity ^ 1u"),
    ),
    Planted(
        "no fence after the wait for sums",
        "plain",
        K.MISSING_TCGEN05_FENCE,
        _WAIT_SUMS,
        "Plan::wait(sums.full(), sums.parity); tile.from",
    ),
    Planted("registers are used before they are loaded", "plain", K.MISSING_TCGEN05_WAIT, _LOADS, ";\n"),
    Planted(
        "sums are released while they are loaded",
        "several tiles",
        K.TCGEN05_IN_FLIGHT,
        _LOADS + "    if (first + chunk == C::tile_n) {\n      " + _RELEASE + "    }",
        "if (first + chunk == C::tile_n) {\n      " + _RELEASE + "    }\n    " + _LOADS,
    ),
    Planted(
        "sums are released without a fence",
        "several tiles",
        K.MISSING_TCGEN05_FENCE,
        _RELEASE,
        "release(empty, lane);\n",
    ),
    Planted(
        "sums are released when only their first columns were read",
        "several tiles",
        K.TCGEN05_IN_FLIGHT,
        "if (first + chunk == C::tile_n) {",
        "if (first == 0) {",
    ),
    Planted(
        "sums are never released",
        "several tiles",
        K.BARRIER_NOT_REACHED,
        "      release(empty, lane);\n",
        "",
    ),
    Planted(
        "every lane releases sums",
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
        "the first columns are loaded repeatedly",
        "plain",
        WRONG,
        "ptx::tcgen05_load(x, from + unsigned(first));",
        "ptx::tcgen05_load(x, from);",
    ),
    Planted(
        "columns after the sums",
        "plain",
        K.TENSOR_MEMORY_MISUSE,
        "ptx::tcgen05_load(x, from + unsigned(first));",
        "ptx::tcgen05_load(x, from + unsigned(first) + 16);",
    ),
    Planted(
        "one buffer is finished twice",
        "several tiles",
        WRONG,
        "lanes + unsigned(sums.index * C::tile_n);\n        tile",
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
    # Boxes of the output.
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
        "the wait leaves one box too many in flight",
        "boxes",
        K.BULK_COPY_IN_FLIGHT,
        "ptx::wait_stores_read<C::store_buffers - 1>();",
        "ptx::wait_stores_read<C::store_buffers>();",
    ),
    Planted("a block exits while it stores", "boxes", K.BULK_COPY_IN_FLIGHT, "ptx::wait_stores_read<0>();", ";"),
    Planted(
        "boxes are not swizzled",
        "boxes",
        WRONG,
        "linear ^ ((linear >> 7 & (C::store_line / 16 - 1)) << 4)",
        "linear",
    ),
    Planted(
        "boxes are stored to other rows",
        "boxes",
        WRONG,
        "work.m0 + quarter * 32, work.batch",
        "work.m0 + quarter * 16, work.batch",
    ),
)
