"""The benchmark of the guard's margin, on a recording made here."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from triton_recording import recording

from benchmarks.cost_model.autoheuristic import read
from benchmarks.regression import guard_margin

GUESSES = np.array([1.0, 1.2, 1.02, 1.08])  # of the four configurations, of which the last one is the fastest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(guard_margin, "predicted", lambda recorded: GUESSES)
    recording(tmp_path)
    return tmp_path


def test_a_neighbours_fastest_is_taken_up_to_the_margin(folder: Path) -> None:
    asked = read(folder / "a100_test_mm.txt")[0]
    near = dataclasses.replace(asked, problem=dataclasses.replace(asked.problem, m=2048))
    found = guard_margin.answers([asked, near], (1.0, 1.05, 1.1, math.inf))
    assert np.isnan(found[:, :2]).all() and (found[:, 2:] == 0.25).all()
    far = dataclasses.replace(asked, problem=dataclasses.replace(asked.problem, m=64))
    assert guard_margin.answers([asked, far]).shape == (0, len(guard_margin.MARGINS))


def test_the_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "a100_test_mm.txt"
    path.write_text(
        path.read_text().replace("2048,1024,512", "4096,2048,4096").replace(",1024,1,512,1", ",2048,1,4096,1")
    )
    assert guard_margin.main([str(folder)]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert (
        rows[2].startswith("| a100, 2 | 1 | 0.0% |")
        and rows[6] == "| a100, 2 | 1.1 | 100.0% | 100.0% | 0.0% | 0.0% | -75.00% |"
    )
    assert guard_margin.main([str(folder / "nowhere")]) == 2
    assert "unpack a100_mm.zip" in capsys.readouterr().err
