"""Every fault planted in transpose and copy kernels is reported by the emulator or the comparison of results."""

from __future__ import annotations

from mutation_testing import Mutation, mutation_tests

PIPELINED, TURNED, REGISTERS = "transpose_u8_pipelined", "transpose_u16_turned", "transpose_u32_registers"
ODD = "transpose_u64_odd"
KERNEL = "kernels/transpose.cuh"
COPY, COPY_TAIL, COPY_KERNEL = "copy_u16_pipelined", "copy_u8_tail", "kernels/copy.cuh"

MUTATIONS = (
    Mutation("rows after the end are loaded", TURNED, KERNEL, "tile.m + row(i) + r < C::rows;",
             "true;"),
    Mutation("a vector beyond the end is loaded", TURNED, KERNEL, "tile.n + column(j) < C::columns);",
             "tile.n + column(j) <= C::columns);"),
    Mutation("a row after the end is stored", PIPELINED, KERNEL, "|| m < C::rows);", "|| m <= C::rows);"),
    Mutation("a column after the end is stored", ODD, KERNEL, "n < C::columns) &&\n", "n <= C::columns) &&\n"),
    Mutation("a row after the end is stored from registers", REGISTERS, KERNEL,
             "&& (C::rows % C::tile_m == 0 || m < C::rows)) {", ") {"),
    Mutation("a stage is filled while it is still read", PIPELINED, KERNEL,
             "if (t > 0) ptx::barrier_sync();  // all threads have read the stage that is filled next", ""),
    Mutation("a tile is read before all threads have copied to it",
             PIPELINED, KERNEL, "ptx::barrier_sync();\n        drain(", "drain("),
    Mutation("a tile is read before all threads have stored to it",
             TURNED, KERNEL, "ptx::barrier_sync();\n        drain(", "drain("),
    Mutation("the wait covers one group too few", PIPELINED, KERNEL, "wait_group<ahead>", "wait_group<ahead + 1>"),
    Mutation("the stage index wraps too early", PIPELINED, KERNEL, "(t + ahead) % C::stages", "(t + ahead) % 2"),
    Mutation("a block processes more tiles than exist",
             PIPELINED, KERNEL, "left < C::tiles_per_block ? left : C::tiles_per_block",
             "C::tiles_per_block"),
    Mutation("the offset of a matrix is too small",
             PIPELINED, KERNEL, "id / per_matrix * matrix", "id / per_matrix * C::rows"),
    Mutation("all groups of rows have the same address",
             PIPELINED, KERNEL, "column + (first + j) * store_rows;\n            return",
             "column + j * store_rows;\n            return"),
    Mutation("all pieces of a vector have the same address", PIPELINED, KERNEL, "part * C::store_piece, n", "0, n"),
    Mutation("the tile is read without the swizzle", PIPELINED, KERNEL, "Layout::offset(row, column)",
             "(row * C::tile_n + column)"),
    Mutation("bytes are combined at wrong bit positions", PIPELINED, KERNEL, "<< (8 * Part * i)", "<< (4 * Part * i)"),
    Mutation("halves are extracted from wrong bit positions", TURNED, KERNEL, ">> (8 * (i * Part % 4))", ">> 0"),
    Mutation("words are extracted from wrong positions", REGISTERS, KERNEL, "p.word[i * (Part / 4) + w]", "p.word[w]"),
    Mutation("words are combined at wrong positions",
             REGISTERS, KERNEL, "out.word[i * (Part / 4) + w] = ", "out.word[w] = "),
    Mutation("the block of elements is not transposed", REGISTERS, KERNEL, "(line[i][j][r], c)", "(line[i][j][c], r)"),
    Mutation("the transposed column is stored at the wrong address",
             TURNED, KERNEL, "address(shared, row, column + c), blocks.turned",
             "address(shared, row, column), blocks.turned"),
    Mutation("the last element of the tail is not copied",
             COPY_TAIL, COPY_KERNEL, "int(threadIdx.x) < tail", "int(threadIdx.x) < tail - 1"),
    Mutation("a vector of zeros is stored after the last whole vector",
             COPY_TAIL, COPY_KERNEL, "if (at < vectors) store",
             "if (at <= vectors) store"),
    Mutation("all iterations of a block copy the same vectors", COPY_TAIL, COPY_KERNEL, "(blockIdx.x) * C::rounds + r;",
             "(blockIdx.x) * C::rounds;"),
    Mutation("all blocks copy the same vectors", COPY, COPY_KERNEL, "C::blocks + int(blockIdx.x)", "C::blocks"),
    Mutation("the copy waits for one group too few", COPY, COPY_KERNEL, "wait_group<ahead>", "wait_group<ahead + 1>"),
    Mutation("all stages of the copy share one buffer", COPY, COPY_KERNEL, "(r % C::stages * C::unroll + u)", "u"),
)  # fmt: skip

test_the_unbroken_kernel_is_clean, test_every_mutation_is_reported = mutation_tests(MUTATIONS)
