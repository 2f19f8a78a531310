"""Ranking NVIDIA's proposals: the library is pretended, the time model is real."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from autosched.samplers.first_choices import nvidia_heuristics
from benchmarks.cost_model import second_judge
from benchmarks.cost_model.autoheuristic import TritonConfig
from cost_models.analytic import Analysis, analyse
from search_spaces.hardware.cost_counts import CostCounts
from search_spaces.hardware.devices import Device
from search_spaces.operators.matmul import Matmul

TILES = ((256, 128), (128, 128), (128, 64), (64, 64), (64, 32), (32, 32), (32, 16), (16, 16))
TOO_LARGE = TritonConfig(256, 256, 128, 4, 8)  # 512 KiB of shared memory


def proposed(seconds_of_tile: float) -> list[tuple[TritonConfig, float]]:
    """Configurations whose seconds are (m n)^seconds_of_tile: growing or falling with the tile."""
    found = [(TritonConfig(m, n, 32, 3, 4), float(m * n) ** seconds_of_tile) for m, n in TILES]
    return [*found, (TOO_LARGE, 1e-9)]


def test_large_tiles_first_is_the_order_of_a_large_matmul(monkeypatch: pytest.MonkeyPatch) -> None:
    for power, sign in ((-1.0, 1), (1.0, -1)):
        monkeypatch.setattr(second_judge, "proposals", lambda gpu, problem, power=power: proposed(power))
        (judged,) = (j for j in second_judge.judge("a100") if j.problem == Matmul(8192, 8192, 8192, order_b="col"))
        assert judged.configs == len(TILES)
        assert sign * judged.rank > 0.9
        assert judged.theirs != TOO_LARGE and (judged.first < 0.01) == (sign > 0)


def test_counts_are_those_of_a_buffer_for_each_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Occupancy, and the traffic that depends on it, as CUTLASS's shared memory allows it; tensor cores at twice
    the rate take less time."""
    seen: list[tuple[CostCounts, float]] = []

    def analysed(works: Sequence[CostCounts], chip: Device) -> Analysis:
        found = analyse(works, chip)
        seen.extend(zip(works, found.seconds, strict=True))
        return found

    monkeypatch.setattr(second_judge, "analyse", analysed)
    monkeypatch.setattr(second_judge, "proposals", lambda gpu, problem: proposed(1.0))
    second_judge.judge("rtx3090")
    slow = list(seen)
    assert slow[0][0].shared_bytes == 3 * 2 * 32 * (256 + 128) and not slow[0][0].copies_behind
    seen.clear()
    second_judge.judge("rtx3090", 2)
    assert seen[-8][1] < 0.8 * slow[-8][1]


def test_problems_with_few_proposals_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_judge, "proposals", lambda gpu, problem: proposed(1.0)[: second_judge.LEAST - 1])
    assert second_judge.judge("a100") == []


def test_without_the_library_one_line_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(nvidia_heuristics, "installed", lambda: False)
    assert second_judge.main([]) == 2
    assert capsys.readouterr().err == "benchmarks.cost_model.second_judge: pip install nvidia-matmul-heuristics\n"
