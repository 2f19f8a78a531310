"""Correct code is never rejected.

Full verifications accept schedules of every operator, type, epilogue, reduction and scale.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

from autosched.verify.schedules import verify_one
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import device
from search_spaces.hardware.dtypes import EIGHT_BIT_DTYPES, FLOAT_DTYPES
from search_spaces.operators.copy import Copy
from search_spaces.operators.matmul import EPILOGUES, FP8, ORDERS, REDUCTIONS, SCALES, Matmul
from search_spaces.operators.matvec import INPUTS, Matvec
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import AXES, KINDS, LayerNorm, Reduce, RmsNorm, Softmax
from search_spaces.operators.transpose import ELEMENT_BYTES, Transpose

pytestmark = [needs_nvrtc, needs_compiler]

DEVICES = ("h200", "a100", "t4", "rtx4090")
SCHEDULES = 3  # number of schedules of each problem


def matmuls() -> Iterator[Matmul]:
    """Yield matmuls that combine every type with every epilogue, reduction, scale and output type."""
    sizes = np.random.default_rng(1)
    outs, orders, precisions = cycle(FLOAT_DTYPES), cycle(ORDERS), cycle(("tf32", "ieee"))
    for kind in (*FLOAT_DTYPES, *EIGHT_BIT_DTYPES):
        scales = [s for s in SCALES if kind in FP8 or (s != "block" and kind == "i8")] or ["none"]
        for k, epilogue in enumerate((*EPILOGUES, *("none",) * 5)):
            scale = scales[k % len(scales)]
            reduction = "none" if scale == "block" else REDUCTIONS[k % 5]
            m, n, depth = (int(x) for x in sizes.integers(1, (150, 150, 200)))
            yield Matmul(
                m, n, depth, batch=1 + k % 3 // 2, a=kind, out=next(outs), epilogue=epilogue, reduction=reduction,
                scale=scale, order_a="row" if scale == "block" else next(orders),
                order_b="col" if kind in EIGHT_BIT_DTYPES else ORDERS[k // 2 % 2],
                acc="f16" if kind == "f16" and k % 4 == 3 else "",
                precision=next(precisions) if kind == "f32" else "tf32",
            )  # fmt: skip
    yield Matmul(100, 60, 300, a="i8")


def row_problems() -> Iterator[Problem]:
    """Yield problems for every operator, kind and axis with every input and output type."""
    sizes = np.random.default_rng(2)
    outs = cycle(FLOAT_DTYPES)
    for kind in FLOAT_DTYPES:
        for operator in (Softmax, RmsNorm, LayerNorm):
            for out in FLOAT_DTYPES:
                rows, columns = (int(x) for x in sizes.integers(1, (40, 700)))
                yield operator(rows, columns, dtype=kind, out=out)
        yield RmsNorm(64, 64, dtype=kind)
        for op in KINDS:
            for axis in AXES:
                rows, columns = (int(x) for x in sizes.integers(1, (80, 400)))
                yield Reduce(rows, columns, dtype=kind, kind=op, axis=axis, out="u32" if op == "argmax" else next(outs))


def other_problems() -> Iterator[Problem]:
    for kind in ELEMENT_BYTES:
        yield Transpose(70, 45, batch=2, dtype=kind)
        yield Copy(33, 71, batch=2, dtype=kind)
    for kind in INPUTS:
        for m in (1, 5, 16):
            yield Matvec(m, 70, 260, x=kind, out="f32" if m == 5 else "")


def gpu_for(problem: Problem, k: int) -> str:
    """Return a GPU that supports the problem. Different problems use different GPUs."""
    for name in (DEVICES * 2)[k % len(DEVICES) :]:
        try:
            templates_for(problem, device(name))
        except ValueError:
            continue
        return name
    raise AssertionError(f"no GPU computes {problem}")


ALL = [(problem, k) for k, problem in enumerate((*matmuls(), *row_problems(), *other_problems()))]
FEW = (
    (RmsNorm(16, 64, dtype="f32"), "h200", 1),
    (Matmul(20, 24, 40, a="f32", precision="ieee", epilogue="bias+gelu", reduction="row_sum"), "a100", 2),
    (Reduce(9, 40, kind="mean", axis="column", dtype="bf16"), "t4", 3),
)


def check_sound(problem: Problem, gpu: str, schedules: int, seed: int) -> None:
    on = device(gpu)
    templates = templates_for(problem, on)
    for schedule in templates.space(problem, on).sample(schedules, seed=seed):
        verdict = verify_one(templates.of(schedule), problem, schedule, on, seed=seed, depth="full")
        assert verdict.ok, f"{problem} on {gpu}, seed {seed}: {verdict.reason}\n{schedule}"


@pytest.mark.parametrize(("problem", "gpu", "seed"), FEW, ids=lambda x: str(getattr(x, "operator", x)))
def test_sound_schedules_pass(problem: Problem, gpu: str, seed: int) -> None:
    check_sound(problem, gpu, 1, seed)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("problem", "seed"), ALL, ids=lambda x: str(getattr(x, "operator", x)))
def test_every_operator_and_type_has_sound_schedules(problem: Problem, seed: int) -> None:
    check_sound(problem, gpu_for(problem, seed), SCHEDULES, seed)
