"""Estimates of users' kernels against recordings: ``python -m benchmarks.users_kernels --hub DIR``.

Of each case, configurations are drawn at random from those that all of its recordings have. Each is compiled
(registers, spills, static shared memory) and counted as ``tune`` does without a GPU, for one device; the counts hold
for all, and the time is estimated for each. ``--counts FILE`` keeps the counts, one line a configuration, and goes on
where it ended. ``--tune N`` also runs ``autosched.tune`` by estimates alone, with N trials, and looks its choice up in
the recording. ``--ptx`` estimates by PTX alone, too, beside it.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from autosched import Kernel, tune
from autosched.proofs.launch_counting import counted
from autosched.proofs.machine_counting import in_program
from benchmarks.users_kernels.kernels import CASES, Case, Recording, read_recording
from cost_models.launch_time import CompiledResources, launch_time
from measurements.compiler.cubin_cache import Compiled
from measurements.compiler.pool import CompilePool
from search_spaces.hardware.costs.launch_counts import LaunchCounts
from search_spaces.hardware.devices import device
from search_spaces.spaces.schedule import Schedule

LEAST = 8  # configurations that are ranked
Values = tuple[int, ...]


@dataclass(frozen=True)
class Counted:
    """A configuration: values by name, counts (None: not emulated), resources, CPU seconds of counting and, of these,
    of disassembling; ``of_ptx`` are counts by PTX alone."""

    case: str
    config: Mapping[str, int]
    counts: LaunchCounts | None
    resources: CompiledResources | None
    seconds: float
    of_ptx: LaunchCounts | None = None
    disassembly_seconds: float = 0.0


def collect(case: Case, hub: Path, number: int, known: Sequence[Counted], pool: CompilePool) -> Iterator[Counted]:
    """Yield ``number`` configurations of a case, without counting anew those that are known. A recording may have some
    that the kernel's rules refuse; they are left out."""
    kernel = case.kernel(hub)
    problem, parameters = kernel.problem(), kernel.file.parameters
    names, values = _drawn(case, hub, kernel)
    have = {tuple(c.config[p.name] for p in parameters): c for c in known}
    chip = device(next(iter(case.recordings)))
    space = kernel.template.space(problem, chip)
    of_rows = (dict(zip(names, row, strict=True)) for row in values)
    configs = ({p.name: of_row.get(p.name, p.default) for p in parameters} for of_row in of_rows)
    schedules = (Schedule(kernel.file.name, tuple(config.items())) for config in configs)
    for schedule in islice((s for s in schedules if s in space), number):
        config = schedule.values
        if (found := have.get(tuple(config[p.name] for p in parameters))) is not None:
            yield found
            continue
        began = time.monotonic()
        lowered = kernel.template.kernel(problem, schedule, chip)
        compiled = pool.compile(lowered, chip.arch)
        counting = cpu_seconds()
        launches = counted(kernel.template, problem, schedule, chip)
        counts = of_ptx = None if launches is None else launches[0].counts
        resources, disassembling = None, cpu_seconds()
        if isinstance(compiled, Compiled):
            r = compiled.resources
            spills = r.spill_store_bytes + r.spill_load_bytes
            resources = CompiledResources(r.registers, spills, r.static_shared_bytes)
            if launches is not None:
                (counts,) = in_program(launches, compiled)
        end = cpu_seconds()
        done = Counted(case.name, config, counts, resources, end - counting, of_ptx, end - disassembling)
        print(f"{case.name} {' '.join(map(str, config.values()))}: {time.monotonic() - began:.1f} s", flush=True)
        yield done


def cpu_seconds() -> float:
    """Return what this process and all that it started have taken, compilers that wait for more work among them."""
    tick, children, ticks = os.sysconf("SC_CLK_TCK"), dict[int, list[int]](), dict[int, int]()
    for folder in Path("/proc").iterdir():
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split() if folder.name.isdecimal() else []
        except OSError:  # it has ended
            continue
        if fields:
            children.setdefault(int(fields[1]), []).append(int(folder.name))
            ticks[int(folder.name)] = sum(map(int, fields[11:15]))
    total, waiting = 0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        total += ticks.get(pid, 0)
        waiting += children.get(pid, [])
    return total / tick


def tuned(case: Case, hub: Path, chip: str, trials: int) -> float | None:
    """Return the recorded time of what ``tune`` chooses by estimates, over the recorded best of the space that it
    searches: of its best trial that was recorded. None where none was."""
    kernel = case.kernel(hub)
    names, times = read_recording(hub / case.recordings[chip])
    optimum = min(seconds for values, seconds in times.items() if _fits(kernel, names, values))
    with tempfile.TemporaryDirectory() as folder:
        result = tune(
            kernel.problem(),
            trials=trials,
            database=Path(folder) / "best.db",
            device=chip,
            backend="estimate",
            workers=1,
            verify=False,
        )
    by_estimate = sorted((r for r in result.trials if r.seconds is not None), key=lambda r: r.seconds or 0.0)
    found = (_recorded_seconds(r.schedule.values, names, times) for r in by_estimate)
    first = next((seconds for seconds in found if seconds is not None), None)
    return None if first is None else first / optimum


def _drawn(case: Case, hub: Path, kernel: Kernel) -> tuple[tuple[str, ...], list[Values]]:
    recordings = [read_recording(hub / path) for path in case.recordings.values()]
    names, first = recordings[0]
    common = set(first).intersection(*(times for _, times in recordings))
    fitting = sorted(values for values in common if _fits(kernel, names, values))
    random.Random(0).shuffle(fitting)
    return names, fitting


def _fits(kernel: Kernel, names: Sequence[str], values: Values) -> bool:
    """Whether the kernel has parameters with these values; a recording may have more."""
    allowed = {p.name: set(p.values) for p in kernel.file.parameters}
    return all(x in allowed.get(n, {x}) for n, x in zip(names, values, strict=True))


def encoded(row: Counted) -> str:
    return json.dumps(dataclasses.asdict(row))


def decoded(line: str) -> Counted:
    data = json.loads(line)
    resources = None if data["resources"] is None else CompiledResources(**data["resources"])
    counts, of_ptx = _launch_counts(data["counts"]), _launch_counts(data["of_ptx"])
    return Counted(
        data["case"], data["config"], counts, resources, data["seconds"], of_ptx, data["disassembly_seconds"]
    )


def _launch_counts(data: dict[str, Any] | None) -> LaunchCounts | None:
    if data is None:
        return None
    return LaunchCounts(**{**data, "executed": tuple((name, times) for name, times in data["executed"])})


def page(
    rows: Mapping[str, Sequence[Counted]], hub: Path, choices: Mapping[tuple[str, str], float | None], trials: int
) -> str:
    """Return the page of results; ``choices`` are what ``tuned`` gave by kernel and GPU."""
    lines = [
        "| kernel | GPU | n | Spearman | best rule of one variable | estimate / recorded (quartiles, max) | chosen "
        f"| tune, {trials} trials |",
        "|---|---|---|---|---|---|---|---|",
    ]
    seconds = [row.seconds for some in rows.values() for row in some]
    emulating = [row.seconds - row.disassembly_seconds for some in rows.values() for row in some]
    ranks, medians, most, chosen = [], [], [], []
    for case in CASES:
        for chip, path in case.recordings.items() if len(rows.get(case.name, ())) >= LEAST else ():
            names, times = read_recording(hub / path)
            estimated, recorded, configs = _pairs(rows.get(case.name, ()), chip, names, times)
            if len(recorded) < LEAST:
                continue
            rank = float(spearmanr(estimated, recorded)[0])
            rule, rule_rank = _best_rule(configs, recorded)
            ratio = np.array(estimated) / np.array(recorded)
            choice = recorded[int(np.argmin(estimated))] / min(recorded)
            quantiles = [float(np.quantile(ratio, q)) for q in (0.25, 0.5, 0.75, 1.0)]
            shown = ", ".join(f"{q:.2f}" for q in quantiles)
            lines.append(
                f"| {case.name} | {chip} | {len(recorded)} | {rank:.2f} | {rule_rank:.2f} ({rule}) | {shown} "
                f"| x{choice:.2f} | {_times(choices.get((case.name, chip)))} |"
            )
            ranks.append(rank)
            medians.append(quantiles[1])
            most.append(quantiles[3])
            chosen.append(choice)
    if not ranks:
        return f"No kernel has {LEAST} configurations that can be compared: give more --configurations."
    lines.append("")
    lines.append(
        f"Median Spearman {np.median(ranks):.2f}, least {min(ranks):.2f}; median ratios {min(medians):.2f} to "
        f"{max(medians):.2f}, the largest ratio of all {max(most):.2f}; the configuration that is estimated best "
        f"takes x{np.median(chosen):.2f} of the recorded best of the sample in the median, x{max(chosen):.2f} at most. "
        f"Counting took {np.median(seconds):.2f} s of the CPU a configuration in the median, "
        f"{np.median(emulating):.2f} s without disassembling."
    )
    tuned_to = [choice for choice in choices.values() if choice is not None]
    if tuned_to:
        lines.append(
            f"``tune`` by estimates alone ends at x{np.median(tuned_to):.2f} of the recorded optimum in the median, "
            f"x{max(tuned_to):.2f} at most."
        )
    return "\n".join(lines)


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"x{ratio:.2f}"


def _pairs(
    rows: Sequence[Counted], chip: str, names: Sequence[str], times: Recording
) -> tuple[list[float], list[float], list[Mapping[str, int]]]:
    estimated, recorded, configs = [], [], []
    for row in rows:
        seconds = _recorded_seconds(row.config, names, times)
        if row.counts is None or row.resources is None or seconds is None:
            continue
        try:
            estimated.append(launch_time(row.counts, device(chip), row.resources).seconds)
        except ValueError:  # by today's compiler it does not fit
            continue
        recorded.append(seconds)
        configs.append(row.config)
    return estimated, recorded, configs


def _recorded_seconds(config: Mapping[str, Any], names: Sequence[str], times: Recording) -> float | None:
    """Return the time of a configuration; a recording may have parameters that the kernel file does not have."""
    exact = times.get(tuple(config.get(name, 0) for name in names))
    if exact is not None:
        return exact
    known = [i for i, name in enumerate(names) if name in config]
    wanted = tuple(config[names[i]] for i in known)
    return next((t for values, t in times.items() if tuple(values[i] for i in known) == wanted), None)


def _best_rule(configs: Sequence[Mapping[str, int]], recorded: Sequence[float]) -> tuple[str, float]:
    """Return the parameter, in either direction, that ranks best alone: what a user would guess with hindsight."""
    best = ("", 0.0)
    for name in configs[0]:
        values = [c[name] for c in configs]
        if len(set(values)) < 2:
            continue
        rank = float(spearmanr(values, recorded)[0])
        if abs(rank) > abs(best[1]):
            best = (f"{'small' if rank > 0 else 'large'} {name}", rank)
    return best[0], abs(best[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hub", type=Path, required=True, help="a clone of AutoTuningAssociation/benchmark_hub")
    parser.add_argument("--configurations", type=int, default=60)
    parser.add_argument("--case", action="append", choices=[case.name for case in CASES])
    parser.add_argument("--counts", type=Path, action="append", help="files of counts; the first is written")
    parser.add_argument("--ptx", action="store_true", help="estimate by PTX alone, too")
    parser.add_argument("--tune", type=int, default=0, metavar="N", help="also tune with N trials by estimates")
    given = parser.parse_args()
    rows: dict[str, list[Counted]] = {}
    for file in given.counts or ():
        for line in file.read_text().splitlines() if file.exists() else ():
            row = decoded(line)
            rows.setdefault(row.case, []).append(row)
    with CompilePool(workers=1) as pool:
        for case in CASES:
            if given.case and case.name not in given.case:
                continue
            known = rows.get(case.name, [])
            rows[case.name] = []
            for row in collect(case, given.hub, given.configurations, known, pool):
                rows[case.name].append(row)
                if given.counts and row not in known:
                    with given.counts[0].open("a") as out:
                        out.write(encoded(row) + "\n")
    cases = [case for case in CASES if not given.case or case.name in given.case]
    choices = {
        (case.name, chip): tuned(case, given.hub, chip, given.tune)
        for case in cases
        for chip in case.recordings
        if given.tune
    }
    print(page(rows, given.hub, choices, given.tune))
    if given.ptx:
        by_ptx = {name: [dataclasses.replace(row, counts=row.of_ptx) for row in some] for name, some in rows.items()}
        alike = sum(row.counts == row.of_ptx for some in rows.values() for row in some)
        print(f"\nBy PTX alone; {alike} configurations are by PTX above, too:\n")
        print(page(by_ptx, given.hub, {}, given.tune))


if __name__ == "__main__":
    main()
