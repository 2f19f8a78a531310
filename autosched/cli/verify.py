"""``autosched verify``: run candidates in the emulator and compare every element with the float64 reference.

``--json``: ``device``, ``seed``, ``passed``, ``failed``, ``seconds`` (of the whole run), and ``candidates``, each with
``problem``, ``emulated_problem``, ``schedule``, ``ok``, ``status``, ``reason``, ``error_over_tolerance``,
``max_abs_error`` (both null where the kernel did not finish), ``findings``, ``shared_sites``, ``global_sites`` (as in
``measurements.emulator``) and ``seconds``. No time in it is a kernel's.
"""

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console

from autosched import report
from autosched.cli.devices import DEVICE_NOTE, DeviceOption, target
from autosched.cli.errors import NO, InputError, at_least
from autosched.cli.output import print_json, stderr_console, stdout_console
from autosched.cli.problem_options import maybe_problem, problem_from, whole_number
from autosched.cli.progress import Counter as Progress
from autosched.codegen import generate
from autosched.verify import Verification
from autosched.verify import verify as emulate_all
from measurements.emulator import SharedSite, cache_folder, host_compiler
from measurements.measurement import Status
from measurements.store import Store
from search_spaces.devices import Device
from search_spaces.family import AnyFamily
from search_spaces.problem import Problem
from search_spaces.schedule import Schedule

DEFAULT_SAMPLE = 20
_LEGEND = (
    "error: the largest over its tolerance; largest: the largest error itself",
    "conflicts: wavefronts of shared memory over the fewest possible",
    "sectors: of 32 bytes, per global-memory request of a warp",
)
_SHOWN_FAILURES = 5  # with their schedule, below the table; --json has all


def verify(
    family: AnyFamily,
    given: Mapping[str, Any],
    *,
    db: Annotated[
        str | None,
        typer.Option("--db", metavar="DB", help="Verify the schedules stored in this database, fastest first."),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            parser=whole_number,
            metavar="N",
            help=f"How many: drawn from the space (default {DEFAULT_SAMPLE}), or the N fastest of --db (default all).",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", parser=whole_number, metavar="S", help="Seed of the sample and of the inputs.")
    ] = 0,
    device: DeviceOption = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", parser=whole_number, metavar="W", help="Candidates at a time (default one per core)."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    if sample is not None:
        at_least("--sample", sample, 1)
    at_least("--seed", seed, 0)
    if workers is not None:
        at_least("--workers", workers, 1)
    where = target(device)
    if db is None:
        problem = problem_from(family, given)
        jobs = [(problem, family.space(problem, where).sample(sample or DEFAULT_SAMPLE, seed))]
        origin = f"sampled with seed {seed}"
    else:
        store = Store.open(db, create=False)
        jobs = _stored(store, family, maybe_problem(family, given), where, sample)
        origin = f"stored in {store.name}"
    host_compiler()
    cache_folder()  # both raise before anything is printed, if nothing can be emulated here
    started = time.monotonic()
    console = stdout_console()
    done: list[tuple[Problem, list[Verification]]] = []
    for problem, schedules in jobs:
        if not json:
            console.print(f"{report.one_line(problem)} on {where.name}")
            console.print(f"{report.plural(len(schedules), 'schedule')} {origin}")
        done.append((problem, _emulate(problem, schedules, where, seed, workers)))
        if not json:
            _show(console, problem, done[-1][1])
    results = [v for _, verifications in done for v in verifications]
    failed, seconds = sum(not v.ok for v in results), time.monotonic() - started
    if not results:
        print(f"autosched: {db} holds no such schedule for {where.name}: tune first, or sample", file=sys.stderr)
    if json:
        print_json(
            {
                "device": where.name,
                "seed": seed,
                "passed": len(results) - failed,
                "failed": failed,
                "seconds": seconds,
                "candidates": [_to_json(problem, v) for problem, verifications in done for v in verifications],
            }
        )
    elif results:
        verdict = f"{failed} of {len(results)} FAIL" if failed else f"all {len(results)} pass"
        console.print(f"{verdict}, in {report.duration(seconds)}")
    return NO if failed or not results else 0


verify.__doc__ = f"""Check candidates without a GPU: numbers, races, bounds, bank conflicts.

Each is run by the emulator on the CPU and compared with a float64 reference, every element within the problem's error
bound. A problem too large to emulate is cut to a few tiles with the same remainders. {DEVICE_NOTE}
Exit status 1 if one fails.
"""


def _stored(
    store: Store, family: AnyFamily, problem: Problem | None, device: Device, most: int | None
) -> list[tuple[Problem, list[Schedule]]]:
    """The stored schedules that worked, per problem, each once, fastest first within each provenance."""
    if problem is not None:
        problems = [problem]
    else:
        here = [store.problem(s) for s in store.problems(family.name) if s.device == device.name]
        problems = list(dict.fromkeys(here))
    jobs = []
    for one in problems:
        records = store.trials(one, device.name, status=Status.OK)
        ranked = sorted(records, key=lambda r: (list(report.PROVENANCE_NOTE).index(r.provenance), r.seconds or 0.0))
        fastest = list({r.schedule.key(): r for r in reversed(ranked)}.values())[::-1][:most]
        for record in fastest:
            try:
                generate(one, record.schedule, device)
            except ValueError as error:
                raise InputError(
                    f"trial {record.id} of {store.name} has a schedule that this version cannot use ({error}): tune "
                    "the problem again in a new database"
                ) from error
        if fastest:
            jobs.append((one, [record.schedule for record in fastest]))
    return jobs


def _emulate(
    problem: Problem, schedules: Sequence[Schedule], device: Device, seed: int, workers: int | None
) -> list[Verification]:
    results = []
    with Progress(stderr_console(), "emulated", len(schedules)) as progress:
        for result in emulate_all(problem, schedules, device, seed=seed, workers=workers):
            results.append(result)
            failed = sum(not r.ok for r in results)
            progress.advance(f"{failed} failed" if failed else "")
    return results


def _show(console: Console, problem: Problem, results: Sequence[Verification]) -> None:
    numbers = ("error", "largest", "conflicts", "sectors", "time")
    faults = [report.reasons(Counter(str(f.kind) for f in v.findings)) or ("" if v.ok else v.status) for v in results]
    shown = ("findings",) if any(faults) else ()
    made = report.table("#", "result", *numbers, *shown, right=("#", *numbers), fold=shown)
    for i, (v, fault) in enumerate(zip(results, faults, strict=True), 1):
        made.add_row(
            str(i),
            "pass" if v.ok else "FAIL",
            "-" if v.worst is None else f"{v.worst:.3f}",
            "-" if v.max_abs_error is None else f"{v.max_abs_error:.1e}",
            _degree(v.shared_sites),
            _sectors(v),
            f"{v.seconds:.1f} s",
            *((fault,) if shown else ()),
        )
    console.print()
    console.print(made)
    for line in _LEGEND:
        console.print(line, style="dim")
    if any(v.problem != problem for v in results):
        console.print("too large to emulate whole: each was cut to a few of its tiles, remainders kept", style="dim")
    failures = [(i, v) for i, v in enumerate(results, 1) if not v.ok]
    for i, v in failures[:_SHOWN_FAILURES]:
        console.print()
        console.print(f"{i} fails: {v.reason}")
        console.print(report.decisions(v.schedule, console.width))
    if len(failures) > _SHOWN_FAILURES:
        console.print(f"and {len(failures) - _SHOWN_FAILURES} more, see --json")
    console.print()


def _degree(sites: Sequence[SharedSite]) -> str:
    ideal = sum(s.ideal for s in sites)
    return f"{sum(s.wavefronts for s in sites) / ideal:.2f}" if ideal else "-"


def _sectors(v: Verification) -> str:
    requests = sum(s.requests for s in v.global_sites)
    return f"{sum(s.sectors for s in v.global_sites) / requests:.1f}" if requests else "-"


def _to_json(problem: Problem, v: Verification) -> dict[str, Any]:
    return {
        "problem": problem.to_json(),
        "emulated_problem": v.problem.to_json(),
        "schedule": v.schedule.to_json(),
        "ok": v.ok,
        "status": v.status,
        "reason": v.reason,
        "error_over_tolerance": v.worst,
        "max_abs_error": v.max_abs_error,
        "findings": [asdict(f) for f in v.findings],
        "shared_sites": [{**asdict(s), "conflict_degree": s.conflict_degree} for s in v.shared_sites],
        "global_sites": [{**asdict(s), "sectors_per_request": s.sectors_per_request} for s in v.global_sites],
        "seconds": v.seconds,
    }
