"""A short search on the simulated GPU ends in time, and has fewer compiled modules than trials.

Schedules that differ only in launch parameters share a module.
"""

from __future__ import annotations

from benchmarks.search.simulated_search import FINAL, Search, Truth, known_best, task_of
from cost_models.estimates import AnalyticEstimates
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul

SECONDS = 4.0


def test_a_short_search_finds_a_fast_schedule() -> None:
    task = task_of(Matmul(1024, 1024, 1024, a="bf16"), device("h100"))
    truth = Truth(AnalyticEstimates(task.problem, task.templates, task.device), 1)
    outcome = Search(task, truth, 1, cores=16, seconds=SECONDS + FINAL).run()
    assert outcome.finished < SECONDS + 2 * FINAL
    assert 0 < outcome.modules < outcome.trials
    assert known_best(task, truth, outcome) <= outcome.log_seconds
