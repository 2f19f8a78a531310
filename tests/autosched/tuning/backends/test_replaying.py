"""Tuning on a recording finds the recording's file, proposes only recorded schedules, and mixes in no other times."""

import dataclasses
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
from cases import representative

from autosched.tuning.backends import BackendError, BackendOptions, choose
from autosched.tuning.backends import gpus as probing
from autosched.tuning.tune import tune
from measurements.trials import recording
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.recording import Recording
from measurements.trials.trial import Trial
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

PROBLEM = Matmul(m=96, n=80, k=64)
SPACE = template("matmul").space(PROBLEM, device("h200"))


@cache
def schedules() -> list[Schedule]:
    return SPACE.sample(40, 11)


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Recording:
    """Return forty recorded schedules: every fifth failed, and the last is the fastest."""
    monkeypatch.setattr(probing, "cuda_available", lambda gpu: (False, "no driver"))
    monkeypatch.setattr(recording, "RECORDED", tmp_path / "recorded")
    trials = []
    for i, schedule in enumerate(schedules()):
        seconds = 1e-6 * (100 - i)
        ok = i % 5 > 0
        timing = Timing(seconds, seconds, seconds, 9) if ok else None
        status = Status.OK if ok else Status.TIMEOUT
        measurement = Measurement(status, Provenance.MEASURED, "" if ok else "not in time", timing)
        trials.append(
            Trial(
                problem_key=PROBLEM.key(),
                schedule=schedule,
                device="h200",
                fingerprint='{"device":"h200","name":"NVIDIA H200"}',
                template_version="v1",
                space_version=SPACE.fingerprint,
                kernel_digest=f"d{i}",
                measurement=measurement,
                toolchain="nvrtc 13.0",
                driver="580",
                autosched_version="0.1.0",
                created=datetime(2026, 2, 3, tzinfo=UTC),
                sampler="random",
                seed=0,
            )
        )
    stored = Recording(tuple(trials))
    recording.write(recording.path_of(PROBLEM.key(), "h200"), [stored])
    return stored


@pytest.mark.parametrize("sampler", representative(["random", "evolution", "tpe"], "random", "tpe"))
def test_a_replayed_search_only_tries_recorded_schedules(recorded: Recording, tmp_path: Path, sampler: str) -> None:
    result = tune(PROBLEM, trials=100, database=tmp_path / "a.db", device="h200", sampler=sampler, seed=2)
    assert result.provenance is Provenance.REPLAYED
    assert result.exhausted
    assert {r.schedule for r in result.trials} == set(schedules())
    assert len(result.trials) == len(schedules())
    assert result.failures == {"timeout": 8}
    assert result.best is not None and result.best.schedule == schedules()[39]
    assert result.best.seconds == pytest.approx(61e-6)
    assert result.lines[0].startswith("times are REPLAYED: ")
    assert "REPLAYED" in result.lines[1] and "NVIDIA H200" in result.lines[1]
    assert result.remeasured is None


def test_auto_replays_a_recording_and_reports_it(recorded: Recording) -> None:
    with choose(PROBLEM, BackendOptions()) as choice:
        assert (choice.name, choice.device.name, choice.pool) == ("replay", "h200", None)
        assert "no driver" in choice.line
        assert choice.headline == "times are REPLAYED: no GPU on this machine responds"
    with choose(dataclasses.replace(PROBLEM, m=97), BackendOptions(workers=1)) as choice:
        assert choice.name == "estimate"
        assert "this problem was not recorded on h200" in choice.line
    with choose(PROBLEM, BackendOptions(device="a100", workers=1)) as choice:
        assert choice.name == "estimate"
    with choose(PROBLEM, BackendOptions(backend="estimate", workers=1)) as choice:
        assert choice.name == "estimate"


def test_replay_reports_a_missing_recording(recorded: Recording) -> None:
    with pytest.raises(BackendError, match="nothing to replay: this problem was not recorded on a100"):
        choose(PROBLEM, BackendOptions(backend="replay", device="a100"))


@pytest.mark.parametrize("backend", ["auto", "replay"])
def test_a_damaged_recording_is_reported_with_its_path_and_a_remedy(
    recorded: Recording, tmp_path: Path, backend: str
) -> None:
    path = recording.path_of(PROBLEM.key(), "h200")
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(BackendError, match="replace or delete that file, or use --backend estimate") as caught:
        tune(PROBLEM, trials=4, database=tmp_path / "a.db", device="h200", backend=backend)
    assert str(caught.value).startswith(f"{path} is not a complete gzip file of text: ")
    assert not (tmp_path / "a.db").exists()


def test_a_recording_of_another_space_is_not_used(recorded: Recording) -> None:
    older = Recording(tuple(dataclasses.replace(r, space_version="older") for r in recorded.trials))
    recording.write(recording.path_of(PROBLEM.key(), "h200"), [older])
    with pytest.raises(BackendError, match=r"by autosched 0\.1\.0, whose schedule space was different"):
        choose(PROBLEM, BackendOptions(backend="replay"))
    with choose(PROBLEM, BackendOptions(workers=1)) as choice:
        assert choice.name == "estimate"
