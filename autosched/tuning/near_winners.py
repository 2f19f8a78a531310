"""Fastest measured schedules of problems that differ only in sizes, on GPUs of the same architecture."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from measurements.trials.measurement import Provenance
from measurements.trials.problem_key import fields_of, problem_of
from measurements.trials.shipped import SHIPPED, ShippedRecordings
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import is_library
from search_spaces.hardware.devices import Device, all_devices
from search_spaces.operators.distance import device_distance, problem_distance
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.compiler_controls import plain

if TYPE_CHECKING:
    from measurements.store.store import Store

MOST = 32  # maximum number of problems to read


def near_winners(
    problem: Problem, device: Device, store: Store | None, shipped: ShippedRecordings = SHIPPED
) -> list[Schedule]:
    """Return the fastest measured schedule of each near problem, the nearest first.

    A problem is near if it has the same operator and differs from ``problem`` only in sizes. This includes ``problem``
    itself.

    Args:
        problem: Problem to search.
        device: GPU to search for. Times on other GPUs of the same architecture are also used.
        store: The database; None to use only recordings.
        shipped: Recordings that are installed with autosched.

    Returns:
        Schedules of at most MOST problems. Unreadable trials are skipped.
    """
    near = sorted(_problems(problem, device, store, shipped), key=lambda entry: (entry[0], entry[2], entry[1]))
    winners: dict[Schedule, None] = {}
    for _, key, name, source in near[:MOST]:
        with suppress(ValueError, OSError):  # skip trials that are damaged or from another version
            trial = _best(source, problem_of(key), name)
            if trial is not None and not is_library(trial.schedule):
                winners[plain(trial.schedule)] = None
    return list(winners)


def _problems(
    problem: Problem, device: Device, store: Store | None, shipped: ShippedRecordings
) -> Iterator[tuple[float, str, str, Store | ShippedRecordings]]:
    """Yield the distance (in doublings of sizes), problem, GPU and source of every near problem."""
    rows = {row.name: row for row in (*all_devices(), device) if row.arch == device.arch}
    for name, row in rows.items():
        keys, _ = shipped.problems(problem.operator, name)
        for key in keys:
            yield from _near(problem, device, key, row, shipped)
    if store is None:
        return
    for summary in store.problems(problem.operator):
        if summary.ok and summary.provenance is Provenance.MEASURED and summary.device in rows:
            yield from _near(problem, device, summary.problem_key, rows[summary.device], store)


def _near(
    problem: Problem, device: Device, key: str, row: Device, source: Store | ShippedRecordings
) -> Iterator[tuple[float, str, str, Store | ShippedRecordings]]:
    doublings = problem_distance(problem, fields_of(key)).doublings + device_distance(device, row.name, row).doublings
    if math.isfinite(doublings):
        yield doublings, key, row.name, source


def _best(source: Store | ShippedRecordings, problem: Problem, device: str) -> Trial | None:
    if isinstance(source, ShippedRecordings):
        return source.best(problem, device)
    return source.best(problem, device, Provenance.MEASURED)
