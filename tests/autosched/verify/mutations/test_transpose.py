"""For every fault planted in transpose and copy kernels, the emulator or the reference comparison reports it."""

from __future__ import annotations

from mutation_testing import Mutation, mutation_tests

PIPELINED, TURNED, REGISTERS = "transpose_u8_pipelined", "transpose_u16_turned", "transpose_u32_registers"
ODD = "transpose_u64_odd"
KERNEL = "kernels/transpose.cuh"
COPY, COPY_TAIL, COPY_KERNEL = "copy_u16_pipelined", "copy_u8_tail", "kernels/copy.cuh"

MUTATIONS = (
    Mutation("rows after the end are loaded", TURNED, KERNEL, "tile.m + row(i) + r < C::rows;",
             "true;"),
    Mutation("a vector after the end is loaded", TURNED, KERNEL, "tile.n + column(j) < C::columns);",
             "tile.n + column(j) <= C::columns);"),
    Mutation("row tail stored", PIPELINED, KERNEL, "|| m < C::rows);", "|| m <= C::rows);"),
    Mutation("column tail stored", ODD, KERNEL, "n < C::columns) &&\n", "n <= C::columns) &&\n"),
    Mutation("row tail stored from registers", REGISTERS, KERNEL,
             "&& (C::rows % C::tile_m == 0 || m < C::rows)) {", ") {"),
    Mutation("stage filled while it is read", PIPELINED, KERNEL,
             "if (t > 0) ptx::barrier_sync();  // all threads have read the stage that is filled next", ""),
    Mutation("tile read before all have copied", PIPELINED, KERNEL, "ptx::barrier_sync();\n        drain(", "drain("),
    Mutation("tile read before all have stored", TURNED, KERNEL, "ptx::barrier_sync();\n        drain(", "drain("),
    Mutation("wait for one group too few", PIPELINED, KERNEL, "wait_group<ahead>", "wait_group<ahead + 1>"),
    Mutation("stages wrap too early", PIPELINED, KERNEL, "(t + ahead) % C::stages", "(t + ahead) % 2"),
    Mutation("more tiles than there are", PIPELINED, KERNEL, "left < C::tiles_per_block ? left : C::tiles_per_block",
             "C::tiles_per_block"),
    Mutation("matrices in one place", PIPELINED, KERNEL, "id / per_matrix * matrix", "id / per_matrix * C::rows"),
    Mutation("groups of rows all alike", PIPELINED, KERNEL, "column + (first + j) * store_rows;\n            return",
             "column + j * store_rows;\n            return"),
    Mutation("pieces of a vector all alike", PIPELINED, KERNEL, "part * C::store_piece, n", "0, n"),
    Mutation("read without the swizzle", PIPELINED, KERNEL, "Layout::offset(row, column)",
             "(row * C::tile_n + column)"),
    Mutation("bytes put together wrongly", PIPELINED, KERNEL, "<< (8 * Part * i)", "<< (4 * Part * i)"),
    Mutation("halves taken apart wrongly", TURNED, KERNEL, ">> (8 * (i * Part % 4))", ">> 0"),
    Mutation("words taken apart wrongly", REGISTERS, KERNEL, "p.word[i * (Part / 4) + w]", "p.word[w]"),
    Mutation("words put together wrongly", REGISTERS, KERNEL, "out.word[i * (Part / 4) + w] = ", "out.word[w] = "),
    Mutation("block not turned", REGISTERS, KERNEL, "(line[i][j][r], c)", "(line[i][j][c], r)"),
    Mutation("turned column in the wrong place", TURNED, KERNEL, "address(shared, row, column + c), blocks.turned",
             "address(shared, row, column), blocks.turned"),
    Mutation("copy without its tail", COPY_TAIL, COPY_KERNEL, "int(threadIdx.x) < tail", "int(threadIdx.x) < tail - 1"),
    Mutation("copy after the end", COPY_TAIL, COPY_KERNEL, "if (at < vectors) store",
             "if (at <= vectors) store"),
    Mutation("rounds of a block in one place", COPY_TAIL, COPY_KERNEL, "(blockIdx.x) * C::rounds + r;",
             "(blockIdx.x) * C::rounds;"),
    Mutation("rounds of the grid in one place", COPY, COPY_KERNEL, "C::blocks + int(blockIdx.x)", "C::blocks"),
    Mutation("copy waits for one group too few", COPY, COPY_KERNEL, "wait_group<ahead>", "wait_group<ahead + 1>"),
    Mutation("copy with one stage", COPY, COPY_KERNEL, "(r % C::stages * C::unroll + u)", "u"),
)  # fmt: skip

test_the_unbroken_kernel_is_clean, test_every_mutation_is_reported = mutation_tests(MUTATIONS)
