"""Compare estimated matmuls on Ampere and Ada with cuBLAS: ``python -m benchmarks.gpu.against_cublas``.

Nothing is measured or compiled. For each problem, the time model estimates the schedule that it ranks first. This
estimate is compared with

- cuBLAS as recorded by AutoHeuristic on an A100 (``--folder``, see ``cost_model/autoheuristic.py``);
  these estimates include the launches and the power limit of the recording machine;
- published times of cuBLAS (torch.matmul) on an RTX 4090;
- the schedule nearest to NVIDIA's own configuration (``pip install 'autosched[heuristics]'``), also estimated by the
time model.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.cost_model.autoheuristic import NotARecording, Recorded, files, read
from benchmarks.cost_model.model_against_measured import as_recorded, comparable, predicted
from benchmarks.search.first_choices import first_choice, heuristics_choice, nearest_seconds
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

# TFLOP/s of torch 2.7 (CUDA 12.8) for square matmuls on an RTX 4090, accumulated in f32:
# https://github.com/zzc0721/torch-performance-test-data/issues/78
RTX4090 = {
    "f16": {1024: 106.1, 2048: 159.4, 4096: 168.4, 8192: 155.5, 10240: 156.9},
    "bf16": {1024: 126.8, 2048: 164.8, 4096: 151.5, 8192: 160.2, 10240: 158.5},
}
MODELS = tuple((m, n, k) for n, k in ((6144, 4096), (28672, 4096), (4096, 14336)) for m in (256, 1024, 4096))
LEAST = 1024  # minimum rows, columns and k of a recorded problem for the comparison with cuBLAS
LONGEST = 2  # a problem is approximately square if its longest side is at most this many times the shortest


def compared(path: Path, problem: Matmul) -> bool:
    """Return True for a large problem that is from a transformer's training or is approximately square."""
    sides = sorted((problem.m, problem.n, problem.k))
    return sides[0] >= LEAST and ("hf_train" in path.stem or sides[2] <= LONGEST * sides[0])


def recorded(folder: Path) -> Iterator[Recorded]:
    """Yield the A100 matmuls with a recorded time of cuBLAS, for the comparison. Raises NotARecording and OSError."""
    seen: set[Matmul] = set()
    for path in files(folder):
        for r in read(path):
            new = r.device.name == "a100" and r.library and comparable(r) and compared(path, r.problem)
            if new and r.problem not in seen:
                seen.add(r.problem)
                yield r


def shown(schedule: Schedule) -> str:
    """Describe a schedule by its tile, its stages, and the parameters that distribute the work."""
    if schedule.template != "matmul":
        return schedule.template
    tile = "x".join(str(schedule.integer(f"tile_{axis}")) for axis in "mnk")
    split = f", split {schedule.integer('split_k')}" if schedule.integer("split_k") > 1 else ""
    return f"{tile}, {schedule.integer('stages')} stages" + split + (", stream-K" if schedule["stream_k"] else "")


def beside_recordings(folder: Path) -> list[float]:
    """Print a table of recorded problems. Return cuBLAS's times divided by autosched's times."""
    print(
        "| m x n x k | cuBLAS, measured | ours, estimated | cuBLAS over ours | best Triton: estimated over measured |"
    )
    print("|---|---|---|---|---|")
    shares = []
    for r in sorted(recorded(folder), key=lambda r: r.problem.flops):
        schedule, _ = first_choice(r.problem, r.device)
        ours = template(schedule.template)
        assert ours.counts is not None  # a template without counts cannot be the model's choice
        work = ours.counts(r.problem, ours.config(r.problem, schedule, r.device), r.device)
        seconds, library = float(as_recorded(r.problem, r.device, [work])[0]), r.library or 0.0
        fastest = min(range(len(r.seconds)), key=r.seconds.__getitem__)
        triton = predicted(r)[fastest] / r.seconds[fastest]
        shares.append(library / seconds)
        p = r.problem
        print(
            f"| {p.m} x {p.n} x {p.k}, {p.a} | {_rate(p, library)} | {_rate(p, seconds)}, {shown(schedule)} "
            f"| {shares[-1]:.2f} | {triton:.2f} |",
            flush=True,
        )
    return shares


def beside_published() -> list[float]:
    """Print a table of published results. Return cuBLAS's times divided by autosched's times."""
    chip, shares = device("rtx4090"), []
    print("\n| RTX 4090 | cuBLAS, published | ours, estimated | cuBLAS's time over ours |\n|---|---|---|---|")
    for dtype, rates in RTX4090.items():
        for side, rate in rates.items():
            problem = Matmul(side, side, side, a=dtype, b=dtype, out=dtype)
            schedule, seconds = first_choice(problem, chip)
            shares.append(problem.flops / seconds / 1e12 / rate)
            own = f"{_rate(problem, seconds)}, {shown(schedule)}"
            print(f"| {side}^3, {dtype} | {rate:.0f} TFLOP/s | {own} | {shares[-1]:.2f} |", flush=True)
    return shares


def beside_nvidias_configuration() -> list[float]:
    """Print a table. Return the estimated times of NVIDIA's configurations divided by autosched's estimates."""
    print(
        "\n| GPU | m x n x k | autosched | NVIDIA's, as a schedule | NVIDIA's time / autosched's |\n"
        "|---|---|---|---|---|"
    )
    shares = []
    for name in ("a100", "rtx4090"):
        for m, n, k in MODELS:
            problem, chip = Matmul(m, n, k, a="bf16", b="bf16", out="bf16", order_b="col"), device(name)
            configuration = heuristics_choice(problem, chip)
            near = None if configuration is None else nearest_seconds(problem, configuration, chip)
            if configuration is None or near is None:
                continue
            schedule, seconds = first_choice(problem, chip)
            shares.append(near / seconds)
            tile = "x".join(map(str, configuration.tile))
            print(
                f"| {name} | {m} x {n} x {k} | {_rate(problem, seconds)}, {shown(schedule)} "
                f"| {_rate(problem, near)}, {tile}, {configuration.stages} stages | {shares[-1]:.2f} |",
                flush=True,
            )
    return shares


def _rate(problem: Matmul, seconds: float) -> str:
    return f"{problem.flops / seconds / 1e12:.0f} TFLOP/s"


def summary(name: str, shares: Sequence[float]) -> str:
    """Return a line with the median and minimum ratio, and the number of problems that reach the goal of 90%."""
    reached = sum(share >= 0.9 for share in shares)
    median = statistics.median(shares)
    return f"- {name}: 90% or more in {reached} of {len(shares)}; median {median:.2f}, least {min(shares):.2f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables. Exit status 2 if the folder has no recordings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="folder with AutoHeuristic's *_mm.txt files")
    folder = parser.parse_args(arguments).folder
    ratios: dict[str, list[float]] = {}
    try:
        if folder is not None:
            ratios["A100, compared with recorded cuBLAS"] = beside_recordings(folder)
    except (OSError, NotARecording) as error:
        print(f"benchmarks.gpu.against_cublas: {error}", file=sys.stderr)
        return 2
    ratios["RTX 4090, compared with published cuBLAS"] = beside_published()
    ratios["A100 and RTX 4090, compared with NVIDIA's configuration by the same model"] = beside_nvidias_configuration()
    print()
    for name, shares in ratios.items():
        if shares:
            print(summary(name, shares))
    return 0


if __name__ == "__main__":
    sys.exit(main())
