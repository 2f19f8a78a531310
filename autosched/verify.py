"""Prove schedules without a GPU: emulate their kernels and compare every element with the float64 reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from autosched.codegen import generate
from measurements.emulator import Emulation, Finding, GlobalSite, SharedSite, emulate
from measurements.verification import check
from search_spaces.devices import Device
from search_spaces.family import family
from search_spaces.problem import Problem
from search_spaces.schedule import Schedule

EMULATED_FLOPS = 2.0 * 256**3  # a problem up to this size is emulated as it is, a larger one is cut to a few tiles
TIME_LIMIT = 60.0  # seconds that the emulation of one candidate may take


@dataclass(frozen=True)
class Verification:
    """``problem`` is the one that was emulated. ``worst`` is the largest error over its tolerance (at most 1 passes),
    ``max_abs_error`` the largest absolute error; both None where the kernel did not finish."""

    problem: Problem
    schedule: Schedule
    ok: bool
    status: str
    reason: str
    worst: float | None
    max_abs_error: float | None
    findings: tuple[Finding, ...]
    shared_sites: tuple[SharedSite, ...]
    global_sites: tuple[GlobalSite, ...]
    seconds: float


def emulated_problem(problem: Problem, schedule: Schedule) -> Problem:
    """``problem`` if it is small, else cut to a few tiles of ``schedule`` with the same remainders."""
    return problem if problem.flops <= EMULATED_FLOPS else family(problem.family).shrink(problem, schedule)


def verify_one(
    problem: Problem, schedule: Schedule, device: Device, *, seed: int = 0, time_limit: float = TIME_LIMIT
) -> Verification:
    """Emulate one schedule. Raises ValueError if it breaks a law, HostCompilerMissing without a host compiler."""
    small = emulated_problem(problem, schedule)
    kernel = generate(small, schedule, device)
    inputs = small.random_inputs(seed)
    run = emulate(kernel, inputs, time_limit=time_limit)
    if run.status not in ("ok", "findings"):
        return _verification(small, schedule, run, False, run.status, run.reason, None, None)
    outcome = check(small, inputs, run.outputs)
    largest = _max_abs_error(small, inputs, run)
    reason = "; ".join([*(f"{f.kind}: {f.message}" for f in run.findings[:3]), *([outcome.reason] if not outcome.ok else [])])
    status = "ok" if outcome.ok and not run.findings else "findings" if run.findings else "wrong_result"
    return _verification(small, schedule, run, status == "ok", status, reason, outcome.worst, largest)


def verify(
    problem: Problem,
    schedules: Sequence[Schedule],
    device: Device,
    *,
    seed: int = 0,
    workers: int | None = None,
    time_limit: float = TIME_LIMIT,
) -> Iterator[Verification]:
    """``verify_one`` for each schedule, several at a time (``workers``: default one per CPU), in their order."""
    with ThreadPoolExecutor(max_workers=workers or None) as pool:
        yield from pool.map(
            lambda s: verify_one(problem, s, device, seed=seed, time_limit=time_limit), schedules
        )


def _max_abs_error(problem: Problem, inputs: dict[str, np.ndarray], run: Emulation) -> float:
    worst = 0.0
    references = problem.reference(inputs)
    for operand in problem.operands():
        if operand.role == "output":
            error = np.abs(operand.dtype.load(run.outputs[operand.name]) - references[operand.name])
            worst = max(worst, float(np.max(np.where(np.isnan(error), np.inf, error))))
    return worst


def _verification(
    problem: Problem,
    schedule: Schedule,
    run: Emulation,
    ok: bool,
    status: str,
    reason: str,
    worst: float | None,
    largest: float | None,
) -> Verification:
    return Verification(
        problem=problem,
        schedule=schedule,
        ok=ok,
        status=status,
        reason=reason,
        worst=worst,
        max_abs_error=largest,
        findings=run.findings,
        shared_sites=run.shared_sites,
        global_sites=run.global_sites,
        seconds=run.seconds,
    )
