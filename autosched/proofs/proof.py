"""Prove schedules without a GPU: emulate their kernels and compare every element with the float64 reference.

A quick proof is a few runs: on random inputs, and, with warps and blocks in random order, on inputs that the operator
must answer (``Problem.input_cases``). A full one has more of both, other orders, some blocks of the problem itself
where that is too large to be emulated whole, and the same schedule at sizes that provoke (``provoking_sizes``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Literal

import numpy as np

from autosched.proofs import stored_proof as proofs
from autosched.proofs.sampled_blocks import can_sample, prove_blocks, sampled_flops
from autosched.proofs.stress_sizes import provoking_sizes, with_short_k
from measurements.compiler.pool import usable_cores
from measurements.emulator import (
    ASCENDING,
    Emulation,
    Finding,
    GlobalSite,
    HostFailure,
    Order,
    SharedSite,
    emulate,
)
from measurements.records.comparison import check
from search_spaces.arrays import FloatArray
from search_spaces.hardware.devices import Device
from search_spaces.operators.input_cases import ProvokingInputs
from search_spaces.operators.problem import Array, Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.kernel import Kernel
from search_spaces.templates.template import KernelTemplate, TemplateSet

# A problem up to these sizes is emulated as it is, a larger one is cut to a few tiles.
EMULATED_FLOPS = 2.0 * 256**3
EMULATED_BYTES = 4 * 2**20  # of its operands
CONDEMNING = ("wrong_result", "findings", "crashed")  # what an emulation says of a kernel; all else is no verdict
FAILING = (*CONDEMNING, "compile_error")  # what is not right as it stands
TIME_LIMIT = 60.0  # seconds that the emulation of one candidate may take
# A quick proof of a small problem draws its inputs again while all of them stay below these sizes: a few lines do not
# put a NaN, or a tie, at each place of a line that matters.
AGAIN_BYTES, AGAIN_FLOPS, AGAIN = 2**17, 2**21, 4


RANDOM = "random"  # the inputs of a first run
GENERATED = "generated integers"  # those of sampled blocks (measurements/emulator/sparse.py)
Depth = Literal["quick", "full"]
Execute = Callable[..., Emulation]  # takes a kernel, its inputs, time_limit and order: ``emulate``, or another engine
_LARGE_FLOPS = 2.0**34  # of some blocks at the true size: a third of ``TIME_LIMIT`` or less
_WHOLE_FLOPS, _WHOLE_BYTES = 16 * EMULATED_FLOPS, 16 * EMULATED_BYTES  # of a provoking size that is run whole


@dataclass(frozen=True)
class AskedLaunch:
    """How random inputs are run once more: in an order, and so many times, each on what the last launch has left."""

    order: Order = ASCENDING
    launches: int = 1


@dataclass(frozen=True)
class Run:
    """One emulated launch of a proof.

    ``cases`` are the kinds of its inputs, drawn from ``seed``, ``order`` that of its blocks and threads, ``blocks`` how
    many were run (None: all). ``perturbed``: its PTX was executed, with approximate functions that err as much as they
    may. ``worst`` and ``max_abs_error`` are None where the kernel did not finish, the second also for other than random
    inputs.
    """

    problem: Problem
    cases: tuple[str, ...]
    seed: int
    order: Order
    blocks: int | None
    status: str
    reason: str
    worst: float | None
    max_abs_error: float | None
    emulation: Emulation
    perturbed: bool = False


@dataclass(frozen=True)
class Verification:
    """``problem`` is the one that was emulated, perhaps a cut of the one asked for.

    ``status`` is "ok", "wrong_result", or as of an ``Emulation``: that of the run that failed and ended the proof, if
    one did. ``worst`` is the largest error over its tolerance (at most 1 passes),
    ``max_abs_error`` the largest absolute error on random inputs; both None where the kernel did not finish.
    ``emulation`` is that of the run that failed, else of the first. ``kernel`` is that of the problem asked for;
    ``whole``: nothing of the proof of this ``depth`` was left out for want of time.
    """

    problem: Problem
    schedule: Schedule
    status: str
    reason: str
    worst: float | None
    max_abs_error: float | None
    emulation: Emulation
    runs: tuple[Run, ...] = ()
    kernel: Kernel | None = field(default=None, repr=False, compare=False)
    depth: Depth = "quick"
    whole: bool = True

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    def proof(self) -> dict[str, Any]:
        """What a record keeps: the runs, with all that repeats them, and what they are of (``autosched.proofs``)."""
        return {
            "status": self.status,
            "depth": self.depth,
            "whole": self.whole,
            **proofs.identity(self.kernel),
            "seconds": round(self.seconds, 3),
            "runs": [
                {
                    "problem": run.problem.to_json(),
                    "cases": list(run.cases),
                    "seed": run.seed,
                    "order": run.order.blocks,
                    "turns": run.order.seed,
                    "blocks": run.blocks,
                    "perturbed": run.perturbed,
                }
                for run in self.runs
            ],
        }

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
    depth: Depth = "quick",
    budget: float | None = None,
    asked: AskedLaunch | None = None,
) -> Verification:
    """Emulate one schedule of ``template`` on inputs drawn from ``seed``, until a run fails or the proof has taken more
    than ``budget`` seconds. ``time_limit`` is that of one launch; ``asked`` is one that the proof alone would not make.

    Raises ValueError if the schedule breaks a validity constraint, HostFailure where this machine cannot emulate.
    """
    template.config(problem, schedule, device)  # validates: what an invalid schedule cuts means nothing
    try:
        return _verified(template, problem, schedule, device, seed, time_limit, depth, budget, asked)
    except MemoryError as error:
        raise HostFailure("there is not enough memory to verify: free some, or raise the limit (ulimit -v)") from error


def _verified(
    template: KernelTemplate,
    problem: Problem,
    schedule: Schedule,
    device: Device,
    seed: int,
    time_limit: float,
    depth: Depth,
    budget: float | None,
    asked: AskedLaunch | None,
) -> Verification:
    small = emulated_problem(template, problem, schedule)
    jobs: Iterator[Callable[[], Run]] = _jobs(
        template, problem, small, schedule, device, seed, time_limit, depth, asked
    )
    started = time.monotonic()
    runs: list[Run] = []
    whole = True
    for job in jobs:
        if runs and budget is not None and time.monotonic() - started > budget:
            whole = False
            break
        runs.append(job())
        if runs[-1].status != "ok":
            break
    first, last = runs[0], runs[-1]
    shown = first if last.status == "ok" else last
    worst = None if shown.worst is None else max(run.worst or 0.0 for run in runs)
    error = None if shown.worst is None else first.max_abs_error
    kernel = template.kernel(problem, schedule, device)
    return Verification(
        small, schedule, last.status, last.reason, worst, error, shown.emulation, tuple(runs), kernel, depth, whole
    )


def _jobs(
    template: KernelTemplate,
    problem: Problem,
    small: Problem,
    schedule: Schedule,
    device: Device,
    seed: int,
    time_limit: float,
    depth: Depth,
    asked: AskedLaunch | None,
) -> Iterator[Callable[[], Run]]:
    """The runs of a proof, likeliest faults first; each is made when it is called."""
    kernel = template.kernel(small, schedule, device)
    jobs = _jobs_of(small, kernel, seed, time_limit, depth)
    yield next(jobs)
    if asked is not None:
        yield partial(_asked, small, kernel, asked, seed, time_limit)
    yield from jobs
    if depth == "quick":
        return
    if small != problem:
        large, whole = at_true_size(template, problem, schedule, device, seed)
        if can_sample(large, whole):
            yield partial(_sampled, large, whole, seed, time_limit)
    for _, job in provoking_jobs(template, small, schedule, device, seed=seed, time_limit=time_limit):
        yield job


def at_true_size(
    template: KernelTemplate, problem: Problem, schedule: Schedule, device: Device, seed: int
) -> tuple[Problem, Kernel]:
    """``problem``, with a shorter k where already the fewest blocks that are sampled would take too long: those of a
    persistent launch compute many tiles each."""
    whole = template.kernel(problem, schedule, device)
    flops = sampled_flops(problem, whole, seed)  # none of a transpose
    if flops > _LARGE_FLOPS:
        shorter = with_short_k(problem, schedule, _LARGE_FLOPS / flops)
        with suppress(ValueError):  # the schedule is none for that k
            return shorter, template.kernel(shorter, schedule, device)
    return problem, whole


def provoking_jobs(
    template: KernelTemplate,
    small: Problem,
    schedule: Schedule,
    device: Device,
    *,
    seed: int = 0,
    time_limit: float = TIME_LIMIT,
) -> Iterator[tuple[str, Callable[[], Run]]]:
    """A run, which is made when it is called, for each provoking size at which ``schedule`` is valid, and the name of
    that size."""
    for size in provoking_sizes(small, schedule):
        try:
            larger = template.kernel(size.problem, schedule, device)
        except ValueError:  # the schedule is none for that size
            continue
        if size.whole and size.problem.flops <= _WHOLE_FLOPS and size.problem.min_bytes <= _WHOLE_BYTES:
            inputs = next(iter(size.problem.provoking_inputs(seed)), None)
            if inputs is None:
                inputs = ProvokingInputs((RANDOM,), size.problem.random_inputs(seed))
            yield size.name, partial(_run, size.problem, larger, inputs, seed, Order("alternating"), time_limit)
        elif can_sample(size.problem, larger):
            yield size.name, partial(_sampled, size.problem, larger, seed, time_limit)


def _jobs_of(
    problem: Problem, kernel: Kernel, seed: int, time_limit: float, depth: Depth, execute: Execute = emulate
) -> Iterator[Callable[[], Run]]:
    """Runs of the whole of ``problem``."""
    random = ProvokingInputs((RANDOM,), problem.random_inputs(seed))
    yield partial(_run, problem, kernel, random, seed, ASCENDING, time_limit, execute)
    turns = Order("random", seed + 1)
    if depth == "quick":
        most = max(1, EMULATED_BYTES // problem.min_bytes)
        provoking = list(islice(problem.provoking_inputs(seed), most))
        for given in provoking:
            yield partial(_run, problem, kernel, given, seed, turns, time_limit, execute)
        again = int(min(AGAIN_BYTES / problem.min_bytes, AGAIN_FLOPS / max(1.0, problem.flops)))
        # a user's kernel, which has none of them, runs in a random order, too, unless it is very large
        least = int(not provoking and problem.min_bytes <= EMULATED_BYTES)
        for i, given in islice(_drawn_again(problem, seed), max(again, least)):
            yield partial(_run, problem, kernel, given, i, replace(turns, seed=i + 1), time_limit, execute)
        return
    for i, order in enumerate((turns, Order("descending", seed + 2), Order("alternating", seed + 3))):
        provoked = False
        for given in problem.provoking_inputs(seed + i):
            provoked = True
            yield partial(_run, problem, kernel, given, seed + i, order, time_limit, execute)
        if not provoked:  # a user's kernel: on what a quick proof draws again
            given = ProvokingInputs((RANDOM,), problem.random_inputs(seed + i + 1))
            yield partial(_run, problem, kernel, given, seed + i + 1, order, time_limit, execute)
    if execute is emulate:  # a tuner, and whoever calls the kernel, launches it again and again
        yield partial(_asked, problem, kernel, AskedLaunch(Order("random", seed + 4), 2), seed, time_limit)
    else:
        yield partial(_run, problem, kernel, random, seed, Order("random", seed + 4), time_limit, execute)
    fewer = _fewer_blocks(kernel)
    if fewer != kernel:
        yield partial(_shrunk, problem, fewer, random, seed, time_limit, execute)
    if execute is emulate:
        yield partial(_perturbed, problem, kernel, random, seed, time_limit)
        for given in problem.provoking_inputs(seed + 5):
            yield partial(_perturbed, problem, kernel, given, seed + 5, time_limit)


def _drawn_again(problem: Problem, seed: int) -> Iterator[tuple[int, ProvokingInputs]]:
    """Inputs of a quick proof from the seeds after ``seed``, each with its seed."""
    for i in range(seed + 1, seed + AGAIN):
        yield i, ProvokingInputs((RANDOM,), problem.random_inputs(i))
        for given in problem.provoking_inputs(i):
            yield i, given


def prove(
    problem: Problem,
    kernel: Kernel,
    *,
    seed: int = 0,
    time_limit: float = TIME_LIMIT,
    depth: Depth = "quick",
    execute: Execute = emulate,
) -> Iterator[Run]:
    """Emulate ``kernel`` on random inputs, then on sets of provoking ones; the first run that fails is the last.

    Quick, one set is emulated in any case, more while their operands stay under ``EMULATED_BYTES`` together, and for a
    small problem (``AGAIN_BYTES``) those of other seeds. Raises HostFailure where this machine cannot emulate.
    """
    for job in _jobs_of(problem, kernel, seed, time_limit, depth, execute):
        run = job()
        yield run
        if run.status != "ok":
            return


def _run(
    problem: Problem,
    kernel: Kernel,
    given: ProvokingInputs,
    seed: int,
    order: Order,
    time_limit: float,
    execute: Execute = emulate,
) -> Run:
    done = execute(kernel, given.inputs, time_limit=time_limit, order=order)
    if done.status not in ("ok", "findings"):
        return Run(problem, given.cases, seed, order, None, done.status, done.reason, None, None, done)
    reference, tolerance = problem.expected(given.inputs)
    outcome = check(problem, given.inputs, done.outputs, reference=reference, tolerance=tolerance)
    status = "wrong_result" if not outcome.ok else done.status
    plain = given.cases == (RANDOM,)
    provoked = "" if plain or status == "ok" else f"on inputs {', '.join(given.cases)}"
    turned = "" if order == ASCENDING or status == "ok" else f"blocks {order.name}"
    reason = "; ".join(text for text in (outcome.reason, done.reason, provoked, turned) if text)
    error = _max_abs_error(problem, reference, done.outputs) if plain else None
    done = replace(done, outputs={})
    return Run(problem, given.cases, seed, order, None, status, reason, outcome.worst, error, done)


def _asked(problem: Problem, kernel: Kernel, asked: AskedLaunch, seed: int, time_limit: float) -> Run:
    # What is computed in place is another problem the second time.
    calls = 1 if any(o.role == "inout" for o in kernel.operands) else asked.launches
    given = ProvokingInputs((RANDOM,), problem.random_inputs(seed))
    run = _run(problem, kernel, given, seed, asked.order, calls * time_limit, partial(emulate, calls=calls))
    times = f"; launched {calls} times" if run.reason and calls > 1 else ""
    return replace(run, reason=run.reason + times)


def _fewer_blocks(kernel: Kernel) -> Kernel:
    """``kernel`` as a GPU launches it on which two thirds of its clusters run at a time, where its grid may shrink."""
    clusters = kernel.grid[0] // kernel.cluster[0]
    return replace(kernel, grid=kernel.grid_of(max(1, 2 * clusters // 3)))


def _shrunk(
    problem: Problem, kernel: Kernel, given: ProvokingInputs, seed: int, time_limit: float, execute: Execute
) -> Run:
    run = _run(problem, kernel, given, seed, Order("random", seed + 6), time_limit, execute)
    return replace(run, reason=f"{run.reason}; with {kernel.grid[0]} blocks alone" if run.reason else "")


def _perturbed(problem: Problem, kernel: Kernel, given: ProvokingInputs, seed: int, time_limit: float) -> Run:
    execute = partial(emulate, perturb=True)
    run = _run(problem, kernel, given, seed, ASCENDING, time_limit, execute)
    reason = f"{run.reason}; with approximate functions at the edge of their error" if run.reason else ""
    return replace(run, reason=reason, perturbed=True)


def _sampled(problem: Problem, kernel: Kernel, seed: int, time_limit: float) -> Run:
    found = prove_blocks(problem, kernel, seed, limit=time_limit)
    reason = found.reason
    if found.status != "ok":
        reason += f"; {len(found.blocks)} blocks of {' '.join(str(problem.to_json()).split())}"
    return Run(
        problem, (GENERATED,), seed, ASCENDING, len(found.blocks), found.status, reason, found.worst, None,
        found.emulation,
    )  # fmt: skip


def verify(
    templates: TemplateSet,
    problem: Problem,
    schedules: Sequence[Schedule],
    device: Device,
    *,
    seed: int = 0,
    workers: int | None = None,
    time_limit: float = TIME_LIMIT,
    depth: Depth = "quick",
    asked: AskedLaunch | None = None,
) -> Iterator[Verification]:
    """``verify_one`` for each schedule, ``workers`` at a time (default: one per usable core), in their order."""
    with ThreadPoolExecutor(workers or usable_cores()) as pool:
        yield from pool.map(
            lambda s: verify_one(
                templates.of(s), problem, s, device, seed=seed, time_limit=time_limit, depth=depth, asked=asked
            ),
            schedules,
        )


def _max_abs_error(problem: Problem, reference: Mapping[str, FloatArray], outputs: Mapping[str, Array]) -> float:
    """The largest absolute error over all outputs; infinite where one is NaN, which is never right."""
    worst = 0.0
    for operand in problem.operands():
        if operand.role in ("output", "inout") and operand.name in reference:  # not of a problem that judges itself
            error = np.abs(operand.dtype.load(outputs[operand.name]) - reference[operand.name])
            worst = max(worst, float(np.where(np.isnan(error), np.inf, error).max()))
    return worst
