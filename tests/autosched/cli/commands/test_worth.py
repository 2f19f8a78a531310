"""``autosched worth`` estimates from a call log how much time tuning would save."""

import csv
import json
from pathlib import Path

import pytest

from autosched.cli.app import run
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import RmsNorm, Softmax

RECORDED = Softmax(4096, 8192, dtype="f16")  # autosched ships a recording of this problem on the H100
NEW = RmsNorm(4096, 2048, dtype="f16")


def log(path: Path, rows: list[tuple[int, Problem, float | None]]) -> str:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["count", "problem", "seconds"])
        writer.writerows((count, problem.key(), seconds or "") for count, problem, seconds in rows)
    return str(path)


def test_slow_calls_are_worth_tuning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = log(tmp_path / "shapes.csv", [(10, NEW, 1e-3), (1, RECORDED, None)])
    assert run(["worth", path, "--device", "h100", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    first, second = document["problems"]
    assert first["problem"]["operator"] == "rmsnorm" and first["today"] == "timed" and first["measured"]
    assert second["today"] == "tuned"
    assert first["seconds"] == 1e-3 and first["headroom"] > 0.9
    assert first["share"] + second["share"] == pytest.approx(1.0)
    assert document["worth_it"] and document["low"] <= document["gain"] <= document["high"]


def test_a_small_part_of_a_program_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = log(tmp_path / "shapes.csv", [(10, NEW, 1e-3)])
    assert run(["worth", path, "--device", "h100", "--program-seconds", "60"]) == 1
    assert "not worth it" in capsys.readouterr().out


@pytest.mark.parametrize("options", [["--program-seconds", "1e-6"], ["--program-seconds", "-1"], ["--today", "magic"]])
def test_invalid_options_are_rejected_in_one_line(
    tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = log(tmp_path / "shapes.csv", [(10, NEW, 1e-3)])
    assert run(["worth", path, "--device", "h100", *options]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


@pytest.mark.parametrize("seconds", ["fast", "-1", "nan", "0"])
def test_invalid_seconds_are_reported_with_their_line(
    tmp_path: Path, seconds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "shapes.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["count", "problem", "seconds"], [1, NEW.key(), seconds]])
    assert run(["worth", str(path), "--device", "h100"]) == 2
    assert "line 2" in capsys.readouterr().err
