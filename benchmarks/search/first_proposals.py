"""Measure the CPU time until the first proposal of ``tune``, for every GPU of the device table.

``python -m benchmarks.search.first_proposals [--device D ...] > first_proposals.md``. The problems are a bf16 matmul of
4096 x 4096 x 4096 and a softmax of 4096 x 4096. The CPU seconds include building the space and the estimates of the
time model. The sampler is ``bayes``.
"""

from __future__ import annotations

import argparse
import sys
import time

from autosched.samplers.bayes.sampler import BayesSampler
from cost_models.estimates import AnalyticEstimates
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import Device, all_devices, device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Softmax

PROBLEMS: dict[str, Problem] = {
    "matmul": Matmul(4096, 4096, 4096, a="bf16"),
    "softmax": Softmax(4096, 4096, dtype="bf16"),
}


def first_proposal(problem: Problem, on: Device) -> tuple[str, float]:
    """Return the template of the first proposal, and the CPU seconds until this proposal.

    Raises:
        ValueError: No template computes the problem.
    """
    started = time.process_time()
    usable = templates_for(problem, on)
    (schedule,) = BayesSampler(usable.space(problem, on), 0, estimates=AnalyticEstimates(problem, usable, on)).ask(1)
    return schedule.template, time.process_time() - started


def main() -> int:
    """Print the table, followed by the worst row of each problem."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", action="append", help="use only this GPU; may be repeated (default: all)")
    arguments = parser.parse_args()
    chosen = [device(name) for name in arguments.device or ()] or all_devices()
    print("| device | " + " | ".join(f"{name}: template | seconds" for name in PROBLEMS) + " |")
    print("|---|" + "---|---|" * len(PROBLEMS), flush=True)
    worst = dict.fromkeys(PROBLEMS, 0.0)
    for on in chosen:
        cells = []
        for name, problem in PROBLEMS.items():
            template, seconds = first_proposal(problem, on)
            worst[name] = max(worst[name], seconds)
            cells.append(f"{template} | {seconds:.2f}")
        print(f"| {on.name} | {' | '.join(cells)} |", flush=True)
    print("\nworst: " + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in worst.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
