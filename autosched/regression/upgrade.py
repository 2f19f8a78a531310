"""Check of a compiler upgrade: find entries whose kernels get worse with the compiler of another environment.

Each entry and its next fastest rivals are compiled by the NVRTC of both environments. The check compares spills,
occupancy, the number of instructions in the main loop, the estimated time, and the estimated rank among the rivals. If
the PTX differs, the other compiler's PTX is also verified in the emulator. Entries that get worse should be tuned again
with the new compiler.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from autosched.regression.compiled_code import CompiledCode, worse_code
from autosched.regression.entries import ENTRY_ERRORS, LIBRARY_WON, CheckedEntry
from autosched.regression.report import CheckFinding, EntryStatus
from autosched.regression.static import StaticOptions, compiled_today
from autosched.tuning.backends import AnalyticEstimator
from autosched.verify.schedules import verify_one
from autosched.verify.verdict import FAILURE_STATUSES
from measurements.compiler.cubin_cache import Compiled
from measurements.compiler.disassembly import DisassemblerMissing, LoopMix, NotDisassembled, disassemble, main_loop, mix
from measurements.compiler.other_compiler import OtherCompiler
from measurements.compiler.pool import CompilePool
from measurements.compiler.ptx import compiled_elsewhere
from measurements.emulator.ptx.build import ptx_digest
from measurements.runners.base import Candidate
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import is_library
from search_spaces.catalogue import template
from search_spaces.hardware.devices import occupancy
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.templates.template import TemplateSet


@dataclass(frozen=True)
class CompiledTrial:
    """A stored trial, compiled by one compiler. ``seconds`` is the time that the time model estimates, or None."""

    trial: Trial
    kernel: GeneratedKernel
    program: Compiled
    code: CompiledCode
    seconds: float | None


def check_upgrade(
    entries: Sequence[CheckedEntry], installed: CompilePool, other: OtherCompiler, options: StaticOptions
) -> Iterator[CheckFinding]:
    """Yield a finding for each entry, in the order of the entries.

    Args:
        entries: The entries.
        installed: Compile pool that uses this environment's NVRTC.
        other: The other environment.
        options: Options of the emulation.
    """
    with CompilePool(installed.cache, workers=installed.workers, other=other) as other_pool:
        for entry in entries:
            began = time.monotonic()
            try:
                finding = _finding(entry, installed, other_pool, other, options)
            except ENTRY_ERRORS as error:
                finding = entry.unchecked(error)
            yield replace(finding, check_seconds=time.monotonic() - began)


def _finding(
    entry: CheckedEntry, installed: CompilePool, other_pool: CompilePool, other: OtherCompiler, options: StaticOptions
) -> CheckFinding:
    if is_library(entry.trial.schedule):
        return entry.finding(EntryStatus.CANNOT_COMPARE, LIBRARY_WON)
    before = _compiled(entry, entry.trial, installed)
    if isinstance(before, str):
        return entry.finding(EntryStatus.CANNOT_COMPARE, f"compiled by {installed.toolchain}: {before}")
    after = _compiled(entry, entry.trial, other_pool)
    if isinstance(after, str):
        return entry.finding(
            EntryStatus.BROKEN, f"compiled by {other_pool.toolchain}: {after}: tune it again with that compiler"
        )
    worse = [
        *worse_code(before.code, after.code, options.growth),
        *_slower(entry, before, after),
        *_overtaken(entry, before, after, installed, other_pool),
    ]
    reasons = list(worse)
    numbers = {**_numbers(before, "here"), **_numbers(after, "there")}
    status = EntryStatus.SLOWER if reasons else EntryStatus.SAME
    if reasons:
        reasons.append(f"tune it again with {other_pool.toolchain}")
    if options.emulate:
        wrong = _verified(entry, before.kernel, other, options.seed)
        if wrong is not None:
            failed, why = wrong
            if failed or status is EntryStatus.SAME:
                status = EntryStatus.WRONG if failed else EntryStatus.UNCERTAIN
            reasons.insert(0, why)
    return entry.finding(status, *reasons, numbers=numbers)


def _compiled(entry: CheckedEntry, trial: Trial, pool: CompilePool) -> CompiledTrial | str:
    """Compile a trial in ``pool``. On failure, return the reason as one line."""
    program = compiled_today(entry, trial, pool)
    if isinstance(program, str):
        return program
    current_template = template(trial.schedule.template)
    kernel = current_template.kernel(entry.problem, trial.schedule, entry.device)
    used = program.resources
    shared = used.static_shared_bytes + used.dynamic_shared_bytes
    candidate = Candidate(entry.problem, trial.schedule, kernel)
    try:
        seconds = AnalyticEstimator(entry.device, TemplateSet([current_template]))(candidate, used, program)
    except ValueError:
        seconds = None
    blocks = occupancy(entry.device, kernel.threads, used.registers, shared)
    spilled = used.spill_store_bytes + used.spill_load_bytes
    code = CompiledCode(spilled, used.registers, blocks, _loop(program))
    return CompiledTrial(trial, kernel, program, code, seconds)


def _loop(program: Compiled) -> LoopMix | None:
    try:
        return mix(main_loop(disassemble(program.cubin, program.entry)))
    except (DisassemblerMissing, NotDisassembled, OSError):
        return None


def _slower(entry: CheckedEntry, before: CompiledTrial, after: CompiledTrial) -> Iterator[str]:
    """Yield a line if the time model expects the entry to be slower with the other compiler."""
    if before.seconds and after.seconds and after.seconds > before.seconds * (1 + entry.limits.max_slowdown):
        yield f"estimated time: {after.seconds / before.seconds - 1:+.1%} with the other compiler"


def _overtaken(
    entry: CheckedEntry, before: CompiledTrial, after: CompiledTrial, installed: CompilePool, other_pool: CompilePool
) -> Iterator[str]:
    """Yield a line about rivals that are estimated to be faster than the entry only with the other compiler."""
    if before.seconds is None or after.seconds is None:
        return
    ahead: list[Trial] = []
    margin = 1 + entry.limits.max_slowdown
    for rival in entry.rivals:
        if is_library(rival.schedule):
            continue
        then, now = _compiled(entry, rival, installed), _compiled(entry, rival, other_pool)
        if isinstance(then, str) or isinstance(now, str) or then.seconds is None or now.seconds is None:
            continue
        if before.seconds <= then.seconds and after.seconds > now.seconds * margin:
            ahead.append(rival)
    if ahead:
        named = ", ".join(f"trial {rival.id}" for rival in ahead)
        yield (
            f"estimated rank among {1 + len(entry.rivals)} trials: with the other compiler, the entry is slower than "
            f"{named}; with the installed compiler, it is not"
        )


def _verified(entry: CheckedEntry, kernel: GeneratedKernel, other: OtherCompiler, seed: int) -> tuple[bool, str] | None:
    """Verify the other compiler's PTX.

    Returns:
        None if the PTX is correct or unchanged. Otherwise a pair: True if the PTX is wrong or False if this is
        uncertain, and the reason.
    """
    digest = ptx_digest(kernel)
    with compiled_elsewhere(other):
        if ptx_digest(kernel) == digest:
            return None
        trial = entry.trial
        verdict = verify_one(template(trial.schedule.template), entry.problem, trial.schedule, entry.device, seed=seed)
    if verdict.ok:
        return None
    return verdict.status in FAILURE_STATUSES, f"emulated, by {other.toolchain}: {verdict.status}: {verdict.reason}"


def _numbers(compiled: CompiledTrial, where: str) -> dict[str, float | int | str]:
    used = compiled.program.resources
    numbers: dict[str, float | int | str] = {
        f"registers_{where}": used.registers,
        f"spill_bytes_{where}": compiled.code.spill_bytes,
        f"shared_bytes_{where}": used.static_shared_bytes + used.dynamic_shared_bytes,
        f"blocks_{where}": compiled.code.blocks,
        f"toolchain_{where}": compiled.program.toolchain,
    }
    if compiled.code.loop is not None:
        numbers[f"loop_instructions_{where}"] = compiled.code.loop.instructions
    if compiled.seconds is not None:
        numbers[f"estimated_seconds_{where}"] = compiled.seconds
    return numbers
