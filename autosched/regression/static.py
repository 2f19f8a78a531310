"""Static check, which needs no GPU. Nothing is timed, so it is deterministic, and CI can run it for every change.

The check requires that an entry's schedule is valid, compiles for its device, needs no more resources than recorded,
and computes correct results in the emulator. It also requires that the current kernel was verified, and that the cost
model predicts the same rank as at tuning.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from autosched.regression.entries import ENTRY_ERRORS, LIBRARY_WON, CheckedEntry
from autosched.regression.report import CheckFinding, EntryStatus
from autosched.reporting import formatting
from autosched.tuning.backends import AnalyticEstimator
from autosched.tuning.backends.estimators import code_of
from autosched.tuning.order_rules import family_key
from autosched.verify import stored
from autosched.verify.in_threads import in_threads
from autosched.verify.schedules import verify_one
from autosched.version import VERSION
from measurements.compiler.cores import usable_cores
from measurements.compiler.cubin_cache import Compiled
from measurements.compiler.pool import CompileFailure, CompilePool, why_not_launched
from measurements.runners.base import Candidate
from measurements.trials.measurement import MachineCode, Provenance, Resources
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import is_library
from search_spaces.catalogue import template
from search_spaces.spaces.sum_order import SumOrder
from search_spaces.sum_orders.orders import sum_order
from search_spaces.templates.template import TemplateSet

NO_ORDER = SumOrder(())


@dataclass(frozen=True)
class StaticOptions:
    """Options of a static check.

    ``growth`` is the fraction by which registers, shared memory and machine code may grow; a new spill always counts as
    worse. If ``emulate`` is True, each entry is verified in the emulator, on inputs with the random seed ``seed``.
    """

    growth: float = 0.0
    emulate: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.growth < 10:
            raise ValueError(f"growth must be a fraction, such as 0.1 for 10%, got {self.growth}")


def check_static(entries: Sequence[CheckedEntry], pool: CompilePool, options: StaticOptions) -> Iterator[CheckFinding]:
    """Yield a finding for each entry, in the order of the entries. Several entries are checked in parallel."""
    orders = _orders_of_families(entries)

    def checked(entry: CheckedEntry) -> CheckFinding:
        finding = check_entry(entry, pool, options)
        orders_of_family = orders.get(_family(entry), {})
        if len(orders_of_family) < 2 or finding.verdict.fails:
            return finding
        reason = f"batch-invariant entries of the same problem have {len(orders_of_family)} different orders of sums: "
        reason += "; ".join(orders_of_family.values())
        return replace(finding, verdict=EntryStatus.WRONG, reasons=(reason, *finding.reasons))

    return in_threads(checked, entries, usable_cores())


def _family(entry: CheckedEntry) -> tuple[str, str]:
    """Return the device and the key of a problem's family, which contains the problem at all batch sizes.

    The key is "" if the problem has no batch size, or if the trial is not verified to be batch-invariant.
    """
    invariant = stored.is_batch_invariant(entry.trial.verification) and entry.problem.batch_sizes
    return entry.device.name, family_key(entry.problem) if invariant else ""


def _orders_of_families(entries: Sequence[CheckedEntry]) -> dict[tuple[str, str], dict[SumOrder, str]]:
    """Return each family's summation orders in batch-invariant entries, with an example trial for each order."""
    orders: dict[tuple[str, str], dict[SumOrder, str]] = {}
    for entry in entries:
        order = stored.order(entry.trial.verification)
        if order is not None and _family(entry)[1]:
            orders.setdefault(_family(entry), {}).setdefault(order, f"trial {entry.trial.id} has the order {order}")
    return orders


def check_entry(entry: CheckedEntry, pool: CompilePool, options: StaticOptions) -> CheckFinding:
    """Return the finding on one entry. The finding is uncertain if the entry cannot be checked."""
    began = time.monotonic()
    try:
        finding = _finding_of(entry, pool, options)
    except ENTRY_ERRORS as error:
        finding = entry.unchecked(error)
    return replace(finding, check_seconds=time.monotonic() - began)


def _finding_of(entry: CheckedEntry, pool: CompilePool, options: StaticOptions) -> CheckFinding:
    if is_library(entry.trial.schedule):
        return entry.finding(EntryStatus.CANNOT_COMPARE, LIBRARY_WON)
    program = compiled_today(entry, entry.trial, pool)
    if isinstance(program, str):
        return entry.finding(EntryStatus.BROKEN, program)
    recorded, code = entry.trial.measurement.resources, entry.trial.measurement.code
    numbers = _numbers(program)
    reasons: list[str] = []
    verdict = EntryStatus.SAME
    if recorded is None:
        verdict, reasons = (
            EntryStatus.CANNOT_COMPARE,
            ["the trial has no digest of the kernel: tune the problem again"],
        )
    else:
        worse = _worse(program, recorded, code, options.growth)
        reasons += [*worse, *_reordered(entry, program, recorded, pool)]
        verdict = EntryStatus.SLOWER if reasons else EntryStatus.SAME
        if not reasons and _better(program, recorded):
            verdict = EntryStatus.FASTER
            reasons.append("the kernel needs fewer resources than recorded, and no resource has grown")
    required = stored.order(entry.trial.verification)
    order = sum_order(template(entry.trial.schedule.template), entry.problem, entry.trial.schedule, entry.device)
    if required is not None and order != required:
        differences = "; ".join(required.differences(order or NO_ORDER))
        reasons.append(f"the kernel's order of sums differs from the required order: {differences}")
        return entry.finding(EntryStatus.WRONG, *reasons, numbers=numbers)
    kernel = template(entry.trial.schedule.template).kernel(entry.problem, entry.trial.schedule, entry.device)
    doubt = stored.stale_reason(entry.trial.verification, kernel)
    numbers["verification"] = doubt or "holds"
    missing = stored.lacks(entry.trial.verification)
    if missing:
        numbers["verification_lacks"] = "; ".join(missing)
        reasons.append(f"the stored full verification is incomplete: {numbers['verification_lacks']}")
    # Entries with measured times were also verified on the GPU. For entries with estimated times, the verification in
    # the emulator is the only one.
    if doubt and (entry.trial.verification is not None or entry.trial.provenance is Provenance.ESTIMATED):
        if not options.emulate and not verdict.fails:
            verdict = EntryStatus.UNCERTAIN
        repeated = "and this check verified it again" if options.emulate else "and this check does not emulate it"
        reasons.append(f"{doubt}, {repeated}: renew it with autosched verify --db")
    if options.emulate:
        outcome = verify_one(
            template(entry.trial.schedule.template),
            entry.problem,
            entry.trial.schedule,
            entry.device,
            seed=options.seed,
            batch_invariant=stored.is_batch_invariant(entry.trial.verification),
        )
        if outcome.batch_invariant:
            numbers["batch_invariant"] = "holds"
        if outcome.worst is not None:
            numbers["error_over_tolerance"] = outcome.worst
        emulated = EntryStatus.of_verdict(outcome.status)
        if emulated.fails:
            return entry.finding(emulated, f"emulated: {outcome.reason}", *reasons, numbers=numbers)
        if not outcome.ok and not verdict.fails:
            return entry.finding(emulated, f"emulated: {outcome.status}: {outcome.reason}", *reasons, numbers=numbers)
    return entry.finding(verdict, *reasons, numbers=numbers)


def compiled_today(entry: CheckedEntry, trial: Trial, pool: CompilePool) -> Compiled | str:
    """Generate and compile a trial's kernel with the current code. Returns one line with the reason on failure."""
    try:
        kernel = template(trial.schedule.template).kernel(entry.problem, trial.schedule, entry.device)
    except ValueError as error:
        return f"the trial's schedule is no longer valid: {error}"
    program = pool.compile(kernel, entry.device.arch)
    if isinstance(program, CompileFailure):
        return f"the kernel no longer compiles for {entry.device.name} ({program.status}): {program.reason}"
    reason = why_not_launched(kernel, program, entry.device)
    return program if reason is None else f"the kernel no longer fits on the device: {reason}"


def _spills(resources: Resources) -> int:
    return resources.spill_store_bytes + resources.spill_load_bytes


def _shared(resources: Resources) -> int:
    return resources.static_shared_bytes + resources.dynamic_shared_bytes


def _worse(program: Compiled, then: Resources, code: MachineCode | None, growth: float) -> list[str]:
    """Return one line for each resource of which the current module needs more than recorded."""
    now, reasons = program.resources, []
    pairs = [
        ("registers", then.registers, now.registers, growth),
        ("bytes of spills", _spills(then), _spills(now), 0.0),
        ("bytes of stack", then.stack_bytes, now.stack_bytes, 0.0),
        ("bytes of shared memory", _shared(then), _shared(now), growth),
    ]
    if code is not None and program.code is not None:
        pairs.append(("bytes of machine code", code.sass_bytes, program.code.sass_bytes, growth))
    for name, before, after, allowed in pairs:
        if after > before * (1 + allowed):
            reasons.append(f"{name}: {before} were recorded, now {after}")
    return reasons


def _better(program: Compiled, then: Resources) -> bool:
    now = program.resources
    return (now.registers, _spills(now), _shared(now)) != (then.registers, _spills(then), _shared(then)) and all(
        after <= before
        for before, after in (
            (then.registers, now.registers),
            (_spills(then), _spills(now)),
            (_shared(then), _shared(now)),
        )
    )


def _reordered(entry: CheckedEntry, program: Compiled, recorded: Resources, pool: CompilePool) -> list[str]:
    """Report whether the entry's estimated time has grown, and which rivals are now predicted to be faster.

    The result has one line for each such change. If the recorded time is an estimate, it is used as the time at tuning.
    Otherwise the model predicts the time at tuning from the recorded resources. If one of the estimates is based on
    instruction counts of another version of the emulator, all times are predicted from resources. Differences within
    the entry's limit do not count as a change of rank.
    """
    names = {trial.schedule.template for trial in (entry.trial, *entry.rivals)}
    try:
        model = AnalyticEstimator(entry.device, TemplateSet([template(name) for name in sorted(names)]))
    except ValueError:
        return []

    estimates = [r for r in (entry.trial, *entry.rivals) if r.provenance is Provenance.ESTIMATED]
    one_code = {code_of(r.runner_info.model) for r in estimates} <= {code_of(model.name)}

    def predicted(trial: Trial, resources: Resources, program: Compiled | None = None) -> float | None:
        kernel = template(trial.schedule.template).kernel(entry.problem, trial.schedule, entry.device)
        return model(Candidate(entry.problem, trial.schedule, kernel), resources, program)

    def then(trial: Trial, resources: Resources) -> float | None:
        estimated = one_code and trial.provenance is Provenance.ESTIMATED
        return trial.seconds if estimated else predicted(trial, resources)

    def now(trial: Trial, program: Compiled) -> float | None:
        """Return the current prediction. It uses the machine code only if the result of ``then`` used machine code."""
        estimated = one_code and trial.provenance is Provenance.ESTIMATED
        return predicted(trial, program.resources, program if estimated else None)

    own_then, own_now = then(entry.trial, recorded), now(entry.trial, program)
    if own_then is None or own_now is None:
        return []
    faster, margin = [], 1 + entry.limits.max_slowdown
    same_model = (
        entry.trial.provenance is Provenance.ESTIMATED
        and entry.trial.autosched_version == VERSION
        and entry.trial.runner_info.model == model.name
    )
    if same_model and own_now > own_then * margin:
        faster.append(f"estimated time: {formatting.time(own_then)} was recorded, now {formatting.time(own_now)}")
    for rival in entry.rivals:
        resources = rival.measurement.resources
        compiled = None if resources is None else compiled_today(entry, rival, pool)
        if resources is None or not isinstance(compiled, Compiled):
            continue
        before, after = then(rival, resources), now(rival, compiled)
        if before is None or after is None:
            continue
        if own_then <= before and own_now > after * margin:
            faster.append(f"the predicted ranking changed: trial {rival.id} is now faster by {own_now / after - 1:.1%}")
    return faster


def _numbers(program: Compiled) -> dict[str, float | int | str]:
    numbers: dict[str, float | int | str] = {
        "registers": program.resources.registers,
        "spill_bytes": _spills(program.resources),
        "shared_bytes": _shared(program.resources),
    }
    if program.code is not None:
        numbers["sass_bytes"] = program.code.sass_bytes
        numbers["sass_digest"] = program.code.sass_digest
    return numbers
