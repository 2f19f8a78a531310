import dataclasses
import json
import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from measurements.trials.measurement import MachineCode, Measurement, Provenance, Resources, Status, Timing
from measurements.trials.trial import Budget, Control, Trial
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

PROBLEM = Matmul(m=64, n=48, k=32)
WHEN = datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=UTC)


def trial_of(measurement: Measurement, **changes: object) -> Trial:
    new_trial = Trial(
        problem_key=PROBLEM.key(),
        schedule=Schedule("matmul", (("tile_n", 64), ("layout_a", "pad(8, 1)"), ("tile_m", 32))),
        device="h200",
        fingerprint='{"name":"h200","sm":90}',
        template_version="v1",
        space_version="s1",
        kernel_digest="d1",
        measurement=measurement,
        toolchain="NVRTC 13.0",
        driver="",
        autosched_version="0.1.0",
        created=WHEN,
        sampler="random",
        seed=7,
    )
    return dataclasses.replace(new_trial, **changes)


def test_fields_missing_in_older_files_are_unknown() -> None:
    complete = trial_of(
        dataclasses.replace(ok(), code=MachineCode("c", "s", 128)),
        budget=Budget(64, 2.5),
        verification='{"emulated":true}',
        control=Control("copy", Timing(1e-6, 1e-6, 1e-6, 20)),
    )
    data = complete.to_json()
    assert Trial.from_json(json.loads(json.dumps(data))) == complete
    older = {name: value for name, value in data.items() if name not in ("code", "budget", "verification", "control")}
    assert Trial.from_json(older) == trial_of(ok())


@pytest.mark.parametrize(
    ("part", "bad"),
    [
        ("budget", {"trials": 0, "seconds": None}),
        ("budget", {"trials": 3}),
        ("budget", {"trials": True, "seconds": None}),
        ("budget", {"trials": 3, "seconds": -1}),
        ("budget", [3]),
        ("code", {"cubin_digest": "c", "sass_digest": "s"}),
        ("code", {"cubin_digest": "c", "sass_digest": 5, "sass_bytes": 1}),
        ("verification", "verified"),
        ("control", {"name": "copy", "timing": {"median": 1.0, "p25": 1.0, "p75": 1.0, "count": 1}}),
        ("control", {"name": "moon", "timing": {"median": 1.0, "p25": 1.0, "p75": 1.0, "count": 1}, "version": ""}),
        ("control", {"name": "copy", "timing": {"median": 1.0, "p25": 2.0, "p75": 1.0, "count": 1}, "version": ""}),
        ("control", {"name": "copy", "timing": {"median": 1.0}, "version": ""}),
        ("control", {"name": "copy", "timing": None, "version": "\x1b[2J"}),
    ],
)
def test_malformed_parts_are_rejected(part: str, bad: object) -> None:
    with pytest.raises(ValueError):
        Trial.from_json({**trial_of(ok()).to_json(), part: bad})


def ok(median: float = 1e-5) -> Measurement:
    return Measurement(Status.OK, Provenance.MEASURED, timing=Timing(median, median * 0.9, median * 1.2, 30))


seconds = st.floats(1e-7, 10.0)
measurements = st.one_of(
    st.builds(
        lambda median, below, above, count, error, compile_seconds, clock_mhz: Measurement(
            Status.OK,
            Provenance.ESTIMATED,
            timing=Timing(median, median * below, median * above, count),
            error=error,
            compile_seconds=compile_seconds,
            clock_mhz=clock_mhz,
        ),
        seconds,
        st.floats(0.1, 1.0),
        st.floats(1.0, 9.0),
        st.integers(0, 1000),
        st.one_of(st.none(), st.floats(0, 1)),
        st.one_of(st.none(), seconds),
        st.one_of(st.none(), st.floats(100.0, 3000.0)),
    ),
    st.builds(
        lambda status, reason, error, registers: Measurement(
            status,
            Provenance.MEASURED,
            reason=reason,
            error=error,
            resources=None if registers is None else Resources(registers, 1, 2, 3, 4, 5),
        ),
        st.sampled_from([s for s in Status if s is not Status.OK]),
        st.text(min_size=1),
        st.one_of(st.none(), st.floats(0, allow_nan=False)),
        st.one_of(st.none(), st.integers(0, 255)),
    ),
)


@given(measurements, st.one_of(st.none(), st.text()), st.integers(-(2**62), 2**62))
def test_json_round_trip(measurement: Measurement, digest: str | None, seed: int) -> None:
    trial = trial_of(measurement, kernel_digest=digest, seed=seed, rank=2, id=3)
    text = json.dumps(trial.to_json(), allow_nan=False)
    assert Trial.from_json(json.loads(text)) == trial


def test_problems_round_trip() -> None:
    assert trial_of(ok()).problem == PROBLEM


def test_a_trial_of_an_unknown_operator_is_read_without_its_problem() -> None:
    trial = trial_of(ok(), problem_key='{"operator":"fft"}')
    assert trial.seconds == 1e-5
    with pytest.raises(ValueError, match="fft"):
        _ = trial.problem


@pytest.mark.parametrize("median", [math.nan, math.inf, 0.0, -1e-6])
def test_an_invalid_time_is_rejected(median: float) -> None:
    with pytest.raises(ValueError, match="positive finite"):
        trial_of(ok(median))


def test_a_median_outside_its_quartiles_is_rejected() -> None:
    with pytest.raises(ValueError, match="between its quartiles"):
        trial_of(Measurement(Status.OK, Provenance.MEASURED, timing=Timing(3e-6, 1e-6, 2e-6, 9)))


def test_a_nan_error_is_worse_than_every_tolerance() -> None:
    wrong = Measurement(Status.WRONG_RESULT, Provenance.MEASURED, reason="NaN in the output", error=math.nan)
    trial = trial_of(wrong)
    assert trial.measurement.error == math.inf
    assert trial == trial_of(wrong), "equal trials must compare equal, which NaN would break"


def test_times_are_kept_in_utc_and_need_a_zone() -> None:
    east = datetime(2026, 3, 4, 7, 6, 7, 89, tzinfo=timezone(timedelta(hours=2)))
    assert trial_of(ok(), created=east).created.isoformat() == WHEN.isoformat()
    with pytest.raises(ValueError, match="time zone"):
        trial_of(ok(), created=datetime(2026, 3, 4))


@pytest.mark.parametrize("broken", [{"status": "great"}, {"timing": {"median": 1.0}}, {"problem": {1, 2}}])
def test_malformed_json_is_rejected(broken: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        Trial.from_json({**trial_of(ok()).to_json(), **broken})


def test_missing_field_is_named() -> None:
    data = trial_of(ok()).to_json()
    del data["device"]
    with pytest.raises(ValueError, match="device"):
        Trial.from_json(data)
