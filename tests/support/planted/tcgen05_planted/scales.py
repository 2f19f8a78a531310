"""Faults of block scales, in tensor memory or applied by software."""

from __future__ import annotations

from tcgen05_planted.cases import INTRINSIC, WRONG, K, Planted

_COPY = "ptx::tcgen05_copy_scales<pair>(columns, tcgen05_scales(shared + unsigned(word * 512)));"

PLANTED = (
    # Block scales.
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
        "C::sum_buffers * C::tile_n + stage.index * Plan::scale_columns",
        "C::sum_buffers * C::tile_n",
    ),
    Planted(
        "scales overlap the sums",
        "mxf8",
        WRONG,
        "C::sum_buffers * C::tile_n + stage.index * Plan::scale_columns",
        "stage.index * Plan::scale_columns",
    ),
    Planted("all steps use the first scales", "mxf8", WRONG, "(step * Plan::scales % 4)", "(0)"),
    Planted("steps advance by 1 scale, not 2", "mxf4", K.INVALID_ARGUMENT, "(step * Plan::scales % 4)", "(step % 4)"),
    Planted(
        "all steps use the first word", "nvf4", WRONG, "unsigned(step * Plan::scales / 4 * Plan::word_columns)", "0u"
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
        "words of b are read from too low addresses, which hold words of a",
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
        "the stride between matrices of a's scales is used for b",
        "mxf8 of a pair",
        WRONG,
        "work.batch * of_b + work.n0 / 128",
        "work.batch * of_a + work.n0 / 128",
    ),
    Planted("scales of one matrix", "mxf8", WRONG, "work.batch * of_a + work.m0 / 128", "work.m0 / 128"),
    Planted(
        "the barrier does not expect the bytes of scales",
        "mxf8",
        K.ASYNC_READ_BEFORE_WAIT,
        "pair * (Plan::scales_at + Plan::scale_bytes)",
        "pair * Plan::scales_at",
    ),
    Planted("products after k", "mxf8", WRONG, "step >= last_steps && work.first + t + 1 == C::tiles_k", "false"),
    Planted("the last k-tile is cut short", "mxf8", WRONG, "step >= last_steps &&", "step + 1 >= last_steps &&"),
    Planted("ue4m3 for ue8m0", "mxf4", K.INVALID_ARGUMENT, "unsigned(Scales != 4) << 23", "0u << 23", INTRINSIC),
    Planted("ue8m0 for ue4m3", "nvf4", WRONG, "unsigned(Scales != 4) << 23", "1u << 23", INTRINSIC),
    Planted(
        "lines of scales 64 bytes apart", "mxf8", WRONG, "8ull << 32 | 1ull << 46", "4ull << 32 | 1ull << 46", INTRINSIC
    ),
    # Block scales that software applies.
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
)
