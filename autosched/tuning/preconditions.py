"""Preconditions of ``tune``: the problem fits on the device, and stored trials can be ranked with new trials."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.tuning import backends
from autosched.tuning.objectives import Objectives
from autosched.tuning.trial_table import NUMBERS
from autosched.user_kernels.entry import COMPILED_FIRST, check_entry
from autosched.user_kernels.problem import KernelProblem
from measurements.compiler.ptxas import why_no_controls
from measurements.runners.base import Runner
from measurements.trials.measurement import Provenance
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import is_library
from search_spaces.catalogue import templates
from search_spaces.hardware.devices import Device
from search_spaces.search_task import SearchTask
from search_spaces.spaces.search_space import SearchSpace
from search_spaces.templates.compiler_controls import plain


def refuse_too_large(min_bytes: int, device: Device) -> None:
    """Raise ValueError if the arrays of a problem do not fit into the memory of the device."""
    if min_bytes > device.memory_bytes:
        raise ValueError(
            f"the arrays of this problem take {min_bytes:,} bytes, but {device.name} has only "
            f"{device.memory_bytes:,}: choose a smaller problem or another --device"
        )


def refuse_unsearchable(task: SearchTask, seed: int, *, compiled: bool) -> None:
    """Raise an error if a search cannot try any schedule.

    Args:
        task: Task of the search.
        seed: Random seed of the sampled schedules.
        compiled: True if the search compiles kernels.

    Raises:
        EmptySpace: No schedule is legal. This subclass of ValueError names the violated rules.
        KernelFileError: The user's kernel does not compile, or its entry point has unexpected arguments. This error is
            also a ValueError.
    """
    task.space.sample(1, seed)
    if compiled and isinstance(task.problem, KernelProblem):
        check_entry(task.problem, task.space.sample(COMPILED_FIRST, seed), task.device)


def refuse_unknown_objectives(objectives: Objectives, task: SearchTask) -> None:
    """Raise ValueError for an objective for which no trial can have a value."""
    parameters = [p for member in task.space.members.values() for p in member.parameters if not p.is_text]
    names = dict.fromkeys([*NUMBERS, *(p.name for p in parameters), *task.problem.metric_names])
    objectives.check(names)


def refuse_earlier(name: str, earlier: Sequence[Trial], task: SearchTask, runner: Runner) -> None:
    """Raise an error if stored trials must not be ranked with new trials.

    Args:
        name: Name of the database, for messages.
        earlier: Trials of the problem in the database.
        task: Task of the search.
        runner: Runner of the search.

    Raises:
        StoreError: A trial has the current version of the space, but its schedule is not in the space.
        ValueError: A trial that may be the best belongs to a kernel template that is not installed, or a time was
            estimated by a model other than the runner's.
    """
    _refuse_other_schedules(name, earlier, task.space)
    _refuse_other_model(name, earlier, runner)


def _refuse_other_model(name: str, earlier: Sequence[Trial], runner: Runner) -> None:
    if runner.provenance is not Provenance.ESTIMATED:
        return
    current = runner.fingerprint().get("model", "")
    for trial in earlier:
        earlier_model = trial.runner_info.model
        if earlier_model != current and backends.TRAINED in f"{current} {earlier_model}":
            raise ValueError(
                f"times of this problem in {name} were estimated by {earlier_model}, not by {current}: use another --db"
            )


def _refuse_other_schedules(name: str, earlier: Sequence[Trial], space: SearchSpace) -> None:
    from measurements.store.store import unreadable

    installed = {*space.members, *(template.name for template in templates())}
    for trial in earlier:
        template_name = trial.schedule.template
        if trial.measurement.timing is not None and template_name not in installed and not is_library(trial.schedule):
            raise ValueError(
                f"trial {trial.id} of {name} needs the template {template_name!r}, which is not installed: install its "
                "package, or use another --db"
            )
        member = space.members.get(trial.schedule.template)
        if member is not None and trial.space_version == member.fingerprint:
            try:
                space.explain(plain(trial.schedule))
            except ValueError as error:
                raise unreadable(name, trial.id, str(error)) from error


def refuse_old_compiler(backend: backends.Backend) -> None:
    """Raise ValueError if the compiler of a backend does not support compiler controls."""
    if backend.pool is None:
        raise ValueError(f"the backend {backend.name} does not compile kernels: omit the compiler controls")
    why = why_no_controls(backend.pool.toolchain)
    if why:
        raise ValueError(why)
