"""Trials for tests of the trial store and of the commands that read it."""

from __future__ import annotations

import hashlib
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Resources, Status, Timing
from measurements.trials.trial import Trial
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule

PROBLEM = Matmul(64, 64, 64)


def make_trial(schedule: Schedule, measurement: Measurement, problem: Problem, device: str = "h200") -> Trial:
    return Trial(
        problem_key=problem.key(),
        schedule=schedule,
        device=device,
        fingerprint='{"sm":90}',
        template_version="v1",
        space_version="s1",
        kernel_digest=f"kernel of {schedule.key()}",
        measurement=measurement,
        toolchain="NVRTC 13.0",
        driver="580.65",
        autosched_version="0.1.0",
        created=datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=UTC),
        sampler="random",
        seed=7,
    )


def matmul_schedule(number: int = 0) -> Schedule:
    return template("matmul").space(PROBLEM, device("h200")).sample(number + 1, 0)[number]


def matmul_trial(
    seconds: float | None = 2e-6,
    *,
    problem: Matmul = PROBLEM,
    on: str = "h200",
    provenance: Provenance = Provenance.ESTIMATED,
    chosen: Schedule | None = None,
) -> Trial:
    if seconds is None:
        measurement = Measurement(Status.COMPILE_ERROR, provenance, "does not compile")
    else:
        resources = Resources(64, 0, 0, 0, 0, 4096)
        measurement = Measurement(
            Status.OK, provenance, timing=Timing(seconds, seconds, seconds, 7), resources=resources
        )
    return Trial(
        problem_key=problem.key(),
        schedule=chosen or matmul_schedule(),
        device=on,
        fingerprint="{}",
        template_version="v1",
        space_version="1",
        kernel_digest="d",
        measurement=measurement,
        toolchain="nvrtc 13.0",
        driver="",
        autosched_version="0.1.0",
        created=datetime(2026, 1, 2, 3, 4, tzinfo=UTC),
        sampler="random",
        seed=0,
    )


def database(path: Path, *trials: Trial) -> Path:
    store = Store.open(path)
    for r in trials:
        store.append(r)
    return path


def tell_entries(raw: sqlite3.Connection) -> None:
    """Update the database's entries after trials were edited with SQL, and mark the entries for a new ranking."""
    keys = raw.execute("SELECT id, problem, schedule_key FROM trials").fetchall()
    digests = [(*(hashlib.sha256(str(text).encode()).hexdigest() for text in texts), row) for row, *texts in keys]
    raw.executemany("UPDATE trials SET problem_digest = ?, schedule_digest = ? WHERE id = ?", digests)
    raw.execute("DELETE FROM entries")
    raw.execute(
        "INSERT INTO entries "
        "(problem_digest, device, provenance, policy, operator, problem, trials, ok, first_id, newest_id) "
        "SELECT problem_digest, device, provenance, policy, min(operator), min(problem), "
        "count(DISTINCT schedule_digest), count(DISTINCT CASE WHEN median NOT NULL THEN schedule_digest END), "
        "min(id), max(id) FROM trials "
        "GROUP BY problem_digest, device, provenance, policy"
    )
