"""Faults planted in the block scales of a matmul: wrong scales, lanes, words and positions."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from header_edits import edited
from kernels import generate

from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

RTX5090 = device("rtx5090")
MATMUL = "autosched/kernels/matmul.cuh"
INTRINSIC = "autosched/ptx/mma/block_scaled.cuh"

SMALL = {
    "tile_m": 64, "tile_n": 64, "tile_k": 128, "subgroups_m": 2, "subgroups_n": 1, "sg_data_m": 32, "sg_data_n": 64,
    "layout_a": "swizzle(3,4,3)", "layout_b": "transpose+swizzle(3,4,3)", "copy_a": "cp.async", "copy_b": "cp.async",
    "vector_a": 16, "vector_b": 16, "copy_columns_a": 8, "copy_columns_b": 8, "stages": 2, "unroll": 4,
    "fragment_buffers": 1, "epilogue": "registers", "min_blocks": 1, "split_k": 1, "stream_k": 0, "raster": "row",
    "batch_mapping": "outer",
}  # fmt: skip
INTRINSICS = {"mxf8": "mma_m16n8k32_mxf8", "mxf4": "mma_m16n8k64_mxf4", "nvf4": "mma_m16n8k64_nvf4"}
PROBLEMS = {
    "mxf8": Matmul(80, 72, 512, a="mxf8"),
    "mxf8 tiled, odd k": Matmul(150, 72, 416, a="mxf8", scale_order="tiled"),
    "mxf8, odd k": Matmul(80, 72, 416, a="mxf8"),
    "mxf8 batch": Matmul(80, 72, 256, a="mxf8", batch=2),
    "mxf8 tiled batch": Matmul(80, 136, 256, a="mxf8", batch=2, scale_order="tiled"),
    "mxf4": Matmul(80, 72, 1024, a="mxf4"),
    "nvf4": Matmul(80, 72, 768, a="nvf4"),
    "nvf4 tiled": Matmul(150, 72, 768, a="nvf4", scale_order="tiled"),
}


def right_kernel(case: str) -> GeneratedKernel:
    problem = PROBLEMS[case]
    schedule = Schedule("matmul", tuple((SMALL | {"intrinsic": INTRINSICS[problem.a]}).items()))
    return generate(problem, schedule, RTX5090)


@dataclass(frozen=True)
class Planted:
    """A fault: ``old`` is replaced by ``new`` in the kernel of a case."""

    name: str
    case: str
    old: str
    new: str
    header: str = MATMUL

    def kernel(self) -> GeneratedKernel:
        right = right_kernel(self.case)
        return dataclasses.replace(right, headers=edited(right.headers, self.header, self.old, self.new))


PLANTED = (
    Planted("scales of a are taken from the wrong lanes", "mxf8",
            "multiply_scaled<i % 2, j % 4>", "multiply_scaled<(i + 1) % 2, j % 4>"),
    Planted("all fragments of b take scales from the same lanes", "mxf8",
            "multiply_scaled<i % 2, j % 4>", "multiply_scaled<i % 2, 0>"),
    Planted("scales of a and b exchanged", "mxf8", "scales.of_a(i, step), scales.of_b(j, step)",
            "scales.of_b(j, step), scales.of_a(i, step)"),
    Planted("every step uses the first scales", "mxf8", "return word >> (step % steps_of_word * 8 * I::scales);",
            "return word;"),
    Planted("steps advance by 1 scale, not 2", "mxf4", "step % steps_of_word * 8 * I::scales",
            "step % steps_of_word * 8"),
    Planted("all steps of a k-tile use the first word of a's scales", "nvf4",
            "return part(a[step / steps_of_word][i / 2], step);",
            "return part(a[0][i / 2], step);"),
    Planted("words of b in reverse order", "nvf4", "return part(b[step / steps_of_word][j / 4], step);",
            "return part(b[words - 1 - step / steps_of_word][j / 4], step);"),
    Planted("all groups of b use the first group's scales", "mxf8",
            "return part(b[step / steps_of_word][j / 4], step);",
            "return part(b[step / steps_of_word][0], step);"),
    Planted("rows eight apart use the same scales", "mxf8", " + lane % 2 * 8 + lane / 4;", " + lane / 4;"),
    Planted("rows numbered like lanes", "mxf8", " + lane % 2 * 8 + lane / 4;", " + lane % 2 * 8 + lane % 8;"),
    Planted("lanes alternate between the scales of two fragments of a", "mxf8",
            "smaller(2 * i + lane % 4 / 2,", "smaller(2 * i + lane % 2,"),
    Planted("only two fragments of b have their own scales", "mxf8",
            "smaller(4 * j + lane % 4,", "smaller(4 * j + lane % 2,"),
    Planted("the warp's row offset is missing", "mxf8",
            "work.m0() + work.warp_m() * C::sg_data_m + Warp::fragment_row",
            "work.m0() + Warp::fragment_row"),
    Planted("the tile's column offset is missing", "mxf8", "const int col = work.n0() + ", "const int col = "),
    Planted("the k-tile's scales are used one k-tile late", "mxf8",
            "      words = next;\n    }\n  }\n\n  // Multiplies all",
            "    }\n  }\n\n  // Multiplies all"),
    Planted("scales do not move along k", "mxf8", "    next += words;\n", ""),
    Planted("scales move too far", "nvf4", "    next += words;\n", "    next += words + 1;\n"),
    Planted("all matrices use the first matrix's scales", "mxf8 batch",
            "scale_a += work.batch * matrix_bytes(C::m);", ""),
    Planted("the batch offset of b's scales is computed from a's lines", "mxf8 tiled batch",
            "scale_b += work.batch * matrix_bytes(C::n);", "scale_b += work.batch * matrix_bytes(C::m);"),
    Planted("the partial tile of scales is not counted", "mxf8 tiled batch",
            "static_cast<long long>(ceil_div(lines, 128)) *",
            "static_cast<long long>(lines / 128) *"),
    Planted("lines of a tile are contiguous", "nvf4 tiled", "line % 32 * 16 + line % 128 / 32 * 4",
            "line % 128 * 4"),
    Planted("tiles of 64 lines", "nvf4 tiled", "static_cast<long long>(line / 128) *",
            "static_cast<long long>(line / 64) *"),
    Planted("words of tiles are adjacent", "nvf4 tiled", "tiled ? 512 : 4;", "tiled ? 4 : 4;"),
    Planted("padding of tiles is used", "mxf8 tiled, odd k", "word & (1u << 8 * left) - 1", "word"),
    Planted("scales after the end of a line are used", "mxf8, odd k", "if (i < left) word |=", "if (true) word |="),
    Planted("the last word of a line is left out", "mxf8, odd k",
            "if (left <= 0) return 0;", "if (left < 4) return 0;"),
    Planted("bytes of a word reversed", "mxf8, odd k", "<< 8 * i;", "<< 8 * (3 - i);"),
    Planted("a line is one scale too short", "mxf8, odd k", "return static_cast<long long>(line) * blocks;",
            "return static_cast<long long>(line) * (blocks - 1);"),
    Planted("lines after the matrix are read", "mxf8, odd k", "b[j] = scale_b + line_at(smaller(col, C::n - 1));",
            "b[j] = scale_b + line_at(col);"),
    Planted("another byte of the scales", "mxf8", "%10, {0, %12}", "%10, {1, %12}", INTRINSIC),
)  # fmt: skip
