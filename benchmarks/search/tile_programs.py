"""Compare tile programs with hand-written templates: machine code, spaces and compile times.

Instructions are counted in the SASS of the main loop, per warp and iteration. Nothing runs on a GPU.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autosched.programs.loading import load_program, problem
from autosched.samplers.first_choices.model_choice import default_choice
from measurements.compiler.cubin_cache import CompileCache
from measurements.compiler.disassembly import disassemble, main_loop, mix
from measurements.compiler.pool import CompileFailure, CompilePool
from search_spaces.hardware.devices import Device, device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.matmul import Matmul
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.template import template
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.matmul.template import MATMUL
from search_spaces.templates.template import TemplateSet

PAGE = Path(__file__).parents[1] / "results" / "tile_programs.md"
EXAMPLES = Path(__file__).parents[2] / "examples"
A100, H100 = device("a100"), device("h100")
Values = Mapping[str, int | str]
SPACES = {
    "programs/gemm_relu.py": {"m": 4096, "n": 4096, "k": 4096},
    "programs/gated_mlp.py": {"m": 4096, "n": 4096, "k": 4096},
    "programs/attention.py:causal_attention": {"h": 16, "g": 4, "s": 4096, "d": 128},
    "programs/attention.py:full_attention": {"h": 16, "g": 16, "s": 4000, "d": 64},
    "programs/layernorm_matmul.py": {"m": 4096, "n": 4096, "k": 4096},
    "programs/matmul_softmax.py": {"m": 4096, "n": 128, "k": 4096},
    "programs/rope_matmul.py": {"m": 4096, "n": 128, "k": 4096, "half": 64},
    "programs/cross_entropy.py": {"m": 4096, "n": 32000},
    "programs/int4_matmul.py": {"m": 512, "n": 4096, "k": 4096, "half": 2048, "groups": 128},
    "programs/softmax_rows.py:row_softmax": {"m": 4096, "n": 4000},
    "programs/embedding.py:embedding": {"tokens": 4096, "words": 32000, "d": 4096},
    "programs/paged_attention.py": {"h": 8, "g": 2, "s": 32, "d": 64, "pages": 16, "places": 1024},
    "programs/narrow_matmul.py:int8_matmul": {"m": 4096, "n": 4096, "k": 4096},
    "seeds/gemm_reduction.py": {"m": 4096, "n": 4096, "k": 4096},
    "seeds/matvec.py:matvec_plain": {"m": 4, "n": 6656, "k": 16384},
}


@dataclass(frozen=True)
class Counted:
    loop_instructions: int
    tensor: int
    registers: int
    spilled: int
    all_instructions: int
    seconds: float

    def row(self, name: str) -> str:
        return (
            f"| {name} | {self.loop_instructions} | {self.tensor} | {self.registers} | {self.spilled} | "
            f"{self.all_instructions} | {self.seconds:.2f} s |"
        )


def compiling_seconds(pool: CompilePool) -> float:
    """Return the CPU seconds that compiler processes have used so far."""
    ticks = 0
    for pid in pool.pids:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])  # fields utime and stime of /proc/PID/stat, proc(5)
    return ticks / os.sysconf("SC_CLK_TCK")


def counted(pool: CompilePool, kernel: GeneratedKernel, where: Device) -> Counted:
    start = compiling_seconds(pool)
    result = pool.compile(kernel, where.arch)
    seconds = compiling_seconds(pool) - start
    if isinstance(result, CompileFailure):
        raise SystemExit(result.reason)
    code = disassemble(result.cubin, result.entry)
    loop = mix(main_loop(code))
    spilled = result.resources.spill_store_bytes
    return Counted(loop.instructions, loop.count("tensor"), result.resources.registers, spilled, len(code), seconds)


def started(pool: CompilePool) -> None:
    """Compile a small kernel, so that later times do not include the start of the compiler."""
    program_path = "seeds/matvec.py:matvec_plain"
    tile_program = load_program(str(EXAMPLES / program_path))
    p, own = problem(tile_program, **SPACES[program_path]), template(tile_program)
    (schedule,) = own.space(p, A100).sample(1, 0)
    pool.compile(own.kernel(p, schedule, A100), A100.arch)


def program_kernel(program_path: str, sizes: Mapping[str, int], values: Values, where: Device) -> GeneratedKernel:
    tile_program = load_program(str(EXAMPLES / program_path))
    p, own = problem(tile_program, **sizes), template(tile_program)
    ones = {q.name: q.values[0] for q in own.space(p, where).parameters if len(q.values) == 1}
    schedule = Schedule.from_json(tile_program.name, ones | dict(values))
    own.space(p, where).valid.validate(schedule)
    return own.kernel(p, schedule, where)


def copies(layouts: Mapping[str, tuple[str, int, int]]) -> dict[str, int | str]:
    """Return schedule parameters for the copies of operands, each given as (layout, vector, columns)."""
    copy_values: dict[str, int | str] = {}
    for name, (layout, vector, columns) in layouts.items():
        for key, value in (("layout", layout), ("copy", "cp.async"), ("vector", vector), ("copy_columns", columns)):
            copy_values[f"{key}_{name}"] = value
    return copy_values


def gemm(pool: CompilePool) -> list[str]:
    rows = []
    size = {"m": 4096, "n": 4096, "k": 4096}
    for bn, sg, stages, buffers in ((128, (2, 4), 3, 1), (128, (2, 4), 3, 2), (256, (2, 4), 4, 1), (256, (2, 4), 4, 2)):
        wide = "swizzle(3,3,4)" if bn == 128 else "swizzle(3,3,5)"
        layouts = copies({"a": ("swizzle(2,3,3)", 8, 4), "b": (wide, 8, 16)})
        common = {
            "intrinsic": "mma_m16n8k16_f16", "stages": stages, "fragment_buffers": buffers, "min_blocks": 1,
            "raster": "row", "split_k": 1,
        }  # fmt: skip
        tiles = {"bm": 128, "bn": bn, "bk": 32, "subgroups_m": sg[0], "subgroups_n": sg[1]}
        end = {"store_1": "direct", "exchange": "pad(4,1)"}
        kernel = program_kernel("programs/gemm_relu.py", size, {**layouts, **common, **tiles, **end}, A100)
        values = {
            "tile_m": 128, "tile_n": bn, "tile_k": 32, "subgroups_m": sg[0], "subgroups_n": sg[1],
            "sg_data_m": 128 // sg[0], "sg_data_n": bn // sg[1], "unroll": 2,
            "epilogue": "registers", "stream_k": 0, "batch_mapping": "outer", **common, **layouts,
        }  # fmt: skip
        hand = Matmul(m=4096, n=4096, k=4096, a="f16", out="f16", epilogue="bias+relu")
        name = f"GEMM 128x{bn}x32, {stages} stages{', 2 buffers of fragments' if buffers == 2 else ''}, sm_80"
        rows.append(counted(pool, kernel, A100).row(name))
        template_kernel = MATMUL.kernel(hand, Schedule.from_json("matmul", values), A100)
        rows.append(counted(pool, template_kernel, A100).row(f"{name}: the template"))
    return rows


def attention(pool: CompilePool) -> list[str]:
    rows = []
    for d, layout in ((64, "swizzle(3,3,3)"), (128, "swizzle(3,3,4)"), (128, "pad(8,1)")):
        lines = {"q": layout, "k": f"transpose+{layout}", "v": layout}
        values: dict[str, int | str] = {
            "bm": 128, "bn": 64, "subgroups_m_1": 8, "subgroups_n_1": 1, "subgroups_m_2": 8, "subgroups_n_2": 1,
            "stages": 2,
            "sum_1": "after_loop", "store_1": "direct", "exchange": "pad(4,1)", "home_q": "registers", "min_blocks": 1,
            "raster": "row", "intrinsic": "mma_m16n8k16_f16",
            **copies({name: (layout, 8, d // 8) for name, layout in lines.items()}),
        }  # fmt: skip
        sizes = {"h": 16, "g": 16, "s": 4096, "d": d}
        kernel = program_kernel("programs/attention.py:full_attention", sizes, values, A100)
        rows.append(counted(pool, kernel, A100).row(f"attention 128x64, d = {d}, {layout}, 8 warps, sm_80"))
    return rows


def of_triton() -> list[str]:
    """Return the table rows of Triton's kernels with the same tiles; empty if Triton is not installed."""
    try:
        from benchmarks.search.triton_loops import attention_loop, gemm_loop
    except ImportError:
        return []
    loops = {
        f"GEMM 128x{bn}x32, {stages} stages": gemm_loop(128, bn, 32, 8, stages) for bn, stages in ((128, 3), (256, 4))
    }
    loops |= {f"attention 128x64, d = {d}, 8 warps": attention_loop(128, 64, d, 8, 2) for d in (64, 128)}
    return [
        f"| {name}, sm_80: Triton | {loop.loop_instructions} | {loop.tensor} | - | - | {loop.all_instructions} | - |"
        for name, loop in loops.items()
    ]


def hopper(pool: CompilePool) -> list[str]:
    rows, size = [], {"m": 4096, "n": 4096, "k": 4096}
    boxes = {"a": ("swizzle(3,3,3)", 1, 1), "b": ("swizzle(3,3,3)", 1, 1)}
    common: dict[str, int | str] = {
        "intrinsic": "wgmma_m64k16_f16", "filled_by": "warp", "store_1": "direct", "exchange": "pad(4,1)",
        "min_blocks": 1, "raster": "row",
    }  # fmt: skip
    for flight in (0, 1):
        tiles = {"bm": 128, "bn": 256, "bk": 64, "subgroups_m": 8, "subgroups_n": 1, "stages": 4, "split_k": 1}
        values = {**copies(boxes), **common, **tiles, "in_flight": flight}
        kernel = program_kernel("programs/gemm_relu.py", size, values, H100)
        name = f"GEMM 128x256x64, wgmma, 2 warpgroups, {flight} iteration{'' if flight == 1 else 's'} in flight, sm_90a"
        rows.append(counted(pool, kernel, H100).row(name))
    lines = {"q": "swizzle(3,3,3)", "k": "transpose+swizzle(3,3,3)", "v": "swizzle(3,3,3)"}
    for d, bn in ((64, 128), (128, 64), (128, 128)):
        values = {
            "bm": 128, "bn": bn, "subgroups_m_1": 8, "subgroups_n_1": 1, "subgroups_m_2": 8, "subgroups_n_2": 1,
            "stages": 2,
            "sum_1": "after_loop", "home_q": "shared", **common,
            **copies({name: (layout, 1, 1) for name, layout in lines.items()}),
        }  # fmt: skip
        sizes = {"h": 16, "g": 16, "s": 4096, "d": d}
        kernel = program_kernel("programs/attention.py:full_attention", sizes, values, H100)
        rows.append(counted(pool, kernel, H100).row(f"attention 128x{bn}, d = {d}, both products wgmma, sm_90a"))
    return rows


def compiled(pool: CompilePool, kernel: GeneratedKernel, where: Device) -> float:
    """Return the CPU seconds to compile a kernel."""
    start = compiling_seconds(pool)
    pool.compile(kernel, where.arch)
    return compiling_seconds(pool) - start


def spaces(pool: CompilePool, samples: int) -> list[str]:
    rows = []
    for program_path, sizes in SPACES.items():
        tile_program = load_program(str(EXAMPLES / program_path))
        for where in (A100, H100):
            choices_of.cache_clear()
            start = time.process_time()
            p = problem(tile_program, **sizes)
            space = template(tile_program).space(p, where)
            count = space.count()
            built = time.process_time() - start
            start = time.process_time()
            choice = default_choice(p, where, TemplateSet([template(tile_program)]))
            proposed = time.process_time() - start
            if choice is None:
                raise SystemExit(f"{program_path}: nothing is proposed")
            first = compiled(pool, template(tile_program).kernel(p, choice.schedule, where), where)
            kernels = [template(tile_program).kernel(p, s, where) for s in space.sample(samples, 1)]
            seconds = [compiled(pool, kernel, where) for kernel in kernels]
            rows.append(
                f"| {program_path} | {where.name} | {count:.2e} | {built:.2f} s | {proposed:.2f} s | {first:.2f} s | "
                f"{statistics.median(seconds):.2f} s | {max(seconds):.2f} s |"
            )
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=5, help="number of random schedules of each space to compile")
    samples = parser.parse_args().samples
    # use an empty cache, so that every kernel is compiled
    with tempfile.TemporaryDirectory() as folder, CompilePool(CompileCache(folder), workers=1) as pool:
        started(pool)
        code = [*gemm(pool), *attention(pool), *of_triton(), *hopper(pool)]
        print("\n".join(code), flush=True)
        rows = spaces(pool, samples)
    today = datetime.datetime.now(datetime.UTC).date()
    PAGE.write_text(
        "# Tile programs: machine code and search spaces\n"
        f"`python -m benchmarks.search.tile_programs --samples {samples}`, {today}, on {os.cpu_count()} "
        f"{platform.machine()} cores without a GPU, load average {os.getloadavg()[0]:.0f}. Times are CPU times.\n\n"
        "## Machine code\n*per iteration* is the number of instructions that one warp executes per iteration of the "
        "main loop.\n*tensor* is the number of tensor instructions among them.\n"
        'Rows with "the template" show the hand-written kernel for the same schedule.\n'
        'Rows with "Triton" show Triton\'s kernel with the same tile.\n\n'
        "| kernel | per iteration | tensor | registers | spilled bytes | all instructions | compile time |\n"
        "|---|---:|---:|---:|---:|---:|---:|\n" + "\n".join(code) + "\n\n"
        "## Spaces\nThe table has the number of schedules, and CPU times:\nto build and count the space, to find and "
        "compile the time model's first choice, and to compile random schedules.\n\n"
        "| program | device | schedules | build and count | search for the first choice "
        "| compilation of the first choice | compilation of random schedules, median | max |\n"
        "|---|---|---:|---:|---:|---:|---:|---:|\n" + "\n".join(rows) + "\n",
        "utf-8",
    )


if __name__ == "__main__":
    main()
