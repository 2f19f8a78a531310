"""How much slower the emulator's PTX engine is than the host's C++, on golden kernels.

    python -m benchmarks.emulator_engines [--repeats 3] [CASE ...]

CPU seconds of one launch on random inputs, compiled before, all checks on: the smallest of some repeats, engines in
turn. They are those of the runner's process and do not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import resource
import sys
from typing import Literal

from benchmarks.mutations import golden_cases
from measurements.emulator import emulate
from search_spaces.operators.problem import Array
from search_spaces.templates.kernel import Kernel

ENGINES: tuple[Literal["ptx", "host"], ...] = ("host", "ptx")
CASES = (
    "mma_f16_pipelined",
    "mma_bf16_transposed",
    "fma_f32_odd",
    "matvec_f16_split",
    "softmax_f16_registers",
    "transpose_u8_pipelined",
)


def cpu_seconds(kernel: Kernel, inputs: dict[str, Array], engine: Literal["ptx", "host"]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = emulate(kernel, inputs, engine=engine)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if not done.ok:
        raise SystemExit(f"{kernel.name}: {done.reason}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("cases", nargs="*", default=CASES)
    options = parser.parse_args()
    cases = {case.name: case for case in golden_cases()}
    print("| golden case | host, CPU s | PTX, CPU s | PTX / host |\n|---|---|---|---|")
    for name in options.cases:
        case = cases[name]
        inputs = dict(case.problem.random_inputs(0))
        for engine in ENGINES:
            emulate(case.kernel, inputs, engine=engine)  # compiles
        host, ptx = [], []
        for _ in range(options.repeats):
            host.append(cpu_seconds(case.kernel, inputs, "host"))
            ptx.append(cpu_seconds(case.kernel, inputs, "ptx"))
        print(f"| `{name}` | {min(host):.3f} | {min(ptx):.3f} | {min(ptx) / min(host):.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
