"""Records for tests of the record store."""

from __future__ import annotations

from datetime import UTC, datetime

from measurements.measurement import Measurement
from measurements.record import Record
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
