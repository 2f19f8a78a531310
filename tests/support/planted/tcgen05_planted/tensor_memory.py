"""Faults of the allocation, release and addressing of tensor memory."""

from __future__ import annotations

from tcgen05_planted.cases import K, Planted

_ALLOC = "ptx::tcgen05_alloc<pair>(shared + Plan::address_at, C::tensor_columns);\n"
_RELINQUISH = "ptx::tcgen05_relinquish_alloc_permit<pair>();\n"

PLANTED = (
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
        "freed without a fence after the barrier",
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
    Planted("the permission to allocate is not relinquished", "plain", K.TENSOR_MEMORY_MISUSE, _RELINQUISH, ""),
    Planted(
        "only half of the columns are allocated",
        "plain",
        K.TENSOR_MEMORY_MISUSE,
        "Plan::address_at, C::tensor_columns);",
        "Plan::address_at, C::tensor_columns / 2);",
    ),
    Planted(
        "the number of allocated columns is not a power of two",
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
        "the address is read before it is written",
        "plain",
        K.UNINITIALIZED_SHARED_READ,
        "    }\n    ptx::barrier_sync();\n    ptx::tcgen05_fence_after_sync();",
        "    }\n    ptx::tcgen05_fence_after_sync();",
    ),
)
