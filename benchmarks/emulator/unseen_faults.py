"""Plant faults that verifications were not tuned to report, in kernels and host code. Verify the faulty schedules.

    python -m benchmarks.emulator.unseen_faults [--only TEXT ...] [--depth quick full] [--log FILE] [--check]

``benchmarks/results/unseen_faults.md`` describes how the faults were chosen. Each fault makes a kernel wrong, racy or
impossible to launch. Each faulty schedule is verified in the same way as by ``autosched verify``, at two depths: quick
(used for candidates) and full (used for winners). ``--check`` only checks that each edit applies and that the edited
kernel compiles.
"""

# ruff: noqa: E501 - an edit is a line of a table
from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.emulator.faults_of_product_programs import OF_PRODUCT_PROGRAMS
from benchmarks.emulator.faults_of_programs import OF_PROGRAMS
from benchmarks.emulator.faults_of_row_programs import OF_ROW_PROGRAMS
from benchmarks.emulator.faults_of_templates import OF_TEMPLATES
from benchmarks.emulator.planted_fault import Fault, check, judge
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.tensor_map import TensorMap
from search_spaces.operators.copy import Copy
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.row_reduction import LayerNorm, Reduce, RmsNorm, Softmax
from search_spaces.operators.transpose import Transpose

# Faults of host code ------------------------------------------------------------------------------------------


def _whole_sm_shared(kernel: GeneratedKernel) -> GeneratedKernel:
    """Return the whole shared memory of an SM, ignoring the bytes that the driver reserves per block."""
    return replace(kernel, dynamic_shared_bytes=100 * 1024)


def _may_shrink(kernel: GeneratedKernel) -> GeneratedKernel:
    return replace(kernel, grid_may_shrink=True)


def _maps(kernel: GeneratedKernel, change: Callable[[TensorMap], TensorMap]) -> GeneratedKernel:
    return replace(kernel, arguments=tuple(change(a) if isinstance(a, TensorMap) else a for a in kernel.arguments))


def _strides_of_32_bits(kernel: GeneratedKernel) -> GeneratedKernel:
    return _maps(kernel, lambda m: replace(m, strides=tuple(s % 2**32 or s for s in m.strides)))


def _no_tail_in_maps(kernel: GeneratedKernel) -> GeneratedKernel:
    """Round the innermost size of tensor maps down to whole boxes."""

    def cut(m: TensorMap) -> TensorMap:
        box, size = m.box[0], m.sizes[0]
        return replace(m, sizes=(max(box, size // box * box), *m.sizes[1:])) if m.name != "out_map" else m

    return _maps(kernel, cut)


LARGE, DEEP = Matmul(4096, 4096, 4096, a="f16"), Matmul(512, 512, 16384, a="f16")
MATMUL, WGMMA, LAST = "kernels/matmul.cuh", "kernels/wgmma_matmul.cuh", "common/last_block.cuh"
ROWS, MATVEC, TRANSPOSE, COPY = (
    *("kernels/row_reduction.cuh", "kernels/matvec.cuh", "kernels/transpose.cuh", "kernels/copy.cuh"),
)
TCGEN05, MMA = "kernels/tcgen05_matmul.cuh", "mma_m16n8k16_f16"

FIRST: tuple[Fault, ...] = (
    # Products by mma.sync, wmma and fma
    Fault("columns after the last column are stored", "bounds", "matmul", Matmul(1000, 1001, 512, a="f16", order_b="col"),
          {"epilogue": "shared", "intrinsic": MMA, "stream_k": 0, "split_k": 1}, MATMUL,
          "out_row < C::m && out_col < C::n) {", "out_row < C::m && out_col <= C::n) {"),
    Fault("offsets of rows overflow 32 bits in a transposed epilogue", "sizes", "matmul", Matmul(65536, 65536, 512, a="f16"),
          {"epilogue": "shared", "intrinsic": MMA}, MATMUL,
          "ptx::st_global(out + static_cast<long long>(out_row) * C::n + out_col,",
          "ptx::st_global(out + out_row * C::n + out_col,"),
    Fault("the last band of tiles is treated as complete", "indices", "matmul", Matmul(4000, 4096, 512, a="f16"),
          {"raster": ("grouped_4", "grouped_8", "grouped_16"), "split_k": 1, "stream_k": 0, "tile_m": (96, 160)}, "common/raster.cuh",
          "if (lower < 1 << launch.order) return", "if (lower < 1) return"),
    Fault("row sums omit all tiles after the 48th", "sizes", "matmul", Matmul(2048, 8192, 256, a="f16", reduction="row_sum"),
          {"tile_n": (32, 64, 128)}, MATMUL, "for (int i = 0; i < R::across; ++i) {",
          "for (int i = 0; i < (R::across < 48 ? R::across : 48); ++i) {"),
    Fault("copies are only issued if fewer than 200 k-tiles remain", "sizes", "matmul", Matmul(1024, 1024, 32768, a="f16"),
          {"split_k": 1, "stream_k": 0, "stages": (2, 3, 4), "tile_k": (32, 64), "fragment_buffers": 1}, MATMUL,
          "const bool more = left > ahead;", "const bool more = left > ahead && left < 200;"),
    Fault("the bias repeats after 2048 columns", "epilogue", "matmul", Matmul(4096, 4096, 1024, a="bf16", epilogue="bias"),
          {"epilogue": "registers", "split_k": 1, "stream_k": 0}, "common/finish.cuh", "(ends.bias + col)",
          "(ends.bias + col % 2048)"),
    Fault("relu replaces NaN by 0", "values", "matmul", Matmul(2048, 2048, 2048, a="f16", epilogue="relu"), {},
          "common/activation.cuh", "return x < 0.0f ? 0.0f : x;", "return fmaxf(x, 0.0f);"),
    Fault("relu returns -0 for negative values", "values", "matmul", Matmul(2048, 2048, 2048, a="f32", out="f32", epilogue="relu"),
          {}, "common/activation.cuh", "return x < 0.0f ? 0.0f : x;", "return x < 0.0f ? -0.0f : x;"),
    Fault("silu overflows to infinity", "values", "matmul", Matmul(2048, 2048, 2048, a="bf16", epilogue="silu"), {},
          "common/activation.cuh", "return x / (1.0f + expf(-x));", "return x * expf(x) / (1.0f + expf(x));"),
    Fault("stream-K skips a wave of tiles if there are many waves", "stream-K", "matmul", LARGE, {"stream_k": 1}, "common/stream_k.cuh",
          "whole += Workers;", "whole += whole >= 4 * Workers ? 2 * Workers : Workers;"),
    Fault("stream-K splits only the partial wave instead of the last two waves", "stream-K", "matmul", LARGE, {"stream_k": 1},
          "common/stream_k.cuh", "dealt_tiles = Workers + Tiles % Workers;", "dealt_tiles = Tiles % Workers;"),
    Fault("a thread stops storing at the first row outside of the output", "indices", "matmul", Matmul(1000, 1000, 512, a="f16", reduction="column_sum"),
          {"tile_n": (48, 96)}, MATMUL,
          "if (m0 + row >= C::m || n0 + col >= C::n) continue;", "if (m0 + row >= C::m || n0 + col >= C::n) break;"),
    Fault("only the first vector of a thread is checked against the bounds", "bounds", "matmul", Matmul(1000, 1000, 1000, a="f32", out="f32"),
          {"tile_n": (64, 128), "copy_columns_b": (4, 8)}, "common/tile_copy.cuh", "minor_origin + minor + j * minor_step < ArrayMinor",
          "minor_origin + minor < ArrayMinor"),
    Fault("a missing fence: the last block reads partial results before they are visible", "orders", "matmul", DEEP, {"split_k": (2, 4, 8)}, LAST,
          "    ptx::fence_gpu();\n    ptx::st_shared(flag, AlignedVector<4>{{arrived}});\n  }\n  wait_for_all();",
          "    ptx::st_shared(flag, AlignedVector<4>{{arrived}});\n  }\n  wait_for_all();"),
    Fault("splits are added in an order that depends on the block", "orders", "matmul", DEEP, {"split_k": (4, 8), "intrinsic": MMA},
          MATMUL, "acc_registers[r] += Element<Sum>::of(ptx::ld_global_cg<4>(from + r * C::threads).word[0]);",
          "acc_registers[r] += Element<Sum>::of(ptx::ld_global_cg<4>(from - s * sums + (s + split) % C::split_k * sums "
          "+ r * C::threads).word[0]);"),
    Fault("the sum of f16 splits keeps only one term", "indices", "matmul", Matmul(2048, 2048, 2048, a="f16", acc="f16"),
          {"split_k": (2, 4)}, "common/numeric.cuh", "return a = ptx::add_rn(a, b);", "return a = b;"),
    Fault("values are truncated to bf16 instead of rounded", "values", "matmul", Matmul(2048, 2048, 2048, a="bf16"), {}, "common/numeric.cuh",
          "return ptx::cvt_rn_bf16_f32(x);", "return ptx::bits_of(x) >> 16;"),
    Fault("sums of i8 are clamped at 2^26", "values", "matmul", Matmul(1024, 1024, 16384, a="i8", scale="tensor"),
          {"split_k": 1}, "common/numeric.cuh", "    return registers[i];\n",
          "    if constexpr (is_same<Sum, int>) return registers[i] < 1 << 26 ? registers[i] : 1 << 26;\n"
          "    return registers[i];\n"),
    Fault("the scale of a is applied twice, and the scale of b is omitted", "scales", "matmul", Matmul(2048, 2048, 2048, a="e4m3", scale="tensor"),
          {}, "common/finish.cuh", "return number(scale_a) * number(scale_b);",
          "return number(scale_a) * number(scale_a);", device="rtx4090"),
    Fault("the batch stride of column scales is the number of rows", "scales", "matmul",
          Matmul(1024, 2048, 512, batch=4, a="i8", out="f32", scale="row_column"), {}, "common/finish.cuh",
          "scale_b + static_cast<long long>(batch) * Columns", "scale_b + static_cast<long long>(batch) * Rows"),
    Fault("the last rows use the scales of earlier rows", "scales", "matmul",
          Matmul(8192, 2048, 512, a="e4m3", scale="row_column"), {}, "common/finish.cuh",
          "return number(scale_a + row);", "return number(scale_a + (row < 6144 ? row : row - 128));", device="rtx4090"),
    # Products by wgmma
    Fault("row scales are read past the last row", "bounds", "wgmma_matmul",
          Matmul(4000, 4096, 4096, a="e4m3", scale="row_column"), {"store_buffers": 0}, WGMMA,
          "ends.of_row(!partial_m || row < last ? row : last);", "ends.of_row(row);"),
    Fault("block scales repeat after 16 k-tiles", "scales", "wgmma_matmul", Matmul(4096, 4096, 7168, a="e4m3", scale="block"),
          {}, WGMMA, "(column < blocks_n ? column : blocks_n - 1) * blocks_k + t)",
          "(column < blocks_n ? column : blocks_n - 1) * blocks_k + t % 16)"),
    Fault("the size of the scale array of b ignores the last, partial k block", "scales", "wgmma_matmul",
          Matmul(512, 1024, 1424, batch=2, a="e4m3", scale="block"), {}, WGMMA,
          "static_cast<long long>(work.batch) * blocks_n * blocks_k", "static_cast<long long>(work.batch) * blocks_n * (C::k / block)"),
    Fault("columns after 2048 use the scales of the first columns", "scales", "wgmma_matmul", Matmul(1024, 8192, 1024, a="e5m2", scale="block"),
          {}, WGMMA, "const int column = work.n0 / block + q;", "const int column = work.n0 / block % 16 + q;"),
    Fault("the ring's parity does not change when stages are skipped", "orders", "wgmma_matmul", LARGE, {"ping_pong": 1}, WGMMA,
          "      parity ^= count / unsigned(C::stages) & 1u;\n", ""),
    Fault("only the first four matrices of the batch are used", "indices", "wgmma_matmul", Matmul(1024, 1024, 1024, batch=8, a="bf16"), {}, WGMMA,
          "batch = id / (of_matrix * C::split_k);", "batch = id / (of_matrix * C::split_k) % 4;"),
    Fault("a box is overwritten although the TMA store of its previous contents may still read it", "orders", "wgmma_matmul", LARGE, {"store_buffers": (1, 2)}, WGMMA,
          "ptx::wait_stores_read<C::store_buffers - 1>();", "ptx::wait_stores_read<C::store_buffers>();"),
    Fault("offsets of rows of a transposed output overflow 32 bits", "sizes", "wgmma_matmul_transposed",
          Matmul(64, 1 << 26, 128, a="f16"), {"tiles_per_block": 1, "cluster_m": 1}, WGMMA,
          "out + (static_cast<long long>(work.batch) * C::n + col0) * C::m + row0", "out + (work.batch * C::n + col0) * C::m + row0"),
    Fault("one column after the last column is stored", "bounds", "wgmma_matmul", Matmul(2048, 2001, 1024, a="bf16", order_b="col"), {},
          WGMMA, "if (partial_n && col0 + col >= C::n) continue;", "if (partial_n && col0 + col > C::n) continue;"),
    Fault("all tiles share 64 counters", "host", "wgmma_matmul", Matmul(2048, 2048, 8192, a="bf16"),
          {"split_k": 2, "cluster_n": 2, "tiles_per_block": 1}, WGMMA,
          "counters + work.output_tile, work)", "counters + work.output_tile % 64, work)"),
    Fault("partial sums of stream-K overlap if there are more than 100 cuts", "stream-K", "wgmma_matmul", LARGE, {"stream_k": 1, "cluster_m": 1, "cluster_n": 1}, WGMMA,
          "const int slot = (work.cut * cluster + rank()) * sharing + rows;",
          "const int slot = (work.cut % 100 * cluster + rank()) * sharing + rows;"),
    Fault("stream-K: the second k range of a tile starts one k-tile too late", "stream-K", "wgmma_matmul", LARGE, {"stream_k": 1}, WGMMA,
          "work.first = part.first;", "work.first = part.first > 24 ? part.first + 1 : part.first;"),
    Fault("the producer warpgroup does not release its registers", "device", "wgmma_matmul", LARGE, {"producer_registers": (24, 32, 40)}, WGMMA,
          "if constexpr (reallocates_registers) ptx::setmaxnreg_dec<C::producer_registers>();", ""),
    Fault("a stage is released while wgmma still reads it", "orders", "wgmma_matmul", LARGE, {"in_flight": 1}, WGMMA,
          "if (C::in_flight > 0 && !first) release(stage.empty_before(), elsewhere);", "release(stage.empty(), elsewhere);"),
    Fault("strides of tensor maps overflow 32 bits", "host", "wgmma_matmul", Matmul((1 << 20) + 128, 256, 4096, batch=2, a="bf16"), {},
          host=_strides_of_32_bits),
    Fault("tensor maps omit the last, partial k-tile", "host", "wgmma_matmul", Matmul(1024, 1024, 1032, a="bf16", order_b="col"), {},
          host=_no_tail_in_maps),
    # Rows
    Fault("alignment shifts of rows overflow 32 bits", "sizes", "row_reduction", Softmax(1 << 20, 4099, "f16"), {"peel": "yes"}, ROWS,
          "shift[b] = peel ? int(first % C::vector_x) : 0;", "shift[b] = peel ? int(first) % C::vector_x : 0;"),
    Fault("the variance is divided by n - 1 instead of n", "values", "row_reduction", LayerNorm(8192, 4096, "f16"), {"passes": "two"},
          "kernels/row_operators.cuh", "      row.scale = rsqrtf(state.sum / length + eps);\n    }",
          "      row.scale = rsqrtf(state.sum / (length - 1.0f) + eps);\n    }"),
    Fault("offsets of the outer axis overflow 32 bits", "sizes", "row_reduction",
          Reduce(1 << 23, 1024, "f16", axis="column", reduction_size=1024), {}, ROWS,
          "static_cast<long long>(outer) * C::length * C::inner", "outer * C::length * C::inner"),
    Fault("columns from 4096 on use the weights of the previous vector", "indices", "row_reduction", RmsNorm(4096, 5120, "bf16"), {"peel": "no"}, ROWS,
          "const auto w = of_columns(weight, b, at);", "const auto w = of_columns(weight, b, at < 4096 ? at : at - C::vector_x);"),
    Fault("argmax returns the last of equal elements instead of the first", "values", "row_reduction", Reduce(4096, 8192, "f16", kind="argmax"), {},
          "common/reduce.cuh", "if (equal ? other.index < index", "if (equal ? other.index > index"),
    # Vectors
    Fault("all tiles share 256 counters", "sizes", "matvec", Matvec(1, 65536, 8192), {"split_k": (2, 4, 8)}, MATVEC,
          "if (!is_last_block<C::split_k>(counters + tile, sums)) return;",
          "if (!is_last_block<C::split_k>(counters + tile % 256, sums)) return;"),
    Fault("the bounds of an unaligned row's first step are not checked", "bounds", "matvec", Matvec(1, 4096, 4099), {}, MATVEC,
          "int until = torn && step == 0 ? 0 : whole;", "int until = whole;"),
    # Moves
    Fault("the last block moves as many tiles as the other blocks", "bounds", "transpose", Transpose(8000, 8200, dtype="u16"),
          {"tiles_per_block": (2, 4, 8)}, TRANSPOSE, "const int count = left < C::tiles_per_block ? left : C::tiles_per_block;",
          "const int count = C::tiles_per_block;"),
    Fault("offsets of output rows overflow 32 bits in the path through registers", "sizes", "transpose", Transpose(65536, 131072, dtype="u16"),
          {"layout_x": "none"}, TRANSPOSE, "tile.out + static_cast<long long>(tile.n + Blocks::column(0)) * C::rows",
          "tile.out + (tile.n + Blocks::column(0)) * C::rows"),
    # Faults of the host in a launch
    Fault("the last word of the tail is not copied", "bounds", "copy", Copy(4099, 4099, dtype="u8"), {}, COPY,
          "int(threadIdx.x) < tail) {", "int(threadIdx.x) < tail - 1) {"),
    Fault("the launch requests all shared memory of an SM for one block", "device", "matmul", LARGE, {"split_k": 1, "stream_k": 0}, host=_whole_sm_shared,
          device="rtx4090"),
    # Faults that only full verifications reported when they were planted, on 2026-11-28
    Fault("the main loop ends after 64 k-tiles", "sizes", "matmul", Matmul(1024, 1024, 16384, a="f16"),
          {"tile_k": (32, 64), "fragment_buffers": 1, "split_k": 1, "stream_k": 0}, MATMUL,
          "(int left = tiles; left > 0; --left) {\n      const Words next = scales.take();\n      Loader",
          "(int left = tiles > 64 ? 64 : tiles; left > 0; --left) {\n      auto next = scales.take();\n      Loader"),
    Fault("a skip of several stages wraps around the ring at most once", "orders", "wgmma_matmul", LARGE, {"ping_pong": 1}, WGMMA,
          "index = count % unsigned(C::stages);",
          "index = count < unsigned(C::stages) ? count : (count - unsigned(C::stages)) & 15u;"),
    Fault("the tile stride of a block is 132 instead of the number of launched blocks", "host", "wgmma_matmul", LARGE, {"tiles_per_block": (2, 4), "stream_k": 0},
          WGMMA, "const int launched = int(gridDim.x / unsigned(cluster));", "const int launched = 132 / cluster;"),
    Fault("the launch of a stream-K kernel may use fewer blocks than planned", "host", "wgmma_matmul", LARGE, {"stream_k": 1}, host=_may_shrink),
    Fault("a launch-control buffer counts as empty before its last reader has read it", "orders", "tcgen05_matmul", Matmul(4096, 1024, 128, a="f16", order_b="col"),
          {"tile_scheduler": "launch_control"}, TCGEN05, "ptx::mbarrier_init(answer.empty(), readers);",
          "ptx::mbarrier_init(answer.empty(), readers - 1);", device="b200"),
    Fault("block scales repeat after 32 k-tiles", "scales", "tcgen05_matmul", Matmul(1024, 1024, 8192, a="e4m3", scale="block"),
          {}, TCGEN05, "End::number(of_b + t);", "End::number(of_b + t % 32);", device="b200"),
)  # fmt: skip

FAULTS = (*FIRST, *OF_TEMPLATES, *OF_PROGRAMS, *OF_ROW_PROGRAMS, *OF_PRODUCT_PROGRAMS)

# Faults that only full verifications reported in the last complete run: see benchmarks/results/unseen_faults.md.
MISSED_BY_QUICK = frozenset(
    (
        "block scales repeat after 16 k-tiles",
        "block scales repeat after 32 k-tiles",
        "partial sums of stream-K overlap if there are more than 100 cuts",
        "a launch-control buffer counts as empty before its last reader has read it",
        "offsets of gradient rows overflow 32 bits with a large vocabulary",
    )
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[""], help="parts of names")
    parser.add_argument("--depth", nargs="+", choices=("quick", "full"), default=["quick", "full"])
    parser.add_argument("--log", type=Path, help="file to which a JSON line is appended for each verification")
    parser.add_argument("--from", dest="first", type=int, default=0, help="number of the first")
    parser.add_argument("--check", action="store_true", help="only check that the edits apply and compile")
    options = parser.parse_args()
    chosen = [f for f in FAULTS[options.first :] if any(part in f.name for part in options.only)]
    if options.check:
        problems = {f.name: why for f in chosen if (why := check(f))}
        for name, why in problems.items():
            print(f"{name}: {why}")
        print(f"{len(chosen) - len(problems)} of {len(chosen)} apply")
        return int(bool(problems))
    for fault in chosen:
        for depth in options.depth:
            result = judge(fault, depth)
            if options.log:
                with options.log.open("a") as file:
                    file.write(json.dumps(result) + "\n")
            print(
                f"{result['status']:12} {depth:5} {result['seconds']:6.1f} s  {fault.name}: {result['reason'][:120]}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
