"""Prove schedules without a GPU: emulate their kernels and compare every element with the float64 reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from measurements.compile import usable_cores
from measurements.emulator import Emulation, Finding, GlobalSite, HostFailure, SharedSite, emulate
from measurements.verification import check
from search_spaces.arrays import FloatArray
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Array, Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import KernelTemplate, TemplateSet

# A problem up to these sizes is emulated as it is, a larger one is cut to a few tiles.
EMULATED_FLOPS = 2.0 * 256**3
EMULATED_BYTES = 4 * 2**20  # of its operands
TIME_LIMIT = 60.0  # seconds that the emulation of one candidate may take


@dataclass(frozen=True)
class Verification:
    """``problem`` is the one that was emulated, perhaps a cut of the one asked for.

    ``status`` is "ok", "wrong_result", "findings", "timeout", "crashed" or "compile_error"; ``worst`` the largest error
    over its tolerance (at most 1 passes), ``max_abs_error`` the largest absolute error; both None where the kernel did
    not finish.
    """

    problem: Problem
    schedule: Schedule
    status: str
    reason: str
    worst: float | None
    max_abs_error: float | None
    emulation: Emulation

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.emulation.findings

    @property
    def shared_sites(self) -> tuple[SharedSite, ...]:
        return self.emulation.shared_sites

    @property
    def global_sites(self) -> tuple[GlobalSite, ...]:
        return self.emulation.global_sites

    @property
    def seconds(self) -> float:
        return self.emulation.compile_seconds + self.emulation.run_seconds


def emulated_problem(template: KernelTemplate, problem: Problem, schedule: Schedule) -> Problem:
    """``problem`` if it is small, else cut to a few tiles of ``schedule`` with the same remainders."""
    small = problem.flops <= EMULATED_FLOPS and problem.min_bytes <= EMULATED_BYTES
    if small or template.proxy is None:
        return problem
    cut: Problem = template.proxy(problem, schedule)
    return cut


def verify_one(
    template: KernelTemplate,
    problem: Problem,
    schedule: Schedule,
    device: Device,
    *,
    seed: int = 0,
    time_limit: float = TIME_LIMIT,
) -> Verification:
    """Emulate one schedule of ``template`` on inputs drawn from ``seed``.

    Raises ValueError if the schedule breaks a validity constraint, HostFailure where this machine cannot emulate.
    """
    template.config(problem, schedule, device)  # validates: what an invalid schedule cuts means nothing
    small = emulated_problem(template, problem, schedule)
    try:
        return _verified(template, small, schedule, device, seed, time_limit)
    except MemoryError as error:
        raise HostFailure("there is not enough memory to verify: free some, or raise the limit (ulimit -v)") from error


def _verified(
    template: KernelTemplate, small: Problem, schedule: Schedule, device: Device, seed: int, time_limit: float
) -> Verification:
    inputs = small.random_inputs(seed)
    run = emulate(template.kernel(small, schedule, device), inputs, time_limit=time_limit)
    if run.status not in ("ok", "findings"):
        return Verification(small, schedule, run.status, run.reason, None, None, run)
    reference = small.reference(inputs)
    outcome = check(small, inputs, run.outputs, reference=reference)
    status = "wrong_result" if not outcome.ok else run.status
    reason = "; ".join(text for text in (outcome.reason, run.reason) if text)
    return Verification(
        small, schedule, status, reason, outcome.worst, _max_abs_error(small, reference, run.outputs), run
    )


def verify(
    templates: TemplateSet,
    problem: Problem,
    schedules: Sequence[Schedule],
    device: Device,
    *,
    seed: int = 0,
    workers: int | None = None,
    time_limit: float = TIME_LIMIT,
) -> Iterator[Verification]:
    """``verify_one`` for each schedule, ``workers`` at a time (default: one per usable core), in their order."""
    with ThreadPoolExecutor(workers or usable_cores()) as pool:
        yield from pool.map(
            lambda s: verify_one(templates.of(s), problem, s, device, seed=seed, time_limit=time_limit), schedules
        )


def _max_abs_error(problem: Problem, reference: Mapping[str, FloatArray], outputs: Mapping[str, Array]) -> float:
    """The largest absolute error over all outputs; infinite where one is NaN, which is never right."""
    worst = 0.0
    for operand in problem.operands():
        if operand.role == "output":
            error = np.abs(operand.dtype.load(outputs[operand.name]) - reference[operand.name])
            worst = max(worst, float(np.where(np.isnan(error), np.inf, error).max()))
    return worst
