"""The table of memory-bound operators is made for one small problem."""

from __future__ import annotations

import pytest

from benchmarks.gpu import memory_bound
from benchmarks.gpu.memory_bound import copy_of, main
from search_spaces.operators.row_reduction import Reduce


@pytest.mark.parametrize("moved", [1, 10_000_000, 536_900_000])
def test_a_copy_moves_as_many_bytes(moved: int) -> None:
    assert abs(copy_of(moved).min_bytes - moved) <= 8192


def test_too_few_bytes_in_flight_are_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(memory_bound, "PROBLEMS", (("row sum", Reduce(512, 2048)),))
    monkeypatch.setattr(memory_bound, "COMPILED", 1)
    monkeypatch.setattr(memory_bound, "WANTED", 1 << 30)
    assert main(["--samples", "8"]) == 1
    stdout = capsys.readouterr().out
    assert "| row sum | 2.098 MB |" in stdout and "in flight: " in stdout
