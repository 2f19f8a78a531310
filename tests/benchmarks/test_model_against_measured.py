"""The judge of the time model, on a recording made here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from triton_recording import recording

from benchmarks.autoheuristic import counts, read
from benchmarks.model_against_measured import comparable, judge, main, predicted
from cost_models.analytic import predict


def test_a_recording_is_read_and_the_order_of_tiles_is_right(tmp_path: Path) -> None:
    problems = read(recording(tmp_path))
    assert [(r.problem.m, len(r.configs), r.library) for r in problems] == [(4096, 4, 5e-4), (2048, 4, 5e-4)]
    assert all(comparable(r) and r.device.name == "a100" for r in problems)
    judged = judge(problems)
    assert (judged.rank[0] > 0.7) and (judged.first[0] <= 1.0) and np.all(judged.first_five <= judged.first)
    whole = problems[0].seconds
    assert whole == (4e-3, 3e-3, 2e-3, 1e-3)
    assert predicted(problems[0])[2] > predict(counts(problems[0], problems[0].configs[2]), problems[0].device)


def test_a_flag_of_hopper_means_wgmma(tmp_path: Path) -> None:
    (large, _) = read(recording(tmp_path, capability=(9, 0)))
    assert [counts(large, c).unit for c in large.configs] == ["mma", "wgmma", "wgmma", "wgmma"]


def test_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording(tmp_path)
    assert main([str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "| a100, judging | 2 |" in said and "within 15%" in said


@pytest.mark.parametrize(
    "content", [None, "", "{}\n", '{"device_capa": [8, 0]}\nchoice\n', '{"device_capa": [7, 0]}\n']
)
def test_what_is_no_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None) -> None:
    if content is not None:
        (tmp_path / "some_mm.txt").write_text(content)
    assert main([str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and str(tmp_path) in said
