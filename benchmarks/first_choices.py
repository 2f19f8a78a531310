"""What the time model would try first for the matmuls of ``benchmarks.gpu_problems``, beside NVIDIA's heuristics.

``python -m benchmarks.first_choices [--device h200] [--shapes N] > benchmarks/results/first_choices.md``. Nothing is
measured or compiled: a choice is the first guess of the sampler ``bayes`` over all kernel templates of the problem.
nvMatmulHeuristics (``pip install 'autosched[judge]'``, NVIDIA's licence) names a CUTLASS configuration; what comes
nearest to it among the legal schedules of ``wgmma_matmul`` is judged by our model too. Its own times are not used: they
are for its own kernels.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import math
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

from autosched.default_choice import predicted_seconds
from autosched.search.bayes import BayesSampler
from autosched.search.prior import AnalyticPrior
from benchmarks.gpu_problems import matmuls
from search_spaces.catalogue import template, templates_for
from search_spaces.hardware.devices import Device, device
from search_spaces.hardware.wgmma import ROWS
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import TemplateSet
from search_spaces.templates.wgmma_matmul.space import TILES_OF_BLOCK

Heuristics = Callable[[Matmul], Any]
_WGMMA = ("wgmma_matmul", "wgmma_matmul_transposed")
_PRECISIONS = {"f16": "HSH", "bf16": "TST"}  # NVIDIA's letters of a and b, accumulator, and out


def first_choice(problem: Matmul, on: Device) -> tuple[Schedule, float]:
    """The sampler's first guess, and the seconds that the model predicts for it."""
    usable = templates_for(problem, on)
    (schedule,) = BayesSampler(usable.space(problem, on), 0, prior=AnalyticPrior(usable, problem, on)).ask(1)
    return schedule, predicted_seconds(usable, problem, [schedule], on)[0]


def heuristics() -> Heuristics | None:
    """nvMatmulHeuristics for an H200, where it is installed: its first configuration for a problem, None for a type
    that it is not asked about."""
    try:
        nv = importlib.import_module("nvMatmulHeuristics")
    except ImportError:
        return None
    layouts = nv.NvMatmulHeuristicsMatmulLayout
    asked = {}
    for name, precision in _PRECISIONS.items():
        made = nv.NvMatmulHeuristicsInterface(
            backend=nv.NvMatmulHeuristicsTarget.CUTLASS3,
            precision=precision,
            flags=nv.NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING,
        )
        hardware = made.createHardwareDescriptor()
        made.setHardwarePredefinedGpu(hardware, nv.NvMatmulHeuristicsNvidiaGpu.H200_SXM)
        asked[name] = (made, hardware)

    def choose(problem: Matmul) -> Any:
        if problem.a not in asked:
            return None
        made, hardware = asked[problem.a]
        letters = "".join("N" if order == "row" else "T" for order in (problem.order_a, problem.order_b))
        layout = getattr(layouts, f"{letters}_ROW_MAJOR")
        made.loadInternalDiscoverySet(layout, hardware)
        stated = made.makeNvMatmulHeuristicsProblem(problem.m, problem.n, problem.k, layout, problem.batch)
        found = made.get(stated, 1, hardware)
        return found[0]["kernel"] if found else None

    return choose


def nearest(problem: Matmul, config: Any, on: Device) -> tuple[Schedule, float] | None:
    """The schedule of wgmma_matmul with tile, cluster and split of NVIDIA's ``config`` that the model likes best."""
    row = template("wgmma_matmul")
    if row.why_not(problem, on) is not None:
        return None
    space = row.space(problem, on)
    legal = [s for s in _alike(problem, config, on) if not list(space.explain(s))]
    if not legal:
        return None
    seconds = predicted_seconds(TemplateSet([row]), problem, legal, on)
    best = min(range(len(legal)), key=seconds.__getitem__)
    return legal[best], seconds[best]


def _alike(problem: Matmul, config: Any, on: Device) -> Iterator[Schedule]:
    space = template("wgmma_matmul").space(problem, on)
    (any_schedule,) = space.sample(1, 0)
    tiles = problem.batch * math.ceil(problem.m / config.cta_tile_m) * math.ceil(problem.n / config.cta_tile_n)
    line_b = 2 * config.cta_tile_n if problem.order_b == "row" else 128
    swizzles = {"swizzle_a": 128, "swizzle_b": next(s for s in (128, 64, 32, 0) if s == 0 or line_b % s == 0)}
    fixed = {
        **{"tile_m": config.cta_tile_m, "tile_n": config.cta_tile_n, "tile_k": config.cta_tile_k},
        **{"cluster_m": config.cluster_m, "cluster_n": config.cluster_n, "split_k": config.split_k},
        **{"ping_pong": 0, "l2_promotion": 256, "kept": "neither", "in_flight": 1, "min_blocks": 1, **swizzles},
        "raster": "row",
    }
    consumers = min(2, config.cta_tile_m // ROWS)
    fixed |= {"consumers": consumers, "producer_registers": 24 if consumers > 1 else 0}
    several = next((t for t in TILES_OF_BLOCK if t * on.sm_count >= tiles), 1) if config.split_k == 1 else 1
    for stages, boxes, turns, raster in itertools.product(
        (config.stages, config.stages - 1), (0, 1, 2), sorted({1, several}), ("row", "grouped_8")
    ):
        values = {**fixed, "stages": stages, "store_buffers": boxes, "tiles_of_block": turns, "raster": raster}
        if all(values[parameter.name] in parameter.values for parameter in space.parameters):
            yield any_schedule.replace(**values)


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


def _theirs(config: Any) -> str:
    tile = f"{config.cta_tile_m}x{config.cta_tile_n}x{config.cta_tile_k}, {config.stages} stages"
    cluster = f", cluster {config.cluster_m}x{config.cluster_n}" if config.cluster_m * config.cluster_n > 1 else ""
    return tile + cluster + (f", split {config.split_k}" if config.split_k > 1 else "")


def main() -> int:
    """Writes the table. Exit status 2 where the arguments are wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="h200")
    parser.add_argument("--shapes", type=int, default=None, help="only so many of the shapes")
    arguments = parser.parse_args()
    on, choose = device(arguments.device), heuristics()
    print("| problem | first choice of the time model | its TFLOP/s | nvMatmulHeuristics | as ours, against ours |")
    print("|---|---|---|---|---|", flush=True)
    for purpose, problem in matmuls()[: arguments.shapes]:
        if not isinstance(problem, Matmul):
            continue
        schedule, seconds = first_choice(problem, on)
        theirs = choose(problem) if choose is not None else None
        near = nearest(problem, theirs, on) if theirs is not None else None
        batch = f"{problem.batch} x " if problem.batch > 1 else ""
        stored = f"{problem.order_a}/{problem.order_b}"
        orders = "" if stored == "row/row" else f" {stored}"
        print(
            f"| {purpose} {batch}{problem.m}x{problem.n}x{problem.k} {problem.a}{orders} | {_shown(schedule)} "
            f"| {problem.flops / seconds / 1e12:.0f} | {_theirs(theirs) if theirs is not None else ''} "
            f"| {f'{near[1] / seconds:.2f}' if near is not None else ''} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # nvMatmulHeuristics 0.1.0.27 crashes where the interpreter clears its objects
