"""Faults of the thread that issues MMAs, and of its descriptors."""

from __future__ import annotations

from tcgen05_planted.cases import INTRINSIC, WRONG, K, Planted

PLANTED = (
    # The thread that issues MMAs.
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
        "sums are overwritten while they are still being read",
        "several tiles",
        K.TCGEN05_IN_FLIGHT,
        "Plan::wait(sums.empty(), sums.parity ^ 1u);",
        ";",
    ),
    Planted(
        "the first product is added to uninitialised sums",
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
        "tensor + unsigned(sums.index * C::tile_n);\n        Plan::wait",
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
        "an unsupported number of rows",
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
        "a swizzle that does not exist",
        "plain",
        K.INVALID_ARGUMENT,
        "descriptor(address & 0x3ffff) | 1ull << 46",
        "descriptor(address) | 1ull << 46 | 1ull << 61",
        INTRINSIC,
    ),
)
