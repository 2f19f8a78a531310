"""Fixtures for `autosched check`: databases whose trials contain real results of the installed compiler."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from measurements.compiler.pool import CompilePool
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.trial import Trial
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule

H200 = device("h200")
PROBLEM = Matmul(m=64, n=64, k=64)

MakeTrial = Callable[..., Trial]


@pytest.fixture(scope="session")
def schedules() -> list[Schedule]:
    """Return distinct schedules of PROBLEM, with the default first."""
    return template("matmul").space(PROBLEM, H200).sample(4, 1)


@pytest.fixture(scope="session")
def pool() -> Iterator[CompilePool]:
    with CompilePool(workers=1) as compile_pool:
        yield compile_pool


@pytest.fixture(scope="session")
def make_trial(pool: CompilePool) -> MakeTrial:
    """Return a function that makes a trial of a schedule. ``resources`` and ``code`` override the trial's fields."""

    def make(
        schedule: Schedule,
        seconds: float = 2e-6,
        *,
        problem: Problem = PROBLEM,
        provenance: Provenance = Provenance.MEASURED,
        resources: dict[str, int] | None = None,
        code: dict[str, Any] | None = None,
        **more: Any,
    ) -> Trial:
        kernel = template(schedule.template).kernel(problem, schedule, H200)
        program: Any = pool.compile(kernel, H200.arch)
        measurement = Measurement(
            Status.OK,
            provenance,
            timing=Timing(seconds, seconds, seconds, 9),
            error=0.1,
            resources=dataclasses.replace(program.resources, **(resources or {})),
            code=dataclasses.replace(program.code, **(code or {})),
        )
        trial = Trial(
            problem_key=problem.key(),
            schedule=schedule,
            device="h200",
            fingerprint="{}",
            template_version=template(schedule.template).version,
            space_version="s",
            kernel_digest=kernel.digest,
            measurement=measurement,
            toolchain=program.toolchain,
            driver="",
            autosched_version="0.1.0",
            created=datetime(2026, 11, 22, tzinfo=UTC),
            sampler="random",
            seed=0,
        )
        return dataclasses.replace(trial, **more)

    return make


@pytest.fixture
def database(tmp_path: Path) -> Callable[..., Path]:
    """Return a database of the given trials."""

    def make(*trials: Trial, name: str = "best.db") -> Path:
        path = tmp_path / name
        with Store.open(path) as store:
            for trial in trials:
                store.append(trial)
        return path

    return make
