"""What the time model would try first for the matmuls of ``benchmarks.gpu_problems``, beside NVIDIA's heuristics.

``python -m benchmarks.first_choices [--device h200] [--shapes N] > benchmarks/results/first_choices.md``. Nothing is
measured or compiled: a choice is the first guess of the sampler ``bayes`` over all kernel templates of the problem.
nvMatmulHeuristics (``pip install 'autosched[judge]'``, NVIDIA's licence) names a CUTLASS configuration; what comes
nearest to it among the legal schedules, which ``tune`` tries too, is judged by our model. Its own times are not used:
they are for its own kernels.
"""

from __future__ import annotations

import argparse
import sys

from autosched import nvidia_heuristics
from autosched.default_choice import predicted_seconds
from autosched.nvidia_heuristics import Configuration
from autosched.search.bayes import BayesSampler
from autosched.search.prior import AnalyticPrior
from benchmarks.gpu_problems import matmuls
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import Device, device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

_WGMMA = ("wgmma_matmul", "wgmma_matmul_transposed")


def first_choice(problem: Matmul, on: Device) -> tuple[Schedule, float]:
    """The sampler's first guess, and the seconds that the model predicts for it."""
    usable = templates_for(problem, on)
    (schedule,) = BayesSampler(usable.space(problem, on), 0, prior=AnalyticPrior(usable, problem, on)).ask(1)
    return schedule, predicted_seconds(usable, problem, [schedule], on)[0]


def theirs(problem: Matmul, on: Device) -> Configuration | None:
    """The first configuration of nvMatmulHeuristics; None where it is not installed or does not know the problem."""
    if not nvidia_heuristics.installed() or not nvidia_heuristics.knows(problem, on):
        return None
    return next(iter(nvidia_heuristics.configurations(problem, nvidia_heuristics.GPUS[on.name], 1)), None)


def like_theirs(problem: Matmul, configuration: Configuration, on: Device) -> float | None:
    """The seconds that the model predicts for the nearest schedule of ours; None where there is none."""
    usable = templates_for(problem, on)
    near = nvidia_heuristics.nearest(configuration, usable, problem, on, AnalyticPrior(usable, problem, on))
    return None if near is None else predicted_seconds(usable, problem, [near], on)[0]


def _shown(schedule: Schedule) -> str:
    if schedule.template not in _WGMMA:
        return schedule.template
    tile = "x".join(str(schedule.integer(f"tile_{axis}")) for axis in "mnk")
    parts = [tile, f"{schedule.integer('consumers')} consumers", f"{schedule.integer('stages')} stages"]
    m, n = schedule.integer("cluster_m"), schedule.integer("cluster_n")
    parts += [f"cluster {m}x{n}"] if m * n > 1 else []
    parts += [f"split {schedule.integer('split_k')}"] if schedule.integer("split_k") > 1 else []
    parts += [f"{schedule.integer('tiles_of_block')} tiles a block"] if schedule.integer("tiles_of_block") > 1 else []
    parts += ["in turns"] if schedule.integer("ping_pong") else []
    parts += ["TMA store"] if schedule.integer("store_buffers") else []
    turned = "transposed " if schedule.template.endswith("transposed") else ""
    return turned + ", ".join(parts)


def _named(configuration: Configuration) -> str:
    tile = f"{'x'.join(map(str, configuration.tile))}, {configuration.stages} stages"
    m, n = configuration.cluster
    cluster = f", cluster {m}x{n}" if m * n > 1 else ""
    return tile + cluster + (f", split {configuration.split_k}" if configuration.split_k > 1 else "")


def main() -> int:
    """Writes the table. Exit status 2 where the arguments are wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="h200")
    parser.add_argument("--shapes", type=int, default=None, help="only so many of the shapes")
    arguments = parser.parse_args()
    on = device(arguments.device)
    print("| problem | first choice of the time model | its TFLOP/s | nvMatmulHeuristics | as ours, against ours |")
    print("|---|---|---|---|---|", flush=True)
    for purpose, problem in matmuls()[: arguments.shapes]:
        if not isinstance(problem, Matmul):
            continue
        schedule, seconds = first_choice(problem, on)
        other = theirs(problem, on)
        near = like_theirs(problem, other, on) if other is not None else None
        batch = f"{problem.batch} x " if problem.batch > 1 else ""
        stored = f"{problem.order_a}/{problem.order_b}"
        orders = "" if stored == "row/row" else f" {stored}"
        print(
            f"| {purpose} {batch}{problem.m}x{problem.n}x{problem.k} {problem.a}{orders} | {_shown(schedule)} "
            f"| {problem.flops / seconds / 1e12:.0f} | {_named(other) if other is not None else ''} "
            f"| {f'{near / seconds:.2f}' if near is not None else ''} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
