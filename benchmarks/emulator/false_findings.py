"""Sample schedules of every kernel template, for all types and operators, and verify each.

The kernels should be correct, so every finding reveals an error in a kernel, a rule or the emulator.

    python -m benchmarks.emulator.false_findings [--sample 100] [--seed 0] [--workers 2] [--device h200] [--log FILE]

Schedules alternate between problems. Each schedule is verified quickly, as by ``autosched verify``: large problems are
reduced to a few tiles. The log has a JSON line for each schedule, and a later run continues the log. A larger sample
begins with the schedules of a smaller sample.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice
from pathlib import Path
from typing import Any

from autosched.verify.schedule_runs import emulated_problem
from autosched.verify.schedules import verify_kernel
from autosched.verify.verdict import FAILURE_STATUSES
from search_spaces.catalogue import candidates, template
from search_spaces.hardware.devices import Device, device
from search_spaces.operators.copy import Copy
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import LayerNorm, Reduce, RmsNorm, Softmax
from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.schedule import Schedule

# Problems with every operator, type, storage order, epilogue and reduction. Most sizes are not multiples of any tile
# size; some sizes are multiples of all tile sizes.
PROBLEMS: tuple[Problem, ...] = (
    Matmul(257, 200, 136, a="f16", order_b="col", epilogue="bias+gelu"),
    Matmul(4096, 4096, 4096, a="bf16"),
    Matmul(131, 264, 200, batch=2, a="bf16", order_a="row", out="f32", epilogue="relu"),
    Matmul(67, 45, 53, a="f32", order_a="col"),
    Matmul(512, 384, 1024, a="f32", epilogue="bias"),
    Matmul(200, 136, 104, a="f16", reduction="row_max"),
    Matmul(40, 100, 40, a="bf16", reduction="column_sum"),
    Matmul(264, 136, 72, a="f16", order_a="col", out="f32"),
    Matmul(200, 136, 320, a="e4m3", scale="row_column", epilogue="bias+silu"),
    Matmul(300, 260, 400, a="e5m2", scale="block"),
    Matmul(130, 72, 208, a="i8"),
    Matvec(m=1, n=1000, k=1200, x="f16"),
    Matvec(m=5, n=77, k=4096, x="bf16"),
    Reduce(33, 1003, kind="sum", dtype="f16"),
    Reduce(200, 130, kind="max", axis="column", dtype="bf16"),
    Reduce(17, 4096, kind="argmax", dtype="f32"),
    Reduce(64, 300, kind="sumsq", dtype="f32"),
    Softmax(19, 777, dtype="f16"),
    Softmax(4, 8192, dtype="bf16"),
    RmsNorm(21, 1000, dtype="bf16"),
    LayerNorm(9, 513, dtype="f32"),
    Transpose(130, 77, dtype="u8"),
    Transpose(96, 200, dtype="u32"),
    Transpose(65, 33, dtype="u128"),
    Copy(77, 130, dtype="u16"),
)


def drawn(seed: int, of: Device) -> Iterator[tuple[Problem, Schedule]]:
    """Yield an unlimited number of schedules, alternating between problems and their templates."""
    pairs = [(p, t) for p in PROBLEMS for t, lacks in candidates(p, of) if lacks is None]
    spaces = {(p.key(), t.name): t.space(p, of) for p, t in pairs}
    for i in count():
        for problem, kernel_template in pairs:
            (schedule,) = spaces[problem.key(), kernel_template.name].sample(1, seed=seed + i)
            yield problem, schedule


def verified(problem: Problem, schedule: Schedule, of: Device) -> dict[str, Any]:
    started = time.monotonic()
    kernel_template = template(schedule.template)
    small = emulated_problem(kernel_template, problem, schedule)
    runs = list(verify_kernel(small, kernel_template.kernel(small, schedule, of), seed=1))
    return {
        "problem": problem.to_json(),
        "template": schedule.template,
        "schedule": dict(schedule.items),
        "status": runs[-1].status,
        "reason": runs[-1].reason,
        "runs": len(runs),
        "seconds": round(time.monotonic() - started, 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="h200")
    parser.add_argument("--log", type=Path, default=Path("false_findings.jsonl"))
    options = parser.parse_args()
    done = [json.loads(line) for line in options.log.read_text().splitlines()] if options.log.exists() else []
    of = device(options.device)
    left = islice(drawn(options.seed, of), len(done), options.sample)
    with ThreadPoolExecutor(options.workers) as pool, options.log.open("a") as file:
        while some := list(islice(left, 4 * options.workers)):
            for outcome in pool.map(lambda pair: verified(*pair, of), some):
                file.write(json.dumps(outcome) + "\n")
                file.flush()
                done.append(outcome)
                if outcome["status"] != "ok":
                    print(json.dumps(outcome), flush=True)
    print(dict(Counter((outcome["template"], outcome["status"]) for outcome in done)))
    return int(any(outcome["status"] in FAILURE_STATUSES for outcome in done))


if __name__ == "__main__":
    sys.exit(main())
