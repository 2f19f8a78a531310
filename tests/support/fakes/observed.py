"""Synthetic times: the analytic model's times, plus an effect that the model lacks and a little noise."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from cost_models.analytic import predict
from cost_models.trees.boosted import BoostedTreeSettings
from cost_models.trees.observations import Observations
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.trial import Trial
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import device
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule

QUICK = BoostedTreeSettings(rounds=25, patience=5, eta=0.3, max_depth=4)


def seconds(problem: Problem, name: str, schedules: Sequence[Schedule], noise: float = 0.02) -> tuple[float, ...]:
    """Return each schedule's time in seconds: the analytic model's, plus 30% for each doubling of ``unroll``."""
    chip, rng = device(name), np.random.default_rng(len(problem.key()))
    templates = templates_for(problem, chip)
    times = []
    for schedule in schedules:
        template = templates.of(schedule)
        assert template.counts is not None
        counts = template.counts(problem, template.config(problem, schedule, chip), chip)
        effect = 1.3 ** math.log2(schedule.integer("unroll"))
        times.append(predict(counts, chip) * effect * float(np.exp(noise * rng.standard_normal())))
    return tuple(times)


def observations(problem: Problem, name: str = "h200", rows: int = 30, seed: int = 0) -> Observations:
    """Return ``rows`` random schedules of a problem and their times."""
    chip = device(name)
    schedules = tuple(templates_for(problem, chip).space(problem, chip).sample(rows, seed))
    return Observations(problem, chip, schedules, seconds(problem, name, schedules))


def make_trials(one: Observations, **change: Any) -> list[Trial]:
    """Return trials like those that are stored when schedules are measured on a GPU.

    Args:
        one: Schedules and their times.
        change: Replacements of fields of each trial or of its measurement.
    """
    fields = {f.name for f in dataclasses.fields(Measurement)}
    measurement = {k: v for k, v in change.items() if k in fields}
    trials = []
    for schedule, time in zip(one.schedules, one.seconds, strict=True):
        result = Measurement(Status.OK, Provenance.MEASURED, timing=Timing(time, time, time, 20))
        trial = Trial(
            problem_key=one.problem.key(),
            schedule=schedule,
            device=one.device.name,
            fingerprint='{"cache":"cold"}',
            template_version="",
            space_version="",
            kernel_digest=schedule.key(),
            measurement=dataclasses.replace(result, **measurement),
            toolchain="NVRTC",
            driver="1",
            autosched_version="0",
            created=datetime(2026, 11, 22, tzinfo=UTC),
            sampler="random",
            seed=0,
        )
        trials.append(dataclasses.replace(trial, **{k: v for k, v in change.items() if k not in fields}))
    return trials


def store(path: Path, *trials: Trial) -> Path:
    """Append the trials to the database ``path``, which is created if needed, and return ``path``."""
    with Store.open(path) as opened:
        for trial in trials:
            opened.append(trial)
    return path
