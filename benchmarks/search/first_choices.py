"""Compare the time model's first choices with NVIDIA's heuristics, for the matmuls of ``benchmarks.gpu.problems``.

``python -m benchmarks.search.first_choices [--device h200] [--shapes N] > first_choices.md``. Nothing is measured. A
choice is the first schedule that the sampler ``bayes`` proposes among all templates. ``--compile`` compiles each
choice. It reports spills, wgmma instructions that ptxas serialises, and CPU time. nvMatmulHeuristics proposes a CUTLASS
configuration (``pip install 'autosched[heuristics]'``, NVIDIA's licence). The time model estimates the legal schedule
that is nearest to this configuration.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass

from autosched.samplers.bayes.sampler import BayesSampler
from autosched.samplers.first_choices import nvidia_heuristics
from autosched.samplers.first_choices.model_choice import predicted_seconds
from autosched.samplers.first_choices.nvidia_heuristics import Configuration
from benchmarks.gpu.problems import matmuls
from cost_models.estimates import AnalyticEstimates
from measurements.compiler.nvrtc import compile_source
from measurements.compiler.pool import parse_resources
from search_spaces.catalogue import template, templates_for
from search_spaces.hardware.devices import Device, device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

_TCGEN05 = ("tcgen05_matmul", "tcgen05_matmul_transposed")
_WGMMA = ("wgmma_matmul", "wgmma_matmul_transposed")


# GPUs by their names in nvMatmulHeuristics. Proposals for a B200 are only printed, because tcgen05 configurations
# cannot be converted to schedules.
LIBRARY_NAMES = {**nvidia_heuristics.GPUS, "b200": "B200"}


def first_choice(problem: Matmul, on: Device) -> tuple[Schedule, float]:
    """Return the sampler's first proposal, and the seconds that the time model predicts for it."""
    usable = templates_for(problem, on)
    (schedule,) = BayesSampler(usable.space(problem, on), 0, estimates=AnalyticEstimates(problem, usable, on)).ask(1)
    return schedule, predicted_seconds(usable, problem, [schedule], on)[0]


def heuristics_choice(problem: Matmul, on: Device) -> Configuration | None:
    """Return the first configuration of nvMatmulHeuristics.

    Returns None if nvMatmulHeuristics is not installed or does not support the problem.
    """
    name = LIBRARY_NAMES.get(on.name)
    if name is None or not nvidia_heuristics.installed() or not nvidia_heuristics.knows(problem.a, problem.precision):
        return None
    return next(iter(nvidia_heuristics.configurations(problem, name, 1)), None)


def nearest_seconds(problem: Matmul, configuration: Configuration, on: Device) -> float | None:
    """Return the predicted seconds of the legal schedule nearest to the configuration; None if there is none."""
    if on.name not in nvidia_heuristics.GPUS:
        return None
    usable = templates_for(problem, on)
    near = nvidia_heuristics.nearest(configuration, usable, problem, on, AnalyticEstimates(problem, usable, on))
    return None if near is None else predicted_seconds(usable, problem, [near], on)[0]


@dataclass(frozen=True)
class CompiledChoice:
    """Compilation of a first choice.

    ``seconds`` are CPU seconds that NVRTC and ptxas take. The other fields tell how many bytes are spilled, and whether
    ptxas serialises wgmma instructions (warning C7515).
    """

    name: str
    spilled: int
    serialised: bool
    cpu_seconds: float


def compiled(name: str, problem: Matmul, schedule: Schedule, on: Device) -> CompiledChoice:
    """Compile a first choice. Raises ValueError if it does not compile."""
    kernel = template(schedule.template).kernel(problem, schedule, on)
    started = time.process_time()
    output = compile_source(kernel.source, kernel.entry, on.arch, kernel.headers)
    seconds = time.process_time() - started
    resources = parse_resources(output.log, output.entry)
    if output.cubin is None or resources is None:
        raise ValueError(f"{name}: {output.log}")
    return CompiledChoice(name, resources.spill_store_bytes, "C7515" in output.log, seconds)


def _summary(choices: list[CompiledChoice]) -> str:
    seconds = [choice.cpu_seconds for choice in choices]
    spilled = [f"{choice.name} ({choice.spilled} bytes)" for choice in choices if choice.spilled]
    serialised = [choice.name for choice in choices if choice.serialised]
    return "\n".join(
        (
            f"compiled: {len(choices)}",
            f"spill: {', '.join(spilled) or 'none'}",
            f"serialised by ptxas: {', '.join(serialised) or 'none'}",
            f"CPU seconds of a compilation: median {statistics.median(seconds):.2f}, largest {max(seconds):.2f}",
        )
    )


def _shown(schedule: Schedule) -> str:
    if schedule.template in _TCGEN05:
        return _shown_tcgen05(schedule)
    if schedule.template in ("matmul", "tma_matmul"):
        return _shown_mma(schedule)
    if schedule.template not in _WGMMA:
        return schedule.template
    tile = "x".join(str(schedule.integer(f"tile_{axis}")) for axis in "mnk")
    parts = [tile, f"{schedule.integer('consumer_warpgroups')} consumers", f"{schedule.integer('stages')} stages"]
    m, n = schedule.integer("cluster_m"), schedule.integer("cluster_n")
    parts += [f"cluster {m}x{n}"] if m * n > 1 else []
    parts += [f"split {schedule.integer('split_k')}"] if schedule.integer("split_k") > 1 else []
    parts += [f"{schedule.integer('tiles_per_block')} tiles a block"] if schedule.integer("tiles_per_block") > 1 else []
    parts += ["ping-pong"] if schedule.integer("ping_pong") else []
    buffers = schedule.integer("store_buffers")
    parts += [f"TMA store of {buffers} box{'es' if buffers > 1 else ''}"] if buffers else []
    prefix = "transposed " if schedule.template.endswith("transposed") else ""
    return prefix + ", ".join(parts)


def _tile(schedule: Schedule) -> str:
    return "x".join(str(schedule.integer(f"tile_{axis}")) for axis in "mnk")


def _shown_tcgen05(schedule: Schedule) -> str:
    prefix = "transposed " if schedule.template.endswith("transposed") else ""
    parts = [f"{prefix}tcgen05 {_tile(schedule)}", f"{schedule.integer('stages')} stages"]
    parts += [f"split {schedule.integer('split_k')}"] if schedule.integer("split_k") > 1 else []
    tiles, buffers = schedule.integer("tiles_per_block"), schedule.integer("store_buffers")
    parts += (
        [f"{tiles} tiles per block, {schedule.integer('sum_buffers')} at a time in tensor memory"] if tiles > 1 else []
    )
    parts += ["stream-K"] if schedule.integer("stream_k") else []
    parts += ["launch control"] if schedule["tile_scheduler"] != "static" else []
    parts += [f"TMA store of {buffers} box{'es' if buffers > 1 else ''}"] if buffers else []
    return ", ".join(parts)


def _shown_mma(schedule: Schedule) -> str:
    subgroups = f"{schedule.integer('subgroups_m')}x{schedule.integer('subgroups_n')} subgroups"
    copied = "by TMA " if schedule.template == "tma_matmul" else ""
    parts = [f"{copied}{schedule['intrinsic']} {_tile(schedule)}", subgroups, f"{schedule.integer('stages')} stages"]
    parts += [f"split {schedule.integer('split_k')}"] if schedule.integer("split_k") > 1 else []
    parts += ["stream-K"] if schedule.integer("stream_k") else []
    return ", ".join(parts)


def _named(configuration: Configuration) -> str:
    tile = f"{'x'.join(map(str, configuration.tile))}, {configuration.stages} stages"
    m, n = configuration.cluster
    cluster = f", cluster {m}x{n}" if m * n > 1 else ""
    return tile + cluster + (f", split {configuration.split_k}" if configuration.split_k > 1 else "")


def main() -> int:
    """Print the table. Exit status 2 if the arguments are invalid."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="h200")
    parser.add_argument("--shapes", type=int, default=None, help="number of shapes to use (default: all)")
    parser.add_argument(
        "--compile", action="store_true", help="also compile the choices, and report spills and CPU time"
    )
    arguments = parser.parse_args()
    on = device(arguments.device)
    choices: list[CompiledChoice] = []
    print("| problem | first choice of the time model | TFLOP/s | nvMatmulHeuristics | its time / first choice's |")
    print("|---|---|---|---|---|", flush=True)
    for purpose, problem in matmuls()[: arguments.shapes]:
        if not isinstance(problem, Matmul):
            continue
        name = f"{purpose} {problem.m}x{problem.n}x{problem.k} {problem.a}"
        try:
            schedule, seconds = first_choice(problem, on)
        except ValueError as error:  # no template supports the problem on this device
            print(f"| {name} | none: {error} | | | |", flush=True)
            continue
        if arguments.compile:
            choices.append(compiled(name, problem, schedule, on))
        other = heuristics_choice(problem, on)
        near = nearest_seconds(problem, other, on) if other is not None else None
        batch = f"{problem.batch} x " if problem.batch > 1 else ""
        stored = f"{problem.order_a}/{problem.order_b}"
        orders = "" if stored == "row/row" else f" {stored}"
        print(
            f"| {purpose} {batch}{problem.m}x{problem.n}x{problem.k} {problem.a}{orders} | {_shown(schedule)} "
            f"| {problem.flops / seconds / 1e12:.0f} | {_named(other) if other is not None else ''} "
            f"| {f'{near / seconds:.2f}' if near is not None else ''} |",
            flush=True,
        )
    if choices:
        print(f"\n{_summary(choices)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
