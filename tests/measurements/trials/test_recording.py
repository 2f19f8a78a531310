import dataclasses
import gzip
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from faults import fault_kernel

from measurements.runners.base import Candidate
from measurements.runners.replay import ReplayRunner
from measurements.trials import recording
from measurements.trials.measurement import Measurement, Provenance, Resources, Status, Timing
from measurements.trials.recording import Recording, RecordingError
from measurements.trials.trial import Trial
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

PROBLEM = Matmul(m=64, n=48, k=32)
OTHER = Matmul(m=64, n=48, k=64)
WHEN = datetime(2026, 3, 4, tzinfo=UTC)


def trial(i: int, seconds: float | None = 1e-5, **changes: object) -> Trial:
    if seconds is None:
        measurement = Measurement(Status.WRONG_RESULT, Provenance.MEASURED, reason="wrong", error=float("inf"))
    else:
        timing = Timing(seconds, seconds, seconds, 9)
        measurement = Measurement(Status.OK, Provenance.MEASURED, timing=timing, error=0.1, clock_mhz=1980.0)
    new_trial = Trial(
        problem_key=PROBLEM.key(),
        schedule=Schedule("matmul", (("tile_n", i), ("layout_a", "pad(8, 1)"))),
        device="h200",
        fingerprint='{"device":"h200","name":"NVIDIA H200"}',
        template_version="v1",
        space_version="s1",
        kernel_digest=f"d{i}",
        measurement=measurement,
        toolchain="nvrtc 13.0",
        driver="580",
        autosched_version="0.1.0",
        created=WHEN + timedelta(seconds=i),
        sampler="random",
        seed=7,
    )
    return dataclasses.replace(new_trial, **changes)  # type: ignore[arg-type]


WHOLE = Recording((trial(1), trial(2, None), trial(3, 2e-5, rank=1)))


def test_recordings_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "a" / "x.jsonl.gz"
    other = Recording((trial(1, problem_key=OTHER.key()),))
    recording.write(path, [WHOLE, other])
    assert recording.read(path) == (WHOLE, other)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_equal_trials_give_equal_bytes_for_any_ids(tmp_path: Path) -> None:
    numbered = Recording(tuple(dataclasses.replace(r, id=i) for i, r in enumerate(WHOLE.trials, 5)))
    recording.write(tmp_path / "a", [WHOLE])
    recording.write(tmp_path / "b", [numbered])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_files_can_be_joined(tmp_path: Path) -> None:
    recording.write(tmp_path / "a", [WHOLE])
    (tmp_path / "b").write_bytes((tmp_path / "a").read_bytes() * 2)
    assert recording.read(tmp_path / "b") == (WHOLE, WHOLE)


def test_a_header_and_lines_of_json_without_anything_to_execute(tmp_path: Path) -> None:
    recording.write(tmp_path / "a", [WHOLE])
    header, *lines = [json.loads(line) for line in gzip.decompress((tmp_path / "a").read_bytes()).splitlines()]
    assert header["trials"] == len(lines) == 3
    assert header["problem"] == PROBLEM.to_json()
    assert header["fingerprint"]["name"] == "NVIDIA H200"
    assert [Trial.from_json(line) for line in lines] == list(WHOLE.trials)


def test_trials_are_grouped_by_origin_and_only_measured_ones_are_recorded() -> None:
    estimated = dataclasses.replace(trial(4).measurement, provenance=Provenance.ESTIMATED)
    newer = trial(5, driver="581", fingerprint='{"device":"h200","driver":"581"}')
    recordings = Recording.of([trial(1), newer, trial(2), trial(4, measurement=estimated)])
    assert [r.trials for r in recordings] == [(trial(1), trial(2)), (newer,)]
    with pytest.raises(RecordingError, match="same fingerprint"):
        Recording((trial(1), newer))
    with pytest.raises(RecordingError, match="measured"):
        Recording((trial(4, measurement=estimated),))
    with pytest.raises(RecordingError, match="at least one"):
        Recording(())


def test_the_newest_cold_recording_of_exactly_this_problem_and_device_is_found(tmp_path: Path) -> None:
    newer = Recording((trial(9, space_version="s2"),))
    warm = Recording((trial(99, fingerprint='{"cache":"warm"}'),))
    recording.write(tmp_path / "all", [newer, WHOLE, warm, Recording((trial(1, problem_key=OTHER.key()),))])
    written = recording.install(tmp_path / "all", tmp_path / "recorded")
    assert len(written) == 2 and all(path.parent.name == "h200" for path in written)
    assert recording.find(PROBLEM.key(), "h200", tmp_path / "recorded") == newer
    assert recording.find(PROBLEM.key(), "h200_nvl", tmp_path / "recorded") is None
    assert recording.find(Matmul(m=1, n=1, k=1).key(), "h200", tmp_path / "recorded") is None
    before = [path.read_bytes() for path in written]
    assert recording.main([str(tmp_path / "all"), "--folder", str(tmp_path / "recorded")]) == 0
    assert [path.read_bytes() for path in written] == before, "existing trials are not added again"


@pytest.mark.parametrize("device", ["", "../h200", ".hidden", "a/b"])
def test_a_device_cannot_lead_out_of_the_folder(device: str) -> None:
    with pytest.raises(RecordingError, match="folder"):
        recording.path_of(PROBLEM.key(), device)


def damaged(text: str) -> list[tuple[str, str]]:
    header, *lines = text.splitlines()
    worse = json.loads(header)
    return [
        ("", "empty"),
        ("\n".join([header, *lines[:2]]), "truncated"),
        ("\n".join(lines), "does not begin with the header"),
        ("[1]", "does not begin with the header"),
        ("\n".join([json.dumps(worse | {"recording": 99}), *lines]), "format is 99"),
        ("\n".join([json.dumps(worse | {"device": "h100"}), *lines]), "differ in device"),
        ("\n".join([header, *lines[:2], lines[2].replace('"ok"', '"great"')]), "great"),
        ("\n".join([header, *lines[:2], "{}"]), "invalid JSON of a trial"),
        *(
            ("\n".join([json.dumps(worse | {"trials": number}), *lines]), "number of trials")
            for number in (None, "3", 2.5, 3.0, True, -1)
        ),
        ("\n".join([json.dumps(worse | {"trials": 10**18}), *lines]), "truncated"),
        ("\n".join([json.dumps(worse | {"fingerprint": []}), *lines]), "does not begin with the header"),
        ("not json", "not a recording"),
        ("[" * 100_000, "not a recording"),
        ("\n".join([header, *(edited(line, fingerprint=None) for line in lines)]), "fingerprint"),
        *(("\n".join([header, edited(lines[0], **change), *lines[1:]]), next(iter(change))) for change in EDITS),
    ]


EDITS: list[dict[str, object]] = [
    {"reason": None},
    {"seed": "x"},
    {"seed": True},
    {"seed": 2**70},
    {"rank": "first"},
    {"clock_mhz": "fast"},
    {"compile_seconds": 10**400},
    {"driver": []},
    {"template": None},
    {"template_version": None},
    {"sampler": 5},
    {"timing": 5},
]


def edited(line: str, **changes: object) -> str:
    return json.dumps(json.loads(line) | changes)


def test_a_time_or_resources_of_another_kind_never_reach_a_database(tmp_path: Path) -> None:
    good = trial(1).to_json()
    for change in (
        {"timing": good["timing"] | {"count": "many"}},
        {"timing": good["timing"] | {"median": "1e-5"}},
        {"resources": {"registers": 8}},
        {"resources": dict.fromkeys(dataclasses.asdict(Resources(1, 0, 0, 0, 0, 0)), 0.5)},
    ):
        with pytest.raises(ValueError, match="invalid JSON of a trial"):
            Trial.from_json(good | change)


def test_a_damaged_recording_is_reported_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a"
    recording.write(path, [WHOLE])
    packed = path.read_bytes()
    for text, complaint in damaged(gzip.decompress(packed).decode()):
        path.write_bytes(gzip.compress(text.encode()))
        with pytest.raises(RecordingError, match=complaint) as caught:
            recording.read(path)
        assert "\n" not in str(caught.value)
    for raw in (packed[:-20], b"plain text", gzip.compress(b"\xff\xfe")):
        path.write_bytes(raw)
        with pytest.raises(RecordingError, match="not a complete gzip file"):
            recording.read(path)
    assert recording.main([str(path)]) == 2
    assert capsys.readouterr().err.startswith("recording: ")


class TestReplay:
    def candidate(self, trial: Trial, problem: Matmul = PROBLEM) -> Candidate:
        return Candidate(problem, trial.schedule, fault_kernel("unused", problem))

    def test_the_newest_trial_of_a_schedule_counts(self) -> None:
        runner = ReplayRunner(Recording((trial(1), trial(2), trial(1, 3e-5, rank=1))))
        assert [s["tile_n"] for s in runner.schedules] == [1, 2]
        ((_, measurement),) = runner.measure([self.candidate(trial(1))])
        assert measurement.timing is not None and measurement.timing.median == 3e-5
        assert (measurement.provenance, measurement.error, measurement.clock_mhz) == (Provenance.REPLAYED, 0.1, 1980.0)

    def test_another_schedule_and_another_problem_are_unrecorded(self) -> None:
        runner = ReplayRunner(WHOLE)
        candidates = [self.candidate(trial(77)), self.candidate(trial(1), OTHER)]
        assert {m.status for _, m in runner.measure(candidates)} == {Status.UNRECORDED}

    def test_a_replay_describes_the_origin_of_its_times(self) -> None:
        line = ReplayRunner(WHOLE, why="no GPU answers").describe()
        assert line.startswith(
            "backend replay: no GPU answers; times are REPLAYED from measurements on NVIDIA H200 of 2026-03"
        )
        assert "recorded" in ReplayRunner(WHOLE).fingerprint()
