"""Faults of cluster launch control: in requests, in waits for responses, and in reading the responses."""

from __future__ import annotations

from tcgen05_planted.cases import WRONG, K, Planted

PLANTED = (
    Planted(
        "a response is not waited for",
        "launch control",
        K.ASYNC_READ_BEFORE_WAIT,
        "    wait(answer.full(), answer.parity);\n",
        "",
    ),
    Planted(
        "no proxy fence after reading a response",
        "launch control",
        K.MISSING_PROXY_FENCE,
        "    ptx::fence_async_proxy();  // orders this read before the next response is written\n",
        "",
    ),
    Planted(
        "a response is overwritten while it is read",
        "launch control",
        K.SHARED_RACE,
        "    if (rank() == 0) wait(answer.empty(), answer.parity ^ 1u);\n",
        "",
    ),
    Planted(
        "no thread signals that it has read a response",
        "launch control",
        K.BARRIER_NOT_REACHED,
        "if (CallerRole != Role::finishes || threadIdx.x % 32 == 0) arrive_in_first(answer.empty());",
        "",
    ),
    Planted(
        "the barrier does not expect the response's bytes",
        "launch control",
        K.BARRIER_NOT_REACHED,
        "    ptx::mbarrier_arrive_expect_tx(answer.full(), 16);\n",
        "",
    ),
    Planted(
        "the barrier expects only half of the response's bytes",
        "launch control",
        K.BARRIER_NOT_REACHED,
        "mbarrier_arrive_expect_tx(answer.full(), 16)",
        "mbarrier_arrive_expect_tx(answer.full(), 8)",
    ),
    Planted(
        "each iteration requests two tiles",
        "launch control",
        K.MBARRIER_MISUSE,
        "        body(Work(next, order));\n        next = take<CallerRole>(answer);",
        "        body(Work(next, order));\n        if constexpr (CallerRole == Role::copies) ask(answer);\n"
        "        next = take<CallerRole>(answer);",
    ),
    Planted(
        "the tile of a response is not computed",
        "launch control",
        K.UNWRITTEN_OUTPUT,
        "return block < 0 ? -1 : block / pair;",
        "return -1;",
    ),
    Planted(
        "the block's own tile is computed again",
        "launch control",
        K.UNWRITTEN_OUTPUT,
        "        next = take<CallerRole>(answer);",
        "        next = take<CallerRole>(answer) < 0 ? -1 : id;",
    ),
    Planted(
        "the block number is used as the pair's tile number",
        "launch control of pairs",
        WRONG,
        "return block < 0 ? -1 : block / pair;",
        "return block;",
    ),
    Planted(
        "both blocks of a pair send a request",
        "launch control of pairs",
        K.INVALID_ARGUMENT,
        "if (rank() == 0) ptx::try_cancel<pair>",
        "ptx::try_cancel<pair>",
    ),
    Planted(
        "the second block does not expect the response",
        "launch control of pairs",
        K.BARRIER_NOT_REACHED,
        "    ptx::mbarrier_arrive_expect_tx(answer.full(), 16);\n    if (rank() == 0)",
        "    if (rank() == 0) ptx::mbarrier_arrive_expect_tx(answer.full(), 16);\n    if (rank() == 0)",
    ),
    Planted(
        "only one block's readers are waited for",
        "launch control of pairs",
        K.BARRIER_NOT_REACHED,
        "readers = pair * (1 + finishing_warps) + 1;",
        "readers = 1 + finishing_warps + 1;",
    ),
    Planted(
        "readers only signal their own block",
        "launch control of pairs",
        K.BARRIER_NOT_REACHED,
        "arrive_in_first(answer.empty());",
        "ptx::mbarrier_arrive(answer.empty());",
    ),
)
