"""Compare the time model with autosched's GPU measurements: ``python -m benchmarks.cost_model.model_on_gpu [FILE...]``.

FILE has recordings (``measurements.trials.recording``). Default: the installed recordings. The table has a row for each
problem, with these columns:

- the number of timed schedules
- the rank correlation of predicted and measured times
- the median ratio of measured to predicted time
- how much slower the model's first choice is than the fastest schedule
- how much slower the best of the model's first eight choices is than the fastest schedule

The last row has the means over all problems. Schedules with equal predictions are ordered slowest first. The time of a
schedule is the median of its measurements. The model uses the compiler's registers and spills if known. ``--program``
selects a tile program (FILE or FILE:NAME).
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autosched.programs.loading import register_at
from cost_models.analytic import analyse
from cost_models.trees.evaluation import rank_correlation, regret
from measurements.trials.measurement import Resources
from measurements.trials.recording import RECORDED, SUFFIX, RecordingError, read
from measurements.trials.trial import Trial
from search_spaces.arrays import FloatArray
from search_spaces.catalogue import template
from search_spaces.hardware.devices import UnknownDevice, device
from search_spaces.operators.problem import Problem
from search_spaces.programs.language.ir import ProgramError
from search_spaces.spaces.schedule import Schedule

LEAST_SCHEDULES = 3  # minimum number of a problem's schedules for a rank correlation
# Number of schedules with the shortest predicted times. The fastest of these is compared with the fastest of all.
FIRST = 8
Key = tuple[str, str]  # the key of a problem, and the device


@dataclass(frozen=True)
class Measured:
    """Schedules of one problem on one device, with median measured seconds and predicted seconds."""

    problem: Problem
    device: str
    schedules: tuple[Schedule, ...]
    seconds: FloatArray
    predicted: FloatArray

    @property
    def figures(self) -> tuple[float, float, float, float]:
        """Rank correlation, median of measured / predicted, and losses of the first choice and of the best of FIRST."""
        return (
            rank_correlation(self.predicted, self.seconds),
            float(np.median(self.seconds / self.predicted)),
            regret(self.predicted, self.seconds),
            regret(self.predicted, self.seconds, FIRST),
        )

    @property
    def row(self) -> str:
        """The problem's row of the table."""
        return f"| {described(self.problem)} | {self.device} | {len(self.schedules)} | {_cells(*self.figures)} |"


def _cells(correlation: float, ratio: float, loss: float, loss_of_first: float) -> str:
    return f"{correlation:.2f} | {ratio:.2f} | {loss:.1%} | {loss_of_first:.1%}"


def described(problem: Problem) -> str:
    """Return the operator and the fields that differ from their defaults."""
    fields = problem.to_json()
    sizes = [f"{name} {value}" for name, value in fields.items() if isinstance(value, int) and value > 1]
    kinds = [str(fields[name]) for name in ("a", "x", "dtype") if name in fields]
    orders = [f"{name}_{fields['order_' + name]}" for name in "ab" if fields.get(f"order_{name}", "row") != "row"]
    return ", ".join([str(fields["operator"]), *sizes, *kinds, *orders])


def measured(trials: Iterable[Trial]) -> tuple[dict[Key, Measured], int]:
    """Return measured and predicted times by problem, and the number of problems left out.

    A problem is left out if its tile program is not loaded, or if it has too few schedules of this version.
    """
    groups: dict[Key, dict[Schedule, list[Trial]]] = {}
    for trial in trials:
        if trial.ok:
            groups.setdefault((trial.problem_key, trial.device), {}).setdefault(trial.schedule, []).append(trial)
    results = {key: judged for key, group in groups.items() if (judged := _measured(key[1], group)) is not None}
    return results, len(groups) - len(results)


def _measured(name: str, group: Mapping[Schedule, Sequence[Trial]]) -> Measured | None:
    rows: list[tuple[Schedule, float, float]] = []
    try:
        problem, chip = next(iter(group.values()))[0].problem, device(name)
    except (ValueError, UnknownDevice):
        return None
    for schedule, trials in group.items():
        try:
            row = template(schedule.template)
            if row.counts is None:
                continue
            work = row.counts(problem, row.config(problem, schedule, chip), chip)
        except (ValueError, KeyError):  # the schedule is not in this version's space
            continue
        used = next((r.measurement.resources for r in trials if r.measurement.resources), None)
        registers, spilled = (None, 0) if used is None else ([used.registers], _spilled(used))
        predicted = float(analyse([work], chip, registers=registers, spill_bytes=[spilled]).seconds[0])
        rows.append((schedule, statistics.median(r.seconds for r in trials if r.seconds is not None), predicted))
    if len(rows) < LEAST_SCHEDULES:
        return None
    schedules, seconds, predicted_seconds = zip(*rows, strict=True)
    return Measured(problem, name, schedules, np.array(seconds), np.array(predicted_seconds))


def _spilled(used: Resources) -> int:
    return used.spill_store_bytes + used.spill_load_bytes


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost_model.model_on_gpu", description=__doc__)
    parser.add_argument("files", type=Path, nargs="*", help="recordings (default: the installed ones)")
    parser.add_argument("--program", action="append", default=[], help="tile program of the recordings")
    options = parser.parse_args(arguments)
    try:
        for program in options.program:
            register_at(program)
        files = options.files or sorted(RECORDED.glob(f"*/*{SUFFIX}"))
        trials = [trial for path in files for recording in read(path) for trial in recording.trials]
    except (OSError, RecordingError, ProgramError) as error:
        print(f"benchmarks.cost_model.model_on_gpu: {error}", file=sys.stderr)
        return 2
    results, left_out = measured(trials)
    if not results:
        print("benchmarks.cost_model.model_on_gpu: no recorded problem can be compared", file=sys.stderr)
        return 2
    print(
        "| problem | device | schedules | Spearman | measured / predicted, median | first choice loses | "
        f"best of the first {FIRST} loses |\n|---|---|---|---|---|---|---|"
    )
    for judged in results.values():
        print(judged.row)
    means = [statistics.fmean(column) for column in zip(*(judged.figures for judged in results.values()), strict=True)]
    print(f"| mean of {len(results)} | | | {_cells(*means)} |")
    if left_out:
        print(f"\n{left_out} problems are left out: their programs are not loaded, or they have too few schedules.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
