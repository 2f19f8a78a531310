"""Compare matmul's tile program with the hand-written template, by the estimated time of each space's best schedule.

Both spaces are searched in the same way: random schedules are sampled. From the best of these schedules, the search
moves repeatedly to a faster schedule that differs in one decision.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
from pathlib import Path

from autosched.programs.loading import load
from cost_models.analytic import predict
from search_spaces.hardware.devices import Device, device
from search_spaces.operators.matmul import Matmul
from search_spaces.programs.program_template import ProgramTemplate
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.matmul.template import MATMUL
from search_spaces.templates.template import KernelTemplate

PAGE = Path(__file__).parents[1] / "results" / "beside_matmul.md"
PROGRAM = Path(__file__).parents[2] / "examples" / "programs" / "matmul.py"
PROBLEMS = (
    Matmul(m=4096, n=4096, k=4096, a="f16"),
    Matmul(m=8192, n=4096, k=4096, a="bf16", epilogue="bias+silu"),
    Matmul(m=4096, n=4096, k=4096, a="f16", order_b="col"),
    Matmul(m=2048, n=2048, k=2048, a="f16", batch=4),
    Matmul(m=4095, n=4098, k=4104, a="f16", out="f32"),
    Matmul(m=512, n=4096, k=4096, a="f16"),
)
STARTS, STEPS = 6, 40


def best(template: KernelTemplate, problem: Matmul, where: Device, samples: int) -> tuple[Schedule, float]:
    """Return the fastest schedule that the search finds, and its estimated seconds."""
    space = template.space(problem, where)
    seconds: dict[Schedule, float] = {}

    def time_of(schedule: Schedule) -> float:
        if schedule not in seconds:
            assert template.counts is not None
            seconds[schedule] = predict(template.counts(problem, space.config(schedule), where), where)
        return seconds[schedule]

    for start in sorted(space.sample(samples, 0), key=time_of)[:STARTS]:
        current = start
        for _ in range(STEPS):
            near = min(space.neighbours(current), key=time_of, default=current)
            if time_of(near) >= time_of(current):
                break
            current = near
    fastest = min(seconds, key=lambda s: seconds[s])
    return fastest, seconds[fastest]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="a100")
    parser.add_argument("--samples", type=int, default=1500)
    options = parser.parse_args()
    where, program = device(options.device), load(str(PROGRAM))
    assert isinstance(program, ProgramTemplate)
    rows = []
    for problem in PROBLEMS:
        (_, template), (fastest, own) = (best(t, problem, where, options.samples) for t in (MATMUL, program.template()))
        text = ", ".join(f"{k}={v}" for k, v in problem.to_json().items() if k in ("m", "n", "k", "batch", "a", "out",
                         "order_b", "epilogue"))  # fmt: skip
        times = " | ".join(f"{seconds * 1e6:.1f} us" for seconds in (template, own))
        shared = "stream-K" if fastest.values.get("stream_k") else f"split {fastest.integer('split_k')}"
        rows.append(f"| {text} | {times} | {own / template:.3f} | {shared} |")
        print(rows[-1], flush=True)
    today = datetime.datetime.now(datetime.UTC).date()
    PAGE.write_text(
        "# Matmul as a tile program, compared with the hand-written template\n\n"
        f"`python -m benchmarks.search.beside_matmul --device {options.device} --samples {options.samples}`, {today}, "
        f"on {os.cpu_count()} {platform.machine()} cores without a GPU.\n"
        "Times are estimates of the time model for the best schedule found in each space.\n"
        "A search starts from random schedules.\n"
        "From the best of these schedules, it moves repeatedly to a faster schedule that differs in one decision.\n"
        "The last column states how blocks divide `k` in the program's best schedule (*split 1*: not at all).\n\n"
        "| problem | template | program | program / template | k of the program |\n"
        "|---|---:|---:|---:|---|\n" + "\n".join(rows) + "\n",
        "utf-8",
    )


if __name__ == "__main__":
    main()
