"""Backends that replay recorded times: autosched's recordings, or files of other tools."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from autosched.tuning.backends.backend import Backend, BackendError
from autosched.tuning.recorded_table import device_of_table, schedules_of_table
from measurements.runners.replay import ReplayRunner, TableReplayRunner
from measurements.trials import recording
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import Device
from search_spaces.hardware.devices import device as device_row
from search_spaces.operators.problem import Problem
from search_spaces.templates.template import KernelTemplate


def of_table(
    problem: Problem | None,
    device: str | Device | None,
    path: str | Path,
    templates: Iterable[str | KernelTemplate] | None,
) -> Backend:
    """Return a backend over a file of measurements.

    Args:
        problem: Problem that was measured.
        device: GPU of the measurements; None for the GPU that the file names.
        path: A cache or results (T4 format) of Kernel Tuner, or a recording or database of autosched.
        templates: Kernel templates, or their names, exactly one of which can compute ``problem``. None: all templates.

    Returns:
        The backend. It can only time schedules of the file.

    Raises:
        BackendError: No problem is given, or the file does not name a known GPU.
        ValueError: The file is unreadable, or none of its configurations fits the problem (TableError).
    """
    if problem is None:
        raise BackendError("nothing can be replayed without a problem: name a problem")
    row = device if isinstance(device, Device) else device_of_table(path) if device is None else device_row(device)
    if row is None:
        raise BackendError(f"{path} does not name a known GPU: add --device")
    usable = templates_for(problem, row, templates)
    table, measurements = schedules_of_table(path, problem, usable, row)
    left_out = len(table.measurements) - len(measurements)
    origin = f"{path}, {table.kernel} on {table.device}"
    with Path(path).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    runner = TableReplayRunner(measurements, origin, digest)
    skipped = f"; {left_out} more configurations have values that the kernel does not support" if left_out else ""
    headline = f"times are REPLAYED from {path}"
    return Backend(runner.name, runner, row, runner.describe() + skipped, None, usable, runner.schedules, headline)


def of_recording(
    problem: Problem | None, device: Device, why: str, templates: Iterable[str | KernelTemplate] | None
) -> tuple[Backend | None, str]:
    """Return a backend that replays the recording of ``problem``, or the reason why this is not possible.

    Args:
        problem: Problem to search, or None.
        device: GPU on which the times were measured.
        why: Reason why candidates are not measured on a GPU. The headline states this reason.
        templates: Kernel templates to search; None for all that can compute ``problem``. Recordings of another version
            of a template's space are skipped.

    Returns:
        The backend and "", or None and one line with the reason.

    Raises:
        BackendError: The recording's file is damaged.
    """
    if problem is None:
        return None, "no problem was named"
    try:
        entry = recording.find(problem.key(), device.name)
    except recording.RecordingError as error:
        raise BackendError(f"{error}; replace or delete that file, or use --backend estimate") from error
    if entry is None:
        return None, f"this problem was not recorded on {device.name}"
    usable = templates_for(problem, device, templates)
    members = usable.space(problem, device).members
    today = {name for name, version in entry.spaces.items() if name in members and members[name].fingerprint == version}
    if not today:
        return None, (
            f"this problem was recorded on {device.name} by autosched {entry.autosched_version}, whose "
            "schedule space was different"
        )
    runner = ReplayRunner(entry, why=why)
    headline = f"times are REPLAYED: {headline_reason(why)}"
    schedules = tuple(schedule for schedule in runner.schedules if schedule.template in today)
    return Backend(runner.name, runner, device, runner.describe(), None, usable, schedules, headline), ""


def headline_reason(why: str) -> str:
    """Shorten a reason: drop the details after a colon or a semicolon."""
    return why.partition(":")[0].partition(";")[0]
