"""A matmul's best schedules compile to fewer modules than there are schedules, because some share their code."""

from __future__ import annotations

from benchmarks.search.compiled_modules import counts
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul


def test_the_best_schedules_of_a_matmul_share_modules() -> None:
    schedules, launches, modules = counts(Matmul(512, 512, 512, a="bf16"), device("h100"), 40)
    assert schedules == launches == 40
    assert modules < launches
