"""The benchmark of agreement: what it reads, and that it tells ways apart."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.regression import tie_agreement


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve configurations: four that tie within 0.2% under 1% noise, the others 5% and more behind."""
    rng = np.random.default_rng(0)
    cache = {}
    for i in range(12):
        base = 1 + 0.0005 * i if i < 4 else 1.05 + 0.02 * i
        times = list(base * (1 + 0.01 * rng.standard_normal(32)))
        cache[str(i)] = {"x": 11 - i, "y": 1, "time": float(np.mean(times)), "times": times}
    cache["failed"] = {"x": 0, "y": 1, "time": "RuntimeFailedConfig", "times": []}
    (tmp_path / "toy.json").write_text(json.dumps({"tune_params": {"x": list(range(12)), "y": [1]}, "cache": cache}))
    return tmp_path


def test_it_reads_the_fastest_and_orders_by_simplicity(folder: Path) -> None:
    space = tie_agreement.recorded(folder / "toy.json", 6)
    assert len(space) == 6
    assert [r.complexity for r in space[:4]] != sorted(r.complexity for r in space[:4])
    assert len({r.complexity for r in space}) == 6
    assert np.median(space[0].seconds) == pytest.approx(1e-3, rel=0.01)


def test_ties_make_the_fastest_a_lottery_and_the_simplest_a_choice(folder: Path) -> None:
    space = tie_agreement.recorded(folder / "toy.json", 12)
    found = tie_agreement.compare_ways(space, 16, 0, "toy")
    assert found.agreement["fastest"] < 0.7
    assert found.agreement["simplest"] > 0.9 and found.agreement["incumbent"] > 0.9
    assert max(found.loss.values()) < 0.01, "what is behind by 5% never wins"


def test_a_folder_without_recordings_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert tie_agreement.main([str(tmp_path)]) == 2
    assert "holds no recorded spaces" in capsys.readouterr().err
