"""Verify sampled schedules: of operators that have tile programs, and for GPUs that are not available for tests.

The schedules for such GPUs use tensor memory, block scales, sm_75, or TMA with stream-K.

    python -m benchmarks.emulator.sampled_verifications [--only NAME ...] [--count N] [--full] [--log FILE] >
        sampled_verifications.md

Each schedule is sampled from the pruned space of a problem. It gets a quick verification, or with ``--full`` a full
one. Each completed verification is a JSON line of ``--log``, which a later call continues. The page has all
verifications in the log.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np

from autosched.verify.run import Depth
from autosched.verify.schedules import verify_one
from benchmarks.emulator.speed import cpu
from benchmarks.emulator.tile_operator_problems import PROBLEMS
from search_spaces.catalogue import template, templates_for
from search_spaces.hardware.devices import Device, device
from search_spaces.hardware.dtypes import FLOAT_DTYPES
from search_spaces.operators.block_scales import SCALE_ORDERS
from search_spaces.operators.copy import Copy
from search_spaces.operators.matmul import EPILOGUES, REDUCTIONS, Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import KINDS, LayerNorm, Reduce, RmsNorm, Softmax
from search_spaces.operators.transpose import ELEMENT_BYTES, Transpose
from search_spaces.templates.template import TemplateSet

BLOCK_SCALED = ("mxf8", "mxf4", "nvf4")
PLAIN = ("bf16", "f16", "f32", "e4m3", "e5m2", "i8")
B200, RTX5090, T4 = device("b200"), device("rtx5090"), device("t4")


def _orders(kind: str, rng: np.random.Generator) -> dict[str, str]:
    """Choose storage orders of a and b: random orders for 16-bit types, contiguous along k for other types."""
    if kind not in ("f16", "bf16"):
        return {"order_b": "col"}
    return {f"order_{side}": str(rng.choice(("row", "col"))) for side in "ab"}


def tensor_memory(i: int, rng: np.random.Generator) -> tuple[Problem, Device, TemplateSet]:
    """Yield random problems of every type for a B200. A quarter of the problems without block scales have few rows."""
    kind = (*PLAIN, *BLOCK_SCALED)[i % 9]
    few = kind in PLAIN and i // 9 % 4 == 3
    m, n, k = (int(x) for x in rng.integers((1, 1, 1), (90 if few else 900, 80, 30)))
    fp8 = kind in ("e4m3", "e5m2")
    scales = ("none", "tensor", "row_column") if fp8 or kind in BLOCK_SCALED else ("none",)
    orders = _orders(kind, rng)
    problem = Matmul(
        m if orders.get("order_a") != "col" else 8 * (m // 8 + 1), 8 * n, 64 * k, a=kind, **orders,
        batch=int(rng.choice((1, 3))),
        out=str(rng.choice(("bf16", "f32"))) if kind in BLOCK_SCALED else "",
        scale_order="tiled" if kind in BLOCK_SCALED else "",
        epilogue="none" if kind == "i8" else str(rng.choice(EPILOGUES)),
        scale=str(rng.choice((*scales, "block") if fp8 and not few else scales)),
    )  # fmt: skip
    return problem, B200, templates_for(problem, B200, ["tcgen05_matmul_transposed" if few else "tcgen05_matmul"])


def block_scales(i: int, rng: np.random.Generator) -> tuple[Problem, Device, TemplateSet]:
    """Yield random problems with block-scaled types for an RTX 5090."""
    m, n, k = (int(x) for x in rng.integers((1, 1, 1), (400, 300, 60)))
    problem = Matmul(
        m, n, 32 * k, a=BLOCK_SCALED[i % 3], scale_order=SCALE_ORDERS[i // 3 % 2], batch=int(rng.choice((1, 3))),
        out=str(rng.choice(("bf16", "f32"))), epilogue=str(rng.choice(EPILOGUES)),
        reduction=str(rng.choice(REDUCTIONS)), scale=str(rng.choice(("none", "tensor", "row_column"))),
    )  # fmt: skip
    return problem, RTX5090, templates_for(problem, RTX5090, ["matmul"])


def stream_k_matmuls(i: int, rng: np.random.Generator) -> tuple[Problem, Device, TemplateSet]:
    """Yield random problems of every type for an RTX 5090, with stages filled by TMA and with stream-K."""
    kinds = (*PLAIN, *BLOCK_SCALED)
    kind = kinds[i % len(kinds)]
    m, n, k = (int(x) for x in rng.integers((1700, 200, 2), (3000, 300, 30)))
    orders = _orders(kind, rng)
    problem = Matmul(
        m if orders.get("order_a") != "col" else m // 8 * 8, 8 * n, 128 * k, a=kind, **orders,
        batch=int(rng.choice((1, 3))), out=str(rng.choice(("bf16", "f32"))) if kind in BLOCK_SCALED else "",
        acc="f16" if kind == "f16" and i % 4 == 0 else "", 
        epilogue="none" if kind == "i8" else str(rng.choice(EPILOGUES)),
        scale=str(rng.choice(("none", "tensor", "row_column"))) if kind in ("e4m3", "e5m2") else "none",
    )  # fmt: skip
    return problem, RTX5090, templates_for(problem, RTX5090, ["tma_matmul"])


def turing(i: int, rng: np.random.Generator) -> tuple[Problem, Device, TemplateSet]:
    """Yield random problems of every operator for a T4. Half of the problems are matmuls."""
    m, n, k = (int(x) for x in rng.integers((1, 1, 1), (200, 40, 40)))
    floats = [str(rng.choice([*FLOAT_DTYPES])) for _ in range(2)]
    order = ("row", "col")
    kind = ("f16", "i8", "f16", "bf16", "f32")[i // 2 % 5]
    problems: Sequence[Callable[[], Problem]] = (
        lambda: Softmax(m, 13 * n, dtype=floats[0], out=floats[1]),
        lambda: LayerNorm(m, 13 * n, dtype=floats[0], out=floats[1]),
        lambda: RmsNorm(m, 13 * n, dtype=floats[0], out=floats[1]),
        lambda: Reduce(m, 13 * n, dtype=floats[0], kind=(one := str(rng.choice([*KINDS]))),
                       axis=str(rng.choice(("row", "column"))), out="u32" if one == "argmax" else floats[1]),
        lambda: Matvec(1 + m % 16, 8 * n, 16 * k, x=str(rng.choice(("f16", "f32", "bf16")))),
        lambda: Transpose(m, 8 * n, batch=2, dtype=str(rng.choice([*ELEMENT_BYTES]))),
        lambda: Copy(m, 8 * n, dtype=str(rng.choice([*ELEMENT_BYTES]))),
    )  # fmt: skip
    if i % 2:
        problem = problems[i // 2 % len(problems)]()
    else:
        problem = Matmul(
            m, 8 * n, 16 * k, a=kind, order_a="row" if kind == "i8" else str(rng.choice(order)),
            order_b="col" if kind == "i8" else str(rng.choice(order)), acc="f16" if i % 20 == 4 else "",
            epilogue="none" if kind == "i8" else str(rng.choice(EPILOGUES)),
        )  # fmt: skip
    return problem, T4, templates_for(problem, T4)


def _of_operator(operator: str, i: int, _: np.random.Generator) -> tuple[Problem, Device, TemplateSet]:
    """Yield random problems of an operator with a tile program, alternately for an A100 and an H100."""
    problems, on = PROBLEMS[operator], device(("a100", "h100")[i % 2])
    problem = problems[i // 2 % len(problems)]
    return problem, on, templates_for(problem, on, [operator])


Draw = Callable[[int, np.random.Generator], tuple[Problem, Device, TemplateSet]]
STREAM_K = "stream-K of tma_matmul on rtx5090"
LISTS: dict[str, tuple[int, Draw]] = {
    "tcgen05 on b200": (300, tensor_memory),
    "block scales on rtx5090": (100, block_scales),
    "sm_75 on t4": (100, turing),
    STREAM_K: (100, stream_k_matmuls),
    **{operator: (200, partial(_of_operator, operator)) for operator in PROBLEMS},
}


@dataclass(frozen=True)
class Judged:
    """Result of verifying one schedule. ``seconds`` is CPU time of the verification, without building the space."""

    name: str
    index: int
    problem: str
    template: str
    schedule: str
    status: str
    reason: str
    seconds: float
    depth: Depth = "quick"


def judge(name: str, index: int, depth: Depth) -> Judged:
    """Sample the schedule with number ``index`` for the list ``name``, and verify it."""
    draw = LISTS[name][1]
    problem, on, usable = draw(index, np.random.default_rng((index, 2026)))
    streamed = name == STREAM_K
    drawn = usable.space(problem, on).sample(200 if streamed else 1, seed=index)
    schedule = next(s for s in drawn if not streamed or s["stream_k"])
    before = cpu()
    try:
        done = verify_one(template(schedule.template), problem, schedule, on, depth=depth)
        status, reason = done.status, done.reason
    except ValueError as error:  # the problem has no schedule for which a kernel can be generated
        status, reason = "refused", str(error)
    spent = cpu() - before
    return Judged(name, index, problem.key(), schedule.template, schedule.key(), status, reason, spent, depth)


def _known(log: Path | None) -> list[Judged]:
    if log is None or not log.exists():
        return []
    return [Judged(**json.loads(line)) for line in log.read_text().splitlines()]


def table(judged: Sequence[Judged]) -> str:
    """Return the page: a row for each list, and the failed schedules."""
    lines = [
        "# Sampled schedules",
        f"`python -m benchmarks.emulator.sampled_verifications`, {datetime.now(UTC):%Y-%m-%d}, on a 2-core x86-64 "
        f"machine",
        "without a GPU. Each schedule is sampled from the space of a problem, and verified as by `autosched verify`.",
        "Times are CPU seconds (user and system) of one verification in one process.",
        "",
        "| schedules | verification | passed | sampled | median s | max s |",
        "|---|---|---|---|---|---|",
    ]
    depths: Sequence[Depth] = ("quick", "full")
    for name, depth in ((name, depth) for name in LISTS for depth in depths):
        of = [j for j in judged if (j.name, j.depth) == (name, depth)]
        if of:
            seconds = [j.seconds for j in of]
            passed = sum(j.status == "ok" for j in of)
            median, most = statistics.median(seconds), max(seconds)
            lines.append(f"| {name} | {depth} | {passed} | {len(of)} | {median:.2f} | {most:.1f} |")
    failed = [j for j in judged if j.status != "ok"]
    lines += ["", "All passed." if not failed else "Failed:"]
    lines += [f"- {j.name} {j.index}, {j.depth}: {j.problem}: {j.status}: {j.reason}" for j in failed]
    return "\n".join(lines)


def main() -> int:
    """Verify schedules that are not in the log yet, and print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(LISTS), choices=list(LISTS))
    parser.add_argument("--count", type=int, help="number of schedules per list")
    parser.add_argument("--full", action="store_true", help="verify in full")
    parser.add_argument("--log", type=Path)
    arguments = parser.parse_args()
    judged = _known(arguments.log)
    depth: Depth = "full" if arguments.full else "quick"
    done = {(j.name, j.index, j.depth) for j in judged}
    for name in arguments.only:
        for index in range(arguments.count or LISTS[name][0]):
            if (name, index, depth) in done:
                continue
            judged.append(judge(name, index, depth))
            if arguments.log:
                with arguments.log.open("a") as log:
                    log.write(json.dumps(asdict(judged[-1])) + "\n")
            if judged[-1].status != "ok":
                print(f"{time.strftime('%H:%M:%S')} {judged[-1]}", file=sys.stderr, flush=True)
    print(table(judged))
    return 0


if __name__ == "__main__":
    sys.exit(main())
