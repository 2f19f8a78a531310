"""Prepare a plan on a CPU, run its parts on a GPU, and show the results.

    python -m benchmarks.gpu --plan PLAN --prepare --device h200     # on a CPU: choose and compile schedules
    python -m benchmarks.gpu --plan PLAN --out OUT                   # list parts, progress and commands
    python -m benchmarks.gpu --plan PLAN --out OUT --part trials     # on the GPU: run one or more parts

Each part ends within its time limit, at most ``--minutes``, and continues where an earlier run of the part ended.
Results are appended to OUT/results.jsonl after each shape, and trials to OUT/recordings.jsonl.gz. OUT/table.md is the
report. ``--simulated`` runs a plan on a simulated GPU. The tests marked gpu have a separate command: ``python -m
benchmarks.gpu --minutes 1 --parts tests --out OUT``.

The exit status is 0 for success, and 2 for bad usage. It is 1 if no GPU can be used, the GPU stopped responding, or a
kernel was wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gpu import simulated_gpu
from benchmarks.gpu.plan.page import page
from benchmarks.gpu.plan.parts import PARTS, Session
from benchmarks.gpu.plan.prepared import PER_PROBLEM, load, prepare, scratch
from benchmarks.gpu.plan.results import Results
from measurements.compiler.nvrtc import NvrtcMissing
from measurements.compiler.pool import CompilePool
from measurements.runners.base import RunnerStopped
from measurements.runners.cuda.device import WORKER_MODULE
from measurements.runners.cuda.runner import CudaOptions, CudaRunner, cuda_available, cuda_device
from search_spaces.hardware.devices import device as device_of

_MOST_MINUTES = 9.0
_SIMULATED_SECONDS = "0.001"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plan", type=Path, required=True, help="folder of the prepared plan")
    parser.add_argument("--prepare", action="store_true", help="choose schedules and compile them, without a GPU")
    parser.add_argument("--device", default="h200", help="with --prepare: the GPU (default h200)")
    parser.add_argument("--per-problem", type=int, default=PER_PROBLEM, help="with --prepare: schedules per problem")
    parser.add_argument("--out", type=Path, help="folder for results, created if missing")
    parser.add_argument("--part", nargs="+", choices=list(PARTS), default=[], help="what to run")
    parser.add_argument(
        "--minutes", type=float, default=_MOST_MINUTES, help="total time limit of the parts in minutes (default 9)"
    )
    parser.add_argument("--simulated", action="store_true", help="run on a simulated GPU, with invented times")
    options = parser.parse_args(arguments)
    if not 0 < options.minutes <= 60 or options.per_problem < 1:
        parser.error("--minutes must be in (0, 60], and --per-problem must be at least 1")
    try:
        if options.prepare:
            with CompilePool() as pool:
                prepare(options.plan, device_of(options.device), pool, print, per_problem=options.per_problem)
            return 0
        if options.out is None:
            parser.error("--out FOLDER is missing")
        with scratch() as unpacked:
            return _run(options, Path(unpacked))
    except (ValueError, NvrtcMissing, OSError) as error:
        print(f"benchmarks.gpu: {error}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace, unpacked: Path) -> int:
    began = time.monotonic()
    prepared = load(options.plan, unpacked)
    results = Results(options.out)
    if not options.part:
        for name, (part, seconds) in PARTS.items():
            print(f"{name}: {part.__doc__}\n    {len(results.of(name))} results; {seconds:.0f} s of a GPU")
            print(f"    python -m benchmarks.gpu --plan {options.plan} --out {options.out} --part {name}")
        return 0
    if not options.simulated:
        answers, why = cuda_available()
        if not answers:
            print(f"benchmarks.gpu: no GPU can be used: {why}", file=sys.stderr)
            return 1
        if (actual_device := cuda_device()).name != prepared.device.name:
            print(
                f"benchmarks.gpu: {options.plan} is for {prepared.device.name}, not {actual_device.name}",
                file=sys.stderr,
            )
            return 2
    runner = CudaRunner(
        prepared.device,
        prepared.cubins,
        options=CudaOptions(launch_limit=1.0),
        worker_module=simulated_gpu.MODULE if options.simulated else WORKER_MODULE,
        worker_env={simulated_gpu.SECONDS: _SIMULATED_SECONDS, simulated_gpu.LOG: os.devnull},
    )

    def say(line: str) -> None:
        print(f"[{time.monotonic() - began:6.1f} s] {line}", flush=True)

    try:
        for name in options.part:
            part, seconds = PARTS[name]
            left = 60 * options.minutes - (time.monotonic() - began)
            if left <= 0:
                say(f"{name}: skipped for lack of time")
                continue
            part(Session(prepared, runner, results, options.out, min(seconds, left), say))
    except (RunnerStopped, KeyboardInterrupt) as error:
        print(
            f"benchmarks.gpu: stopped: {error or 'interrupted'}; run the same command again to continue",
            file=sys.stderr,
        )
        return 1
    finally:
        runner.close()
        (options.out / "table.md").write_text(page(results, prepared.device, simulated=options.simulated) + "\n")
    return 1 if any(row.get("wrong") for row in results.of("trials").values()) else 0
