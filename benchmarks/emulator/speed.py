"""Measure the CPU seconds of verifications.

    python -m benchmarks.emulator.speed [--candidates 12] [--sample 100] [--seed 7] [--full] [--json]

The benchmark times the compilation of the emulator's runner, quick verifications of matmul candidates, and full
verifications of the time model's choices. No cache of an earlier run is used. CPU seconds (user and system) include
child processes. The goal for a full verification is 60 s. The goal for a quick verification of a 256x256x256
tensor-core candidate is 0.5 s if everything except the candidate's kernel is cached.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from autosched.samplers.first_choices.model_choice import default_choice
from autosched.verify.run import Depth
from autosched.verify.schedules import verify_one
from measurements.compiler.nvrtc import toolchain_version
from measurements.compiler.ptx import compiler_pids
from measurements.emulator import emulate, host_compiler
from measurements.emulator.host.build import runner
from search_spaces.catalogue import template, templates_for
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Softmax
from search_spaces.operators.transpose import Transpose

H200 = device("h200")
INTRINSIC = "mma_m16n8k16_f16"

# Problems with various types, storage orders, epilogues and batches, and sizes with and without remainders.
MIXED = (
    Matmul(256, 256, 256),
    Matmul(131, 70, 99),
    Matmul(131, 70, 99, a="bf16", b="bf16", out="f32", order_a="col", epilogue="bias+gelu"),
    Matmul(128, 192, 160, a="f32", b="f32", out="f32", order_b="col"),
    Matmul(100, 60, 256, batch=3, epilogue="relu"),
)
WINNERS: tuple[tuple[str, Problem], ...] = (
    ("matmul", Matmul(4096, 4096, 4096)),
    ("wgmma_matmul", Matmul(4096, 4096, 4096, a="bf16", b="bf16", out="bf16")),
    ("row_reduction", Softmax(64, 1_000_000, "f16")),
    ("transpose", Transpose(8192, 8192, dtype="u16")),
    ("matvec", Matvec(1, 8192, 8192)),
)


@dataclass(frozen=True)
class Verification:
    """A verification. ``compiling`` is wall-clock time of NVRTC and PTX translation; other times are CPU seconds."""

    name: str
    status: str
    runs: int
    seconds: float
    compiling: float


def cpu() -> float:
    """Return the CPU seconds of this process, of its ended children, and of idle compile workers (Linux only)."""
    used = (resource.getrusage(processes) for processes in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    compilers = sum(time.clock_gettime((~pid << 3) | 2) for pid in compiler_pids())
    return compilers + sum(u.ru_utime + u.ru_stime for u in used)


def seconds_of(work: Callable[[], object]) -> float:
    before = cpu()
    work()
    return cpu() - before


def quick_verifications(count: int) -> Iterator[Verification]:
    problem, matmul = MIXED[0], template("matmul")
    drawn = (s for s in matmul.space(problem, H200).sample(500, 0) if s.text("intrinsic") == INTRINSIC)
    schedules = [next(drawn) for _ in range(count + 1)]
    verify_one(matmul, problem, schedules[0], H200)  # warm up, because a process loads libraries and tables only once
    for schedule in schedules[1:]:
        yield verification("matmul", problem, schedule, "quick")


def verification(name: str, problem: Problem, schedule: object, depth: Depth) -> Verification:
    before = cpu()
    done = verify_one(template(name), problem, schedule, H200, depth=depth)  # type: ignore[arg-type]
    done.stored()
    compiling = sum(run.emulation.compile_seconds for run in done.runs)
    return Verification(f"{name}: {problem.key()}", done.status, len(done.runs), cpu() - before, compiling)


def full_verifications() -> Iterator[Verification]:
    for name, problem in WINNERS:
        chosen = default_choice(problem, H200, templates_for(problem, H200, [name]))
        if chosen is not None:
            yield verification(name, problem, chosen.schedule, "full")


def mixed(count: int, seed: int) -> dict[str, object]:
    share = -(-count // len(MIXED))
    drawn = [(p, s) for p in MIXED for s in template("matmul").space(p, H200).sample(share, seed)][:count]
    before = cpu()
    done = [emulate(template("matmul").kernel(p, s, H200), p.random_inputs(0)) for p, s in drawn]
    return {"count": len(done), "seconds": cpu() - before, "status": dict(Counter(e.status for e in done))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--candidates", type=int, default=12)
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--full", action="store_true", help="also run full verifications, which takes minutes")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="emulator-speed-") as folder:
        os.environ["AUTOSCHED_CACHE_DIR"] = folder
        built = seconds_of(runner)
        print(f"{host_compiler().identity}, {toolchain_version()}; runner {built:.0f} s", file=sys.stderr)
        quick = list(quick_verifications(options.candidates))
        sampled = mixed(options.sample, options.seed)
        full: list[Verification] = []
        if not options.json:
            each = sorted(p.seconds for p in quick)
            print(
                f"quick verifications of {INTRINSIC}: median {statistics.median(each):.2f} s, {each[0]:.2f} to "
                f"{each[-1]:.2f}"
            )
            print(f"mixed candidates: {sampled}", flush=True)
        for one in full_verifications() if options.full else ():
            full.append(one)
            if not options.json:
                print(
                    f"full verification of {one.name}: {one.status}, {one.runs} runs, {one.seconds:.1f} s", flush=True
                )
    if options.json:
        report = {"runner": built, "quick": [asdict(p) for p in quick], "mixed": sampled}
        print(json.dumps(report | {"full": [asdict(p) for p in full]}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
