"""Verify some blocks of a user's kernel whose launch is too large to be emulated whole.

They run at the true size, on the problem's own inputs, and are compared with the reference of what they wrote.

Sizes that a source fixes need no smaller problem for that. It takes a reference that is a function, and blocks that
work alone: where atomics add up what many blocks do, or a block waits for another, the launch is emulated whole.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from autosched import blas
from autosched.user_kernels.problem import KernelProblem
from autosched.verify.block_choice import chosen_blocks
from autosched.verify.orders import all_orders, quick_orders
from autosched.verify.run import Run
from autosched.verify.runs import RANDOM, VerifySettings
from measurements.emulator import Emulation, FindingKind, Order, emulate_blocks
from measurements.emulator.inputs_file import InputsFile
from measurements.emulator.sparse import SparseEmulation, Written
from measurements.trials.comparison import compare
from search_spaces.arrays import FloatArray
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.problem import Problem

WHOLE_SECONDS = 10.0  # of the CPU, that emulating a launch whole may take
MOST_BYTES = 2**31  # of the inputs, which lie in one file
_SMALL_BYTES, _SMALL_THREADS = 2**22, 2**17  # launches that nobody needs to try before
_PROBED = 8  # blocks by whose time that of all is guessed
_SECONDS = {"quick": 4.0, "full": 20.0}  # of the blocks of one run
_MOST, _FEWEST = 48, 4  # blocks of one run
_SEARCH_SECONDS = {"quick": 10.0, "full": 60.0}  # of the CPU, to look for a block that writes more than those of a run
_SEARCH_ELEMENTS, _SEARCH_BLOCKS = 2**24, 2**22  # that a launch of it writes, about, and of which there is time for all
_WITH_OTHERS = ("atom", "red")  # instructions by which blocks work together
_ENDS = (FindingKind.DEADLOCK, FindingKind.BARRIER_NOT_REACHED)


def runs_of_blocks(problem: Problem, kernel: GeneratedKernel, settings: VerifySettings) -> list[Run]:
    """Return the runs in place of those of the whole launch, until one fails; none where that can be emulated whole, or
    some blocks cannot stand for it. Raises HostFailure, and as the problem's inputs and its reference do."""
    threads = math.prod(kernel.grid) * math.prod(kernel.block)
    if not isinstance(problem, KernelProblem) or not problem.computed_by_function or not settings.emulates:
        return []
    if kernel.then:  # a launch needs all that those before it wrote
        return []
    if problem.min_bytes > MOST_BYTES or (problem.min_bytes <= _SMALL_BYTES and threads <= _SMALL_THREADS):
        return []
    seconds = _seconds_of_block(problem, kernel, settings)
    if seconds is None or seconds * math.prod(kernel.grid) <= WHOLE_SECONDS:
        return []
    most = int(min(_MOST, max(_FEWEST, _SECONDS[settings.depth] / max(seconds, 1e-6))))
    orders = all_orders(settings.seed) if settings.depth == "full" else quick_orders(settings.seed)
    runs: list[Run] = []
    for i, order in enumerate(orders):
        # Other blocks in every order, those at the edges always.
        blocks = chosen_blocks(kernel.grid, most, settings.seed + i)
        done = emulate_blocks(
            kernel, blocks, inputs=_inputs(problem, settings.seed), order=order, time_limit=settings.time_limit
        )
        run = _judged(problem, kernel, blocks, order, done, settings)
        if run is None:
            return []
        runs.append(run)
        if run.status != "ok":
            break
    return runs


def _inputs(problem: KernelProblem, seed: int) -> InputsFile:
    with _ONE_AT_A_TIME:
        return _made_inputs(problem, seed)


def _expected(problem: KernelProblem, seed: int) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """Return reference and tolerance."""
    with _ONE_AT_A_TIME:
        return _made_reference(problem, seed)


# Candidate after candidate has the same ones, and several are verified at a time.
_ONE_AT_A_TIME = threading.Lock()


@lru_cache(maxsize=1)
def _made_inputs(problem: KernelProblem, seed: int) -> InputsFile:
    return InputsFile(problem.random_inputs(seed))


@lru_cache(maxsize=1)
def _made_reference(problem: KernelProblem, seed: int) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    with blas.single_thread():
        return problem.expected(problem.random_inputs(seed))


def _seconds_of_block(problem: KernelProblem, kernel: GeneratedKernel, settings: VerifySettings) -> float | None:
    """About how long one block takes; None where some blocks cannot be emulated."""
    grid = math.prod(kernel.grid)
    first = (grid - 1) // 2 // _PROBED * _PROBED
    inputs = _inputs(problem, settings.seed)
    one = emulate_blocks(kernel, (first,), inputs=inputs, check=False, time_limit=settings.time_limit).emulation
    if one.status not in ("ok", "findings"):
        return None
    if one.run_seconds > 1.0:
        return one.run_seconds
    blocks = tuple(range(first, min(first + 1 + _PROBED, grid)))
    more = emulate_blocks(kernel, blocks, inputs=inputs, check=False, time_limit=settings.time_limit).emulation
    if more.status not in ("ok", "findings") or len(blocks) < 2:
        return None
    return max(0.0, more.run_seconds - one.run_seconds) / (len(blocks) - 1)  # without what each launch takes


def _judged(
    problem: KernelProblem,
    kernel: GeneratedKernel,
    blocks: tuple[int, ...],
    order: Order,
    done: SparseEmulation,
    settings: VerifySettings,
) -> Run | None:
    """Return the run, with what the reference says; None where these blocks alone say nothing."""
    emulation = done.emulation
    if _waits_or_adds(emulation):
        return None
    if emulation.status not in ("ok", "findings"):
        return Run(
            problem, (RANDOM,), settings.seed, order, len(blocks), emulation.status, emulation.reason, None, None,
            emulation,
        )  # fmt: skip
    reference, tolerance = _expected(problem, settings.seed)
    writers = {block for written in done.written.values() for block in np.unique(written.blocks).tolist()}
    if not writers.issuperset(blocks):  # nobody knows whether there was anything to do for one that wrote nothing
        return None
    missing = _missing_of_all(problem, kernel, done.written, blocks, settings)
    if missing is None:
        return None
    worst, error, wrong = 0.0, 0.0, missing
    for output in (o for o in kernel.operands if o.role in ("output", "inout")):
        written = done.written[output.name]
        if not written.places.size:
            continue
        wanted = np.broadcast_to(reference[output.name], output.shape).reshape(-1)[written.places]
        allowed = np.broadcast_to(tolerance[output.name], output.shape).reshape(-1)[written.places]
        found = compare(output.name, output.dtype, written.values, wanted, allowed)
        apart = np.abs(output.dtype.load(written.values) - wanted)
        worst, error = max(worst, found.worst), max(error, float(np.where(np.isnan(apart), np.inf, apart).max()))
        if not found.ok and not wrong:
            at = [int(i) for i in np.unravel_index(int(written.places[0]), output.shape)]
            wrong = f"of the elements that the blocks wrote, from {output.name}{at} on: {found.reason}"
    status = "wrong_result" if wrong else emulation.status
    where = "" if status == "ok" else f"{len(blocks)} of {math.prod(kernel.grid)} blocks"
    reason = "; ".join(text for text in (wrong, emulation.reason, where) if text)
    return Run(
        problem, (RANDOM,), settings.seed, order, len(blocks), status, reason, worst, error,
        replace(emulation, outputs={}),
    )  # fmt: skip


def _most_written(kernel: GeneratedKernel, written: Mapping[str, Written]) -> dict[str, int]:
    """Count, of each output that must be written, the elements of the block that wrote most."""
    outputs = [o.name for o in kernel.operands if o.role == "output"]
    counts = {name: np.unique(written[name].blocks, return_counts=True)[1] for name in outputs}
    return {name: int(of_blocks.max(initial=0)) for name, of_blocks in counts.items()}


def _missing(kernel: GeneratedKernel, most: Mapping[str, int]) -> str:
    """Why the grid cannot write all of an output, if none of its blocks writes more than ``most``; "" where it can."""
    grid = math.prod(kernel.grid)
    for output in (o for o in kernel.operands if o.name in most):
        if most[output.name] * grid < output.size:
            return (
                f"no block writes more than {most[output.name]} elements of {output.name}, so that the {grid} blocks "
                f"cannot write all of its {output.size}"
            )
    return ""


def _missing_of_all(
    problem: KernelProblem,
    kernel: GeneratedKernel,
    written: Mapping[str, Written],
    blocks: Sequence[int],
    settings: VerifySettings,
) -> str | None:
    """Return ``_missing`` of all blocks, of which ``blocks`` have ``written``; None where there is no time for it.

    Blocks may have unequal shares, and those that write most be few: others are run until one writes enough, or none is
    left.
    """
    most, grid = _most_written(kernel, written), math.prod(kernel.grid)
    if not _missing(kernel, most):
        return ""
    if grid > _SEARCH_BLOCKS:
        return None
    others = np.setdiff1d(np.arange(grid), blocks)
    others = np.random.default_rng((settings.seed, 4)).permutation(others)
    count, left = _MOST, _SEARCH_SECONDS[settings.depth]
    while _missing(kernel, most) and others.size:
        some, others = others[:count].tolist(), others[count:]
        done = emulate_blocks(kernel, some, inputs=_inputs(problem, settings.seed), time_limit=left)
        left -= done.emulation.run_seconds
        if done.emulation.status not in ("ok", "findings") or left < 0:
            return None
        found = _most_written(kernel, done.written)
        most = {name: max(n, found[name]) for name, n in most.items()}
        count = min(2 * count, max(_MOST, _SEARCH_ELEMENTS // max(1, *found.values())))
    return _missing(kernel, most)


def _waits_or_adds(emulation: Emulation) -> bool:
    """Whether the blocks need others: they wait for what nobody writes, or add to what others add to."""
    ended = any(finding.kind in _ENDS for finding in emulation.findings)
    return ended or any(site.instruction.startswith(_WITH_OTHERS) for site in emulation.global_sites)
