"""The time model can be evaluated on autosched's recordings; this is tested with a synthetic recording."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from benchmarks.cost_model.model_on_gpu import Measured, main, measured
from cost_models.analytic import predict
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.recording import Recording, write
from measurements.trials.trial import Trial
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule

PROBLEM, H100 = Matmul(1024, 1024, 1024), device("h100")
ROW = template("matmul")


@pytest.fixture(scope="module")
def schedules() -> list[Schedule]:
    return list(ROW.space(PROBLEM, H100).sample(6, 0))


def seconds(schedule: Schedule) -> float:
    assert ROW.counts is not None
    return predict(ROW.counts(PROBLEM, ROW.config(PROBLEM, schedule, H100), H100), H100)


def make_trial(schedule: Schedule, time: float, problem: Problem = PROBLEM) -> Trial:
    timing = Timing(time, time, time, 8)
    return Trial(
        problem_key=problem.key(),
        schedule=schedule,
        device="h100",
        fingerprint="{}",
        template_version="t",
        space_version="s",
        kernel_digest=None,
        measurement=Measurement(Status.OK, Provenance.MEASURED, timing=timing, error=0.1),
        toolchain="nvrtc 13.0.88",
        driver="580",
        autosched_version="0",
        created=datetime(2026, 11, 27, tzinfo=UTC),
        sampler="random",
        seed=0,
    )


def test_times_that_are_predicted_rank_perfectly_and_repetitions_count_once(schedules: list[Schedule]) -> None:
    trials = [make_trial(s, 2 * seconds(s)) for s in schedules]
    again = [make_trial(schedules[0], 4 * seconds(schedules[0])) for _ in range(1)]
    results, left_out = measured([*trials, *again])
    (judged,) = results.values()
    assert left_out == 0 and judged.schedules == tuple(schedules)
    assert judged.seconds[0] == pytest.approx(3 * seconds(schedules[0]))  # median of the two measured times
    (judged,) = measured(trials)[0].values()
    assert np.allclose(judged.seconds / judged.predicted, 2)
    assert judged.row.endswith("| 6 | 1.00 | 2.00 | 0.0% | 0.0% |")


def test_the_first_eight_choices_may_contain_the_fastest() -> None:
    predicted = np.arange(1.0, 11.0)
    measured_seconds = predicted.copy()
    measured_seconds[[0, 7, 9]] = 1.1, 1.0, 0.8  # the first is slower than the eighth, and the last is fastest
    judged = Measured(PROBLEM, "h100", (), measured_seconds, predicted)
    assert judged.figures[2:] == pytest.approx((0.375, 0.25))


def test_incomparable_trials_are_excluded(schedules: list[Schedule]) -> None:
    few = [make_trial(s, 1e-5) for s in schedules[:2]]
    unknown = [dataclasses.replace(make_trial(s, 1e-5), problem_key='{"operator":"no_such"}') for s in schedules]
    foreign = [dataclasses.replace(make_trial(s, 1e-5), device="abacus") for s in schedules]
    assert measured([*few, *unknown, *foreign]) == ({}, 3)


def test_a_table_is_printed_and_invalid_recordings_are_rejected(
    schedules: list[Schedule], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "recorded.jsonl.gz"
    write(path, [Recording(tuple(make_trial(s, 2 * seconds(s)) for s in schedules))])
    assert main([str(path)]) == 0
    table = capsys.readouterr().out
    assert "| matmul, m 1024, n 1024, k 1024, f16 | h100 | 6 | 1.00 | 2.00 | 0.0% | 0.0% |" in table
    assert "| mean of 1 | | | 1.00 | 2.00 | 0.0% | 0.0% |" in table
    path.write_bytes(b"nothing")
    assert main([str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main([str(tmp_path / "missing.gz")]) == 2
    assert main([str(path), "--program", str(tmp_path / "missing.py")]) == 2
