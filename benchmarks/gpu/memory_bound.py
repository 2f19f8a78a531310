"""Compare the time model's estimates of memory-bound operators with a copy of the same number of bytes.

    python -m benchmarks.gpu.memory_bound [--device h200] [--samples 1000] > table.md

Nothing is measured. In each space, a local search by the time model starts from the best of ``--samples`` random
schedules. The best schedules are compiled, and their times are estimated again with the registers and spills of the
compiled kernels. The table shows the best schedule. Columns are the estimated time, and the bytes in flight per SM. At
least ``WANTED`` bytes in flight keep an H200's memory busy.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from autosched.samplers.first_choices.descent import descended
from cost_models.analytic import analyse
from cost_models.estimates import AnalyticEstimates
from measurements.compiler.pool import Compiled, CompilePool
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import Device, device
from search_spaces.operators.copy import Copy
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import LayerNorm, Reduce, RmsNorm, Softmax
from search_spaces.operators.transpose import Transpose

COMPILED = 4  # number of schedules compiled per space
WANTED = 40 * 1024  # bytes in flight per SM that keep an H200's memory busy
SEED = 1
ROWS, LENGTHS = 4096, (1024, 8192, 65536)
PROBLEMS: tuple[tuple[str, Problem], ...] = (
    ("matvec 1x4096 by 4096x4096, f16", Matvec(m=1, n=4096, k=4096)),
    ("matvec 4x16384 by 6656x16384, f16", Matvec(m=4, n=6656, k=16384)),
    ("matvec 16x16384 by 6656x16384, f16", Matvec(m=16, n=6656, k=16384)),
    ("matvec 4x16383 by 6656x16383, f16", Matvec(m=4, n=6656, k=16383)),
    *((f"softmax {ROWS} x {length}, f16", Softmax(ROWS, length)) for length in LENGTHS),
    *((f"rmsnorm {ROWS} x {length}, f16", RmsNorm(ROWS, length)) for length in LENGTHS),
    ("layernorm 4096 x 8192, f16", LayerNorm(ROWS, 8192)),
    *((f"row sum {ROWS} x {length}, f16", Reduce(ROWS, length)) for length in LENGTHS),
    ("column sum 16384 x 16384, f16", Reduce(16384, 16384, axis="column")),
    ("transpose 8192 x 8192, 2 bytes", Transpose(8192, 8192, dtype="u16")),
    ("transpose 8192 x 8192, 4 bytes", Transpose(8192, 8192)),
)


@dataclass(frozen=True)
class Estimated:
    """The best compiled schedule of a problem: estimated seconds of a launch, and bytes in flight per SM."""

    seconds: float
    in_flight: float
    registers: int


def estimated(problem: Problem, on: Device, samples: int, pool: CompilePool) -> Estimated:
    """Return the best schedule of a problem. Raises ValueError if none compiles."""
    usable = templates_for(problem, on)
    space = usable.space(problem, on)
    first = descended(space, AnalyticEstimates(problem, usable, on), space.sample(samples, SEED))[:COMPILED]
    estimates = []
    compiling = [pool.submit(usable.kernel(problem, s, on), on.arch) for s in first]
    for position, result in enumerate(future.result() for future in compiling):
        template = usable.of(first[position])
        if not isinstance(result, Compiled) or template.counts is None:
            continue
        used = result.resources
        work = template.counts(problem, template.config(problem, first[position], on), on)
        spilled = used.spill_store_bytes + used.spill_load_bytes
        a = analyse([work], on, registers=[used.registers], spill_bytes=[spilled])
        estimates.append(Estimated(float(a.seconds[0]), float(a.in_flight[0]), used.registers))
    if not estimates:
        raise ValueError(f"none of the model's first choices for {problem} compiles")
    return min(estimates, key=lambda e: e.seconds)


def copy_of(moved: int) -> Copy:
    """Return a copy problem that reads and writes ``moved`` bytes in total, rounded to rows of 4 KB."""
    return Copy(max(1, round(moved / 2 / 4096)), 1024)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the table. Exit status 1 if a schedule has too few bytes in flight."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="h200")
    parser.add_argument("--samples", type=int, default=1000)
    options = parser.parse_args(arguments)
    on, least = device(options.device), float("inf")
    print("| problem | bytes moved | time | copy of as many bytes | share of the copy's rate | in flight | registers |")
    print("|---|---|---|---|---|---|---|")
    with CompilePool() as pool:
        for name, problem in PROBLEMS:
            best = estimated(problem, on, options.samples, pool)
            copied = estimated(copy_of(problem.min_bytes), on, options.samples, pool)
            least = min(least, best.in_flight)
            print(
                f"| {name} | {problem.min_bytes / 1e6:.4g} MB | {1e6 * best.seconds:.2f} us "
                f"| {1e6 * copied.seconds:.2f} us | {copied.seconds / best.seconds:.1%} "
                f"| {best.in_flight / 1024:.0f} KB | {best.registers} |",
                flush=True,
            )
    print(f"\nMinimum in flight: {least / 1024:.0f} KB per SM.")
    return 0 if least >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
