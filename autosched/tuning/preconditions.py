"""Why ``tune`` refuses to start: what does not fit, and earlier trials that must not be ranked with new ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from autosched.tuning import backends, trial_table
from autosched.tuning.objectives import Objectives
from measurements.records.measurement import Measurement, Provenance, Resources, Status, Timing
from measurements.records.record import Record
from measurements.records.vendor_library import is_library
from measurements.runners.base import Runner
from search_spaces.catalogue import templates
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace


def refuse_too_large(problem: Problem, device: Device) -> None:
    """Raise ValueError where the arrays of a problem do not fit into the memory of the device."""
    if problem.min_bytes > device.memory_bytes:
        raise ValueError(
            f"the arrays of this problem take {problem.min_bytes:,} bytes, more than the {device.memory_bytes:,} "
            f"that {device.name} has: tune a smaller problem, or for another --device"
        )


def refuse_unknown_objectives(objectives: Objectives, problem: Problem, schedule: Schedule) -> None:
    """Raise ValueError for an objective that no trial of ``problem`` has, of which ``schedule`` is one."""
    if not objectives.is_time:
        resources, timing = Resources(*(0,) * len(dataclasses.fields(Resources))), Timing.estimate(1.0)
        example = Measurement(Status.OK, Provenance.ESTIMATED, timing=timing, resources=resources, watts=1.0)
        row = trial_table.row(problem, schedule, example)
        objectives.check(name for name, value in row.items() if isinstance(value, (int, float)))


def refuse_other_model(name: str, earlier: Sequence[Record], runner: Runner) -> None:
    """Raise ValueError where times that a trained model estimates would be ranked with other estimates."""
    if runner.provenance is not Provenance.ESTIMATED:
        return
    mine = runner.fingerprint().get("model", "")
    for record in earlier:
        theirs = record.runner_info.model
        if theirs != mine and backends.TRAINED in f"{mine} {theirs}":
            raise ValueError(f"{name} holds times of this problem estimated by {theirs}, not {mine}: use another --db")


def refuse_other_schedules(name: str, earlier: Sequence[Record], space: SearchSpace) -> None:
    """Raise StoreError for a trial that says it is of ``space`` and is not: no sampler could learn from it; and
    ValueError for one that ran, of a template that is not there: it might be called the best."""
    from measurements.store.store import unreadable

    installed = {*space.members, *(template.name for template in templates())}
    for record in earlier:
        its = record.schedule.template
        if record.measurement.timing is not None and its not in installed and not is_library(record.schedule):
            raise ValueError(
                f"trial {record.id} of {name} is of the template {its!r}, which is not installed: install its package, "
                "or use another --db"
            )
        member = space.members.get(record.schedule.template)
        if member is not None and record.space_version == member.fingerprint:
            try:
                space.explain(record.schedule)
            except ValueError as error:
                raise unreadable(name, record.id, str(error)) from error
