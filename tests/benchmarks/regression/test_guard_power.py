"""The benchmark of the regression check counts false alarms in recorded spaces, and fails if the check is wrong."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.regression import guard_power


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a recorded space: 20 configurations with 0.2% noise, and unusable entries."""
    rng = np.random.default_rng(0)
    cache = {str(i): {"times": list((1 + i / 50) * (1 + 0.002 * rng.standard_normal(32)))} for i in range(20)}
    cache |= {"failed": {"time": "RuntimeFailedConfig"}, "few": {"times": [1.0]}}
    with gzip.open(tmp_path / "toy.json.gz", "wt") as file:
        json.dump({"cache": cache}, file)
    return tmp_path


def test_recorded_trials_are_sorted_by_time(folder: Path) -> None:
    trials = guard_power.recorded(folder / "toy.json.gz")
    assert [len(r) for r in trials] == [32] * 20
    assert np.median(trials[0]) == pytest.approx(1e-3, rel=0.01), "in seconds"
    medians = [float(np.median(r)) for r in trials]
    assert medians == sorted(medians)


@pytest.mark.parametrize("drawn", guard_power.DRAWS)
def test_low_noise_causes_no_false_alarms_and_no_misses(folder: Path, drawn: str) -> None:
    trials = guard_power.recorded(folder / "toy.json.gz")
    unchanged = guard_power.simulate(trials, drawn, 0.0, 5, 20, 0, "toy")
    assert (unchanged.false_alarms, unchanged.slowed) == (0, 0)
    assert unchanged.unsettled == 0 and unchanged.revealed == unchanged.settled > 90, (
        "5% since tuning, at noise of 0.2%"
    )
    slow = guard_power.simulate(trials, drawn, 0.05, 2, 20, 0, "toy")
    assert (slow.false_alarms, slow.slowed, slow.found_slow, slow.found_quiet) == (0, 4, 4, 4)


def test_a_slowdown_within_the_limit_is_not_found(folder: Path) -> None:
    trials = guard_power.recorded(folder / "toy.json.gz")
    assert guard_power.simulate(trials, "independent", 0.005, 2, 20, 0, "toy").found_slow == 0


def test_a_folder_without_recordings_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert guard_power.main([str(tmp_path)]) == 2
    assert "no recorded spaces" in capsys.readouterr().err


def test_the_table_has_a_row_for_each_case(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert guard_power.main([str(folder), "--runs", "1", "--entries", "10"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| toy")]
    assert len(rows) == 6
