"""Compare the headroom that ``autosched worth`` predicts with recorded searches.

``python -m benchmarks.cost_model.headroom`` predicts the headroom of each recorded problem from the other problems, and
prints Markdown tables. The present kernel is the time model's first choice (untuned), a recorded schedule (timed), or
the vendor's library (for measured comparisons).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from autosched.worth.evidence import Evidence, recorded_searches
from autosched.worth.headroom import Estimator, Headroom
from autosched.worth.libraries import library_times
from benchmarks.cost_model.model_on_gpu import described
from measurements.trials.problem_key import problem_of
from measurements.trials.shipped import ShippedRecordings
from search_spaces.hardware.devices import Device, device
from search_spaces.operators.problem import Problem

TIMED = 8  # for each problem, at most this many recorded schedules serve as the present kernel, one at a time


@dataclass(frozen=True)
class HeldOutHeadroom:
    """Predicted and true headroom of a problem, as fractions of the present kernel's time."""

    problem: Problem
    today: str
    predicted: float
    true: float
    inside: bool

    @property
    def error(self) -> float:
        """Difference between prediction and truth in percentage points."""
        return 100 * abs(self.predicted - self.true)


def held_out(chip: Device) -> Iterator[HeldOutHeadroom]:
    """Yield a prediction for every recorded problem on ``chip``, made from the recordings of the other problems."""
    searches, comparisons = recorded_searches(chip.name), library_times(chip.name)
    with tempfile.TemporaryDirectory() as nothing:
        none = ShippedRecordings(nothing)

        def estimator(without: str, library: bool = False) -> Estimator:
            return Estimator(
                chip,
                library=library,
                searches=[e for e in searches if e.problem_key != without],
                comparisons=[t for t in comparisons if t.problem_key != without],
                shipped=none,
            )

        for evidence in searches:
            problem = problem_of(evidence.problem_key)
            one = estimator(evidence.problem_key)
            yield _beside(problem, one.estimate(problem), 1 - 1 / evidence.regret)
            for seconds in _some(evidence):
                yield _beside(problem, one.estimate(problem, seconds), 1 - evidence.best / seconds)
        for compared in comparisons:
            problem = problem_of(compared.problem_key)
            predicted = estimator(compared.problem_key, library=True).estimate(problem)
            yield _beside(problem, predicted, max(0.0, 1 - compared.ratio))


def _beside(problem: Problem, predicted: Headroom, true: float) -> HeldOutHeadroom:
    low, high = predicted.interval
    return HeldOutHeadroom(problem, predicted.today.value, predicted.expected, true, low <= true <= high)


def _some(evidence: Evidence) -> Sequence[float]:
    """Return at most TIMED of the recorded times, evenly spaced by rank, from the fastest to the slowest."""
    times = sorted(evidence.seconds)
    number = min(TIMED, len(times))
    return [times[round(i * (len(times) - 1) / max(number - 1, 1))] for i in range(number)]


def main(print_line: Callable[[str], object] = print) -> int:
    """Print the tables of the page."""
    cells = list(held_out(device("h100")))
    columns = (
        "present kernel",
        "predictions",
        "median error",
        "error, 90th percentile",
        "true value inside the interval",
    )
    print_line(f"| {' | '.join(columns)} |")
    print_line("|---|---:|---:|---:|---:|")
    for today in dict.fromkeys(h.today for h in cells):
        some = [h for h in cells if h.today == today]
        errors = sorted(h.error for h in some)
        print_line(
            f"| {today} | {len(some)} | {statistics.median(errors):.1f} points | "
            f"{errors[int(0.9 * (len(errors) - 1))]:.1f} points | {sum(h.inside for h in some) / len(some):.0%} |"
        )
    print_line("")
    print_line("| problem, not tuned | predicted | true |")
    print_line("|---|---:|---:|")
    for h in cells:
        if h.today == "not tuned":
            print_line(f"| {described(h.problem)} | {h.predicted:.1%} | {h.true:.1%} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
