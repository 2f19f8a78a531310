"""Trials as a table, ordered by other objectives than time."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosched.tuning.trial_table import best_by, pareto, write_csv

ROWS = [
    {"status": "ok", "seconds": 1.0, "registers": 64, "GB/s": 10.0},
    {"status": "ok", "seconds": 2.0, "registers": 32, "GB/s": 5.0},
    {"status": "ok", "seconds": 2.5, "registers": 40, "GB/s": 4.0},
    {"status": "wrong_result", "seconds": None, "registers": 16},
]


def test_the_best_by_a_metric_and_the_front() -> None:
    assert best_by(ROWS, "GB/s", "max") is ROWS[0]
    assert best_by(ROWS, "registers") is ROWS[3]
    assert pareto(ROWS, {"seconds": "min", "registers": "min"}) == ROWS[:2]
    assert pareto(ROWS, {"registers": "min", "GB/s": "max"}) == [ROWS[1], ROWS[0]]
    assert best_by([], "seconds") is None


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12))
def test_trials_on_the_front_are_not_dominated_and_dominate_the_rest(points: list[tuple[int, int]]) -> None:
    table = [{"a": a, "b": b} for a, b in points]
    front = pareto(table, {"a": "min", "b": "max"})

    def beats(x: dict[str, int], y: dict[str, int]) -> bool:
        return x["a"] <= y["a"] and x["b"] >= y["b"] and x != y

    assert front
    for row in table:
        assert (row in front) != any(beats(other, row) for other in table)


def test_invalid_objectives_are_rejected() -> None:
    for objectives, message in (
        ({}, "at least one"),
        ({"secs": "min"}, "unknown column 'secs'"),
        ({"seconds": "up"}, "min or max"),
    ):
        with pytest.raises(ValueError, match=message):
            pareto(ROWS, objectives)  # type: ignore[arg-type]


def test_csv_has_a_column_for_every_key(tmp_path: Path) -> None:
    write_csv(tmp_path / "t.csv", ROWS)
    with (tmp_path / "t.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [r["registers"] for r in read] == ["64", "32", "40", "16"]
    assert read[3]["GB/s"] == "" and read[0]["GB/s"] == "10.0"
