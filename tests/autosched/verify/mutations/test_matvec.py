"""Every fault planted in the matvec kernel is reported by the emulator or by the comparison with the reference."""

from __future__ import annotations

from mutation_testing import Mutation, mutation_tests

SHARED, SPLIT, ODD = "matvec_bf16_shared", "matvec_f16_split", "matvec_f16_odd"
KERNEL, LAST_BLOCK = "kernels/matvec.cuh", "common/last_block.cuh"

MMA, MMA_ODD = "matvec_f16_mma", "matvec_bf16_mma_odd"

MUTATIONS = (
    Mutation("end of k not guarded", SPLIT, KERNEL, "if (first >= C::k) continue;", ""),
    Mutation("end of k one access too late", SPLIT, KERNEL, "(first >= C::k) continue;", "(first > C::k) continue;"),
    Mutation("parts of a fragment after the end of k are not set to zero", MMA_ODD, KERNEL, "part[p] = {};", ""),
    Mutation(
        "a torn row ends one element too late",
        ODD,
        KERNEL,
        "|| k + e >= C::k) continue;",
        "|| k + e > C::k) continue;",
    ),
    Mutation("elements before the start of a torn row are added", ODD, KERNEL, "if (k + e < 0 ||", "if ("),
    Mutation(
        "a vector that begins before a torn row is not loaded by elements",
        ODD,
        KERNEL,
        "torn && (first < 0 ||",
        "torn && (",
    ),
    Mutation(
        "a vector that ends after a torn row is not loaded by elements",
        ODD,
        KERNEL,
        "(Realigned ? 2 : 1) * Access > C::k",
        "(Realigned ? 2 : 1) * Access > C::k + Access",
    ),
    Mutation(
        "steps start at the misalignment of the next row class",
        ODD,
        KERNEL,
        "static_cast<long long>(row_class) * C::k &",
        "static_cast<long long>(row_class + 1) * C::k &",
    ),
    Mutation(
        "a block mixes rows of several classes",
        ODD,
        KERNEL,
        "n0 + (thread_n + j * C::lanes_n) * C::row_classes",
        "n0 + thread_n + j * C::lanes_n",
    ),
    Mutation(
        "the last row of another class replaces missing rows",
        ODD,
        KERNEL,
        "C::n - 1 - (C::n - 1 - n % C::row_classes) % C::row_classes",
        "C::n - 1",
    ),
    Mutation("the first step of torn rows is not guarded", MMA_ODD, KERNEL, "torn && step == 0 ?", "step < 0 ?"),
    Mutation(
        "the loop loads aligned vectors beyond the end of x",
        MMA_ODD,
        KERNEL,
        "C::k - (C::k < C::access ? C::k : C::access)",
        "C::k + 2 * C::access",
    ),
    Mutation(
        "the words of x are not shifted", MMA_ODD, "common/realign.cuh", "moves ? held[i + by] : held[i]", "held[i]"
    ),
    Mutation(
        "the halves of the words of x are not shifted",
        MMA_ODD,
        "common/realign.cuh",
        "8 * (shift & 3)",
        "8 * (shift & 1)",
    ),
    Mutation(
        "halves of a fragment are swapped",
        MMA,
        KERNEL,
        "{{v.word(word), v.word(word + 1)}}",
        "{{v.word(word + 1), v.word(word)}}",
    ),
    Mutation(
        "rows of a fragment are swapped",
        MMA,
        KERNEL,
        "{w[j].word(word), w[j + 1].word(word),",
        "{w[j + 1].word(word), w[j].word(word),",
    ),
    Mutation("columns of a fragment are mixed up", MMA, KERNEL, "/ Mma::c_run) + r % Mma::c_run;", "/ Mma::c_run);"),
    Mutation(
        "rows of a fragment's result are mixed up", MMA, KERNEL, "use(row, j + r / Mma::c_run, sum)", "use(row, j, sum)"
    ),
    Mutation(
        "the column after the last one is stored, too",
        MMA,
        KERNEL,
        "&& row >= C::tile_m) continue;",
        "&& row > C::tile_m) continue;",
    ),
    Mutation("columns after the last one are read, too", MMA, KERNEL, "if (row >= C::tile_m) row = C::tile_m - 1;", ""),
    Mutation("all columns read one row of x", MMA, KERNEL, "i * Mma::n + lane_n : i;", "i * Mma::n : i;"),
    Mutation(
        "the row pitch of x lacks its padding",
        MMA,
        KERNEL,
        "unsigned(row * C::line_bytes + position *",
        "unsigned(row * C::split_elements * 2 + position *",
    ),
    Mutation("x is copied from beyond the end of k", SHARED, KERNEL, "inside = k < C::k;", "inside = true;"),
    Mutation("there is no wait for the copy of x", SHARED, KERNEL, "ptx::cp_async_wait_group<0>();\n", ""),
    Mutation(
        "there is no barrier after the copy of x",
        SHARED,
        KERNEL,
        "ptx::cp_async_wait_group<0>();\n    ptx::barrier_sync();",
        "ptx::cp_async_wait_group<0>();",
    ),
    Mutation(
        "rows of x are read from the wrong addresses of the slab",
        SHARED,
        KERNEL,
        "unsigned(i * columns * C::line_bytes)",
        "unsigned(i * columns * 32)",
    ),
    Mutation("a row after the end of w is read", SHARED, KERNEL, "whole_tiles_n || n < C::n ?", "true ?"),
    Mutation(
        "a row after the end of x is read", SHARED, KERNEL, "|| m < C::m ? m : C::m - 1;", "|| m < C::m ? m : C::m;"
    ),
    Mutation("a row after the end of m is stored", SHARED, KERNEL, "m >= C::m) return;", "m > C::m) return;"),
    Mutation("a column after the end of n is stored", SHARED, KERNEL, "n >= C::n) return;", "n > C::n) return;"),
    Mutation(
        "an expanded sum has only the last element",
        SPLIT,
        KERNEL,
        "sum = fmaf(v[e], w[j][e], sum);",
        "sum = v[e] * w[j][e];",
    ),
    Mutation(
        "the second batch reads from the addresses of the first batch",
        SHARED,
        KERNEL,
        "(w[s][b][j], j, ahead(s, b), k)",
        "(w[s][b][j], j, ahead(s, 0), k)",
    ),
    Mutation(
        "an unrolled step reads from the addresses of the first step",
        SHARED,
        KERNEL,
        "(w[s][b][j], j, ahead(s, b), k)",
        "(w[s][b][j], j, ahead(0, b), k)",
    ),
    Mutation(
        "the loop after the unrolled loop takes one step too many",
        SPLIT,
        KERNEL,
        "for (; step < until; ++step)",
        "for (; step <= until; ++step)",
    ),
    Mutation(
        "the unrolled loop makes one iteration too many", SPLIT, KERNEL, "step + C::unroll <= until", "step < until"
    ),
    Mutation("the partial last step is skipped", SPLIT, KERNEL, "|| step >= last) break;", "|| step >= whole) break;"),
    Mutation(
        "half of the lanes along k are not added",
        SHARED,
        KERNEL,
        "reduce_lanes<C::lanes_k, 1>",
        "reduce_lanes<C::lanes_k / 2, 1>",
    ),
    Mutation(
        "lanes of the wrong axis are added",
        ODD,
        KERNEL,
        "reduce_lanes<C::lanes_k, 1>",
        "reduce_lanes<C::lanes_n, C::lanes_k>",
    ),
    Mutation(
        "all subgroups along k store their sums to the same address",
        SHARED,
        KERNEL,
        "(subgroup_k * C::tile_m + i)",
        "(i)",
    ),
    Mutation(
        "the last subgroup along k is left out",
        SHARED,
        KERNEL,
        "s < C::subgroups_k; ++s",
        "s < C::subgroups_k - 1; ++s",
    ),
    Mutation(
        "sums are read before they are written", SHARED, KERNEL, "int n0) {\n    ptx::barrier_sync();", "int n0) {"
    ),
    Mutation("splits start at the wrong k", SPLIT, KERNEL, "first = split * C::tiles_of_split;", "first = split;"),
    Mutation(
        "a split is counted before all its sums are stored",
        SPLIT,
        LAST_BLOCK,
        "  wait_for_all();  // all threads have stored their results and finished reading shared memory",
        "",
    ),
    Mutation(
        "sums not published",
        SPLIT,
        LAST_BLOCK,
        "    ptx::fence_gpu();\n    const unsigned arrived",
        "    const unsigned arrived",
    ),
    Mutation(
        "there is no fence before the sums of the other blocks are read",
        SPLIT,
        LAST_BLOCK,
        "    ptx::fence_gpu();\n    ptx::st_shared",
        "    ptx::st_shared",
    ),
    Mutation("first split finishes the tile", SPLIT, LAST_BLOCK, "!= blocks - 1) return", "!= 0) return"),
    Mutation("a split's sums left out", SPLIT, KERNEL, "s < C::split_k; ++s", "s < C::split_k - 1; ++s"),
    Mutation(
        "counter not reset",
        SPLIT,
        LAST_BLOCK,
        "if (threadIdx.x == First) ptx::st_global(counter, AlignedVector<4>{{0u}});  // reset for the next launch",
        "",
    ),
)

test_the_unbroken_kernel_is_clean, test_every_mutation_is_reported = mutation_tests(MUTATIONS)
