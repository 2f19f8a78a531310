"""Faults planted in kernels. The emulator or the comparison with the reference must report each fault.

Each fault is one edit of a .cuh file, run with a golden case whose schedule executes the edited line.
"""

from __future__ import annotations

from mutation_testing import Mutation, mutation_tests

PIPELINED, TRANSPOSED, SPLIT = "mma_f16_pipelined", "mma_bf16_transposed", "mma_tf32_split"
TWO_BUFFERS = "mma_f16_two_buffers"
IDLE_LANES = "mma_bf16_column_sum"
ROW_SUM, COLUMN_SUM, COLUMN_MAX = "mma_f16_row_sum", "fma_f32_column_sum", "fma_f16_column_max"
WMMA, FMA_ODD, FMA_PADS, FMA_TORN = "wmma_f16_padded", "fma_f32_odd", "fma_bf16_pads", "fma_f16_torn"


LAST_BLOCK = "common/last_block.cuh"
MATMUL, COPY, MMA = "kernels/matmul.cuh", "common/tile_copy.cuh", "intrinsics/mma_sync.cuh"
LAYOUT = "common/shared_layout.cuh"
REDUCE, FINISH = "common/reduce.cuh", "common/finish.cuh"

MUTATIONS = (
    Mutation(
        "no barrier after the wait",
        PIPELINED,
        MATMUL,
        "cp_async_wait_group<Pending>();\n    ptx::barrier_sync();",
        "cp_async_wait_group<Pending>();",
    ),
    Mutation("wait for one group too few", PIPELINED, MATMUL, "C::stages - 2 : 0>", "C::stages - 1 : 0>"),
    Mutation(
        "no wait for cp.async",
        PIPELINED,
        MATMUL,
        "if constexpr (any_async) ptx::cp_async_wait_group<Pending>();",
        "",
    ),
    Mutation(
        "no commit in the loop",
        PIPELINED,
        MATMUL,
        "          loader.load();\n        }\n        Loader::commit();",
        "          loader.load();\n        }",
    ),
    Mutation(
        "single stage refilled while it is read",
        TRANSPOSED,
        MATMUL,
        "ptx::barrier_sync();  // all threads have read the only stage, so it can be filled again",
        "",
    ),
    Mutation("first stage to fill is off by one", PIPELINED, MATMUL, "C::stages > 1 ? C::stages - 1 : 0;", "0;"),
    Mutation("stages wrap too early", PIPELINED, MATMUL, "stage + 1 == C::stages ?", "stage + 2 == C::stages ?"),
    Mutation("one k-tile too many is loaded", FMA_PADS, MATMUL, "more = left > ahead", "more = left >= ahead"),
    Mutation(
        "one k-tile too few is multiplied",
        PIPELINED,
        MATMUL,
        "left > 0; --left) {\n      const Words next = scales.take();\n      Loader",
        "left > 1; --left) {\n      const Words next = scales.take();\n      Loader",
    ),
    Mutation(
        "register copy stored one stage too late",
        FMA_PADS,
        MATMUL,
        "if (more) loader.store(fill);",
        "if (more) loader.store(stage);",
    ),
    Mutation("warps share a column", PIPELINED, MATMUL, "thread / 32 % C::subgroups_n", "thread / 32 / C::subgroups_n"),
    Mutation("fragment rows with the wrong stride", PIPELINED, MATMUL, "i % each * size;", "i % each * size / 2;"),
    Mutation("B is read from A's stage", PIPELINED, MATMUL, "tile + A::stage_bytes, step", "tile, step"),
    Mutation(
        "all k-steps of a k-tile load the same fragments of A",
        PIPELINED,
        MATMUL,
        "fragment_row(i), step * I::k",
        "fragment_row(i), 0",
    ),
    Mutation("column tail stored", FMA_ODD, MATMUL, "columns >= columns_left", "columns > columns_left"),
    Mutation(
        "fragments of the next k-tile are loaded before its copy completes",
        TWO_BUFFERS,
        MATMUL,
        "          Loader::template wait<pending>();\n",
        "          ptx::barrier_sync();\n",
    ),
    Mutation(
        "fragments are overwritten before they are multiplied",
        TWO_BUFFERS,
        MATMUL,
        "held[(step + 1) % 2].load",
        "held[step % 2].load",
    ),
    Mutation("a row after the end is stored", FMA_ODD, MATMUL, "rows >= rows_left", "rows > rows_left"),
    Mutation("the shared epilogue stores a row after the end", WMMA, MATMUL, "m0 + row >= C::m", "m0 + row > C::m"),
    Mutation("the shared epilogue stores a column after the end", WMMA, MATMUL, "n0 + col >= C::n", "n0 + col > C::n"),
    Mutation(
        "the epilogue overwrites a k-tile that is still read",
        WMMA,
        MATMUL,
        "int lane) {\n    ptx::barrier_sync();  // all threads have read the last k-tile",
        "int lane) {",
    ),
    Mutation(
        "a warp's results overwrite a k-tile that other warps still read",
        SPLIT,
        MATMUL,
        "if constexpr (!C::stream_k) ptx::barrier_sync();  // all threads have read the last k-tile",
        "",
    ),
    Mutation(
        "the epilogue's tile is read before it is written",
        ROW_SUM,
        MATMUL,
        "    ptx::barrier_sync();\n    // A thread handles four f32",
        "    // A thread handles four f32",
    ),
    Mutation(
        "a warp's results are read before they are written",
        TRANSPOSED,
        MATMUL,
        "      ptx::warp_sync();\n      // Limits unrolling",
        "      // Limits unrolling",
    ),
    Mutation(
        "a warp's results overwrite results that are still read",
        TRANSPOSED,
        MATMUL,
        "if (i > 0) ptx::warp_sync();  // all lanes have read the previous rows",
        "",
    ),
    Mutation(
        "warps share a slice of the epilogue", TRANSPOSED, MATMUL, "(warp_m * C::subgroups_n + warp_n) * I::m", "0"
    ),
    Mutation(
        "offsets within a swizzle's period are added instead of XORed",
        PIPELINED,
        LAYOUT,
        "Layout::offset(row, col) ^ Layout::flips",
        "Layout::offset(row, col) + Layout::flips",
    ),
    Mutation("whole periods of a swizzle are not added", PIPELINED, LAYOUT, "& ~(period() - 1)", "& 0"),
    Mutation(
        "the row pitch of the epilogue's tile is too small",
        WMMA,
        MATMUL,
        "acc[i][j], C::epilogue_line);",
        "acc[i][j], C::epilogue_line - 16);",
    ),
    Mutation(
        "a split is counted before all its sums are stored",
        SPLIT,
        LAST_BLOCK,
        "  wait_for_all();  // all threads have stored their results and finished reading shared memory",
        "",
    ),
    Mutation(
        "counter not reset",
        SPLIT,
        LAST_BLOCK,
        "if (threadIdx.x == First) ptx::st_global(counter, AlignedVector<4>{{0u}});  // reset for the next launch",
        "",
    ),
    Mutation("first split finishes the tile", SPLIT, LAST_BLOCK, "!= blocks - 1) return", "!= 0) return"),
    Mutation("splits begin at the wrong k", SPLIT, MATMUL, "first = split * C::tiles_of_split;", "first = split;"),
    Mutation("a split's sums left out", SPLIT, MATMUL, "s < C::split_k; ++s", "s < C::split_k - 1; ++s"),
    Mutation("batch stride of A", SPLIT, MATMUL, "(work.batch) * C::m * C::k;", "(work.batch) * C::n * C::k;"),
    Mutation("batch and tile mixed up", SPLIT, MATMUL, "batch_inner ? id / C::batch", "batch_inner ? id % C::batch"),
    Mutation(
        "tile reduced before it is finished",
        ROW_SUM,
        MATMUL,
        "ptx::barrier_sync();  // the finished tile is in shared memory",
        "",
    ),
    Mutation(
        "reduction without bias",
        ROW_SUM,
        MATMUL,
        "if constexpr (reduced_axis != ReducedAxis::none) ptx::st_shared",
        "if constexpr (false) ptx::st_shared",
    ),
    Mutation("a row's last columns left out", ROW_SUM, MATMUL, "col < C::tile_n; col += 32", "col < 32; col += 32"),
    Mutation("a lane's part of a row left out", ROW_SUM, MATMUL, "reduce_lanes<32, 1>", "reduce_lanes<16, 1>"),
    Mutation("rows of the reduction repeated", ROW_SUM, MATMUL, "row += warps", "row += warps + 1"),
    Mutation("rows below C in a maximum", COLUMN_MAX, MATMUL, "if (m0 + row < C::m && n0", "if (n0"),
    Mutation(
        "maximum that begins at zero",
        COLUMN_MAX,
        REDUCE,
        "float max = negative_infinity();\n\n  __device__ __forceinline__ unsigned get(int) const",
        "float max = 0.0f;\n\n  __device__ __forceinline__ unsigned get(int) const",
    ),
    Mutation("columns of the reduction skipped", COLUMN_MAX, MATMUL, "col += columns", "col += columns + 1"),
    Mutation("rows counted twice", COLUMN_SUM, MATMUL, "row += shares", "row += shares - 1"),
    Mutation(
        "one thread's share of the rows is left out",
        COLUMN_SUM,
        MATMUL,
        "other = 1; other < shares",
        "other = 2; other < shares",
    ),
    Mutation(
        "shares written over the tile",
        COLUMN_SUM,
        MATMUL,
        "ptx::barrier_sync();       // all threads have read the tile",
        "",
    ),
    Mutation("threads without a column store one", IDLE_LANES, MATMUL, "if (share == 0) put", "put"),
    Mutation("parts of batches mixed up", ROW_SUM, MATMUL, "(batch) * R::across + i)", "(batch) + i)"),
    Mutation("bands share a counter", ROW_SUM, MATMUL, "counters + batch * bands + band", "counters + batch * bands"),
    Mutation("a tile's part left out", ROW_SUM, MATMUL, "i < R::across; ++i", "i < R::across - 1; ++i"),
    Mutation("results after the last row", ROW_SUM, MATMUL, "if (keeps(kept)) ptx", "ptx"),
    Mutation("bias shifted by one", FMA_ODD, FINISH, "(ends.bias + col)", "(ends.bias + col + 1)"),
    Mutation("row check of the copy", FMA_PADS, COPY, "major + i * major_step < ArrayMajor", "true"),
    Mutation("line tail of the copy", PIPELINED, COPY, "minor + j * minor_step < ArrayMinor", "true"),
    Mutation(
        "zero fill of cp.async",
        PIPELINED,
        COPY,
        "from, ok ? bytes : 0);\n        } else",
        "from, bytes);\n        } else",
    ),
    Mutation("out-of-bounds vector read", WMMA, COPY, "if (inside<Whole>(i, j)) packet =", "packet ="),
    Mutation(
        "copy without the swizzle",
        PIPELINED,
        COPY,
        "byte_offset<Layout, int(sizeof(T)), split>(major, minor, a, b)",
        "unsigned((major + a) * Layout::cols + minor + b) * unsigned(sizeof(T))",
    ),
    Mutation(
        "copy without the pad",
        FMA_ODD,
        COPY,
        "byte_offset<Layout, int(sizeof(T)), split>(major, minor, a, b)",
        "unsigned((major + a) * Layout::cols + minor + b) * unsigned(sizeof(T))",
    ),
    Mutation(
        "copy threads in one line",
        PIPELINED,
        COPY,
        "major(thread / Columns)",
        "major(thread % Columns)",
    ),
    Mutation("copy does not advance", PIPELINED, COPY, "    source += TileMinor;\n", ""),
    Mutation("copy advances by the wrong lines", PIPELINED, COPY, "(TileMajor) * pitch();", "(TileMinor) * pitch();"),
    Mutation(
        "torn vector stored in part",
        FMA_TORN,
        COPY,
        "e += StoreVector) {\n          ptx",
        "e += 2 * StoreVector) {\n          ptx",
    ),
    Mutation(
        "swapped fragments of B",
        PIPELINED,
        MMA,
        "b[i / matrices_k].x[i % matrices_k] = x[i];",
        "b[i % matrices_k].x[i / matrices_k] = x[i];",
    ),
    Mutation(
        "swapped quadrants of A",
        PIPELINED,
        MMA,
        "return lane / 8 % 2 * 8 + (Operand",
        "return lane / 16 * 8 + (Operand",
    ),
    Mutation("ldmatrix without .trans", TRANSPOSED, MMA, "? ptx::ldmatrix_x4_trans(x,", "? ptx::ldmatrix_x4(x,"),
    Mutation("accumulator rows", PIPELINED, MMA, "lane / 4 + 8 * run", "lane / 4 + 4 * run"),
    Mutation("accumulator columns", PIPELINED, MMA, "lane % 4 * 2", "lane % 4"),
    Mutation("tf32 through the f16 instruction", SPLIT, MMA, "int K = 32 / int(sizeof(T))>", "int K = 16>", True),
    Mutation(
        "wmma stride",
        WMMA,
        "intrinsics/wmma.cuh",
        "wmma_load_a_m16n16k16_f16<Operand::order>(a.x, address, Operand::leading_dimension)",
        "wmma_load_a_m16n16k16_f16<Operand::order>(a.x, address, Operand::Layout::cols)",
    ),
    Mutation(
        "wmma of the wrong storage order",
        WMMA,
        "intrinsics/wmma.cuh",
        "wmma_load_b_m16n16k16_f16<Operand::order>",
        "wmma_load_b_m16n16k16_f16<ptx::Major::col>",
    ),
    Mutation(
        "fma lanes swapped",
        FMA_ODD,
        "intrinsics/fma.cuh",
        "row + rows + lane / ThreadsN * ElementsM + e",
        "row + rows + lane % ThreadsN * ElementsM + e",
    ),
    Mutation(
        "raster visits a tile twice",
        PIPELINED,
        "common/raster.cuh",
        "first + (inside & ((1 << launch.order) - 1)), inside",
        "first + (inside >> launch.order), inside",
    ),
    Mutation("relu upside down", WMMA, "common/activation.cuh", "x < 0.0f ? 0.0f : x", "x > 0.0f ? 0.0f : x"),
    Mutation("gelu of tanh", TRANSPOSED, "common/activation.cuh", "erff(x * 0.70710678118654752f)", "tanhf(x)"),
    Mutation(
        "pad after every line",
        FMA_PADS,
        "common/shared_layout.cuh",
        "unsigned(at_line) / unsigned(Lines)",
        "unsigned(at_line) * 4u",
    ),
    Mutation(
        "high half of a word",
        FMA_TORN,
        "common/numeric.cuh",
        "p.word[i / in_word] >> (bits * (i % in_word))",
        "p.word[i / in_word] >> (8 * (i % in_word))",
    ),
)

test_the_unbroken_kernel_is_clean, test_every_mutation_is_reported = mutation_tests(MUTATIONS)


def test_the_list_is_long_enough() -> None:
    assert len(MUTATIONS) >= 20
