"""Prove schedules without a GPU: emulate their kernels and compare every element with the float64 reference.

A proof is several runs: on random inputs, and on those that the operator must answer (``Problem.input_cases``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from measurements.compile import usable_cores
from measurements.emulator import Emulation, Finding, GlobalSite, HostFailure, SharedSite, emulate
from measurements.verification import check
from search_spaces.arrays import FloatArray
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Array, Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.kernel import Kernel
from search_spaces.templates.template import KernelTemplate, TemplateSet

# A problem up to these sizes is emulated as it is, a larger one is cut to a few tiles.
EMULATED_FLOPS = 2.0 * 256**3
EMULATED_BYTES = 4 * 2**20  # of its operands
CONDEMNING = ("wrong_result", "findings", "crashed")  # what an emulation says of a kernel; all else is no verdict
TIME_LIMIT = 60.0  # seconds that the emulation of one candidate may take


RANDOM = "random"  # the inputs of a first run


@dataclass(frozen=True)
class Run:
    """One emulated launch of a proof. ``cases`` are the kinds of its inputs, drawn from ``seed``. ``worst`` and
    ``max_abs_error`` are None where the kernel did not finish, the second also where inputs are not all finite."""

    problem: Problem
    cases: tuple[str, ...]
    seed: int
    status: str
    reason: str
    worst: float | None
    max_abs_error: float | None
    emulation: Emulation


@dataclass(frozen=True)
class Verification:
    """``problem`` is the one that was emulated, perhaps a cut of the one asked for.

    ``status`` is "ok", "wrong_result", "findings", "timeout", "crashed" or "compile_error": that of the run that failed
    and ended the proof, if one did. ``worst`` is the largest error over its tolerance (at most 1 passes),
    ``max_abs_error`` the largest absolute error on random inputs; both None where the kernel did not finish.
    ``emulation`` is that of the run that failed, else of the first.
    """

    problem: Problem
    schedule: Schedule
    status: str
    reason: str
    worst: float | None
    max_abs_error: float | None
    emulation: Emulation
    runs: tuple[Run, ...] = ()

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
        """Of the host, to compile and to run everything."""
        emulations = [run.emulation for run in self.runs] or [self.emulation]
        return sum(e.compile_seconds + e.run_seconds for e in emulations)


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
    """Emulate one schedule of ``template`` on inputs drawn from ``seed``, until a run fails.

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
    runs = tuple(prove(small, template.kernel(small, schedule, device), seed=seed, time_limit=time_limit))
    first, last = runs[0], runs[-1]
    shown = first if last.status == "ok" else last
    worst = None if shown.worst is None else max(run.worst or 0.0 for run in runs)
    error = None if shown.worst is None else first.max_abs_error
    return Verification(small, schedule, last.status, last.reason, worst, error, shown.emulation, runs)


def prove(problem: Problem, kernel: Kernel, *, seed: int = 0, time_limit: float = TIME_LIMIT) -> Iterator[Run]:
    """Emulate ``kernel`` on random inputs, then on sets of provoking ones; the first run that fails is the last.

    One set is emulated in any case, more while their operands stay under ``EMULATED_BYTES`` together. Raises
    HostFailure where this machine cannot emulate.
    """
    run = _run(problem, kernel, (RANDOM,), problem.random_inputs(seed), seed, time_limit)
    yield run
    most = max(1, EMULATED_BYTES // problem.min_bytes)
    for given in islice(problem.provoking_inputs(seed), most):
        if run.status != "ok":
            return
        run = _run(problem, kernel, given.cases, given.inputs, seed, time_limit)
        yield run


def _run(
    problem: Problem,
    kernel: Kernel,
    cases: tuple[str, ...],
    inputs: Mapping[str, Array],
    seed: int,
    time_limit: float,
) -> Run:
    done = emulate(kernel, inputs, time_limit=time_limit)
    if done.status not in ("ok", "findings"):
        return Run(problem, cases, seed, done.status, done.reason, None, None, done)
    reference = problem.reference(inputs)
    outcome = check(problem, inputs, done.outputs, reference=reference)
    status = "wrong_result" if not outcome.ok else done.status
    provoked = "" if cases == (RANDOM,) or status == "ok" else f"on inputs {', '.join(cases)}"
    reason = "; ".join(text for text in (outcome.reason, done.reason, provoked) if text)
    error = _max_abs_error(problem, reference, done.outputs) if cases == (RANDOM,) else None
    return Run(problem, cases, seed, status, reason, outcome.worst, error, replace(done, outputs={}))


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
