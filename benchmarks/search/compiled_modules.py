"""Count the compiled modules of a matmul's best schedules. Schedules with equal code share a compiled module.

``python -m benchmarks.search.compiled_modules [--device D] [--schedules N]`` takes the schedules with the shortest
estimates for two bf16 matmuls, 4096 x 4096 x 4096 and 4096 x 6144 x 4096. It counts how many different launches and
modules these schedules have. Nothing is compiled.
"""

from __future__ import annotations

import argparse
import sys
import time

from autosched.samplers.first_choices.model_search import BEST, fastest
from cost_models.estimates import AnalyticEstimates
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import Device, device
from search_spaces.operators.matmul import Matmul

PROBLEMS = (Matmul(4096, 4096, 4096, a="bf16"), Matmul(4096, 6144, 4096, a="bf16"))


def counts(problem: Matmul, target: Device, schedules: int) -> tuple[int, int, int]:
    """Return the numbers of schedules, of different launches, and of modules."""
    usable = templates_for(problem, target)
    best, _ = fastest(usable.space(problem, target), AnalyticEstimates(problem, usable, target), seed=0)
    kernels = [usable.kernel(problem, schedule, target) for schedule in best[:schedules]]
    return len(kernels), len({k.digest for k in kernels}), len({k.code_digest for k in kernels})


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="h100")
    parser.add_argument("--schedules", type=int, default=300, choices=range(1, BEST + 1), metavar=f"1..{BEST}")
    arguments = parser.parse_args()
    print("| problem | schedules | launches | modules | CPU seconds |\n|---|---:|---:|---:|---:|", flush=True)
    for problem in PROBLEMS:
        started = time.process_time()
        module_counts = counts(problem, device(arguments.device), arguments.schedules)
        size = f"{problem.m}x{problem.n}x{problem.k}"
        print(f"| {size} | {' | '.join(map(str, module_counts))} | {time.process_time() - started:.1f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
