"""Records for tests of the record store."""

from __future__ import annotations

import hashlib
import sqlite3
from datetime import UTC, datetime

from measurements.records.measurement import Measurement
from measurements.records.record import Record
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule


def record(schedule: Schedule, measurement: Measurement, problem: Problem, device: str = "h200") -> Record:
    return Record(
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


def tell_entries(raw: sqlite3.Connection) -> None:
    """Make the entries of a database fit its trials, which were edited by hand, and have them ranked when asked for."""
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
