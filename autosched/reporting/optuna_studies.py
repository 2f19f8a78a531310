"""Export of a database's trials to a journal file for the Optuna dashboard, with one study per entry.

``optuna-dashboard studies.log`` (extra ``dashboard``) then shows the history, parameter importances, slices and
parallel coordinates of the studies. Changes to the studies are not written back to the database.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from autosched.reporting import formatting
from measurements.files import atomic_write
from measurements.files.work_folders import temporary_folder
from measurements.store.store import ProblemSummary, Store
from measurements.trials.policy import DEFAULT
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import is_library
from search_spaces.spaces.parameters import Value


def write(store: Store, path: Path, operator: str | None = None, device: str | None = None) -> int:
    """Write the problems of a database as Optuna studies, replacing the file ``path``.

    Args:
        store: The database, which is only read.
        path: Optuna journal file for ``optuna-dashboard``. It is replaced atomically.
        operator: Only problems of this operator; None for all.
        device: Only the device of this name; None for all.

    Returns:
        The number of studies. If there are none, no file is written.

    Raises:
        StoreError: The database cannot be read.
        OSError: The file cannot be written.
    """
    import optuna  # imported here, because importing optuna takes a second
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)  # prevents Optuna from printing a line for each study
    num_written = 0
    try:
        with temporary_folder("studies") as folder:
            journal = folder / "journal"
            journal.touch()
            storage = JournalStorage(JournalFileBackend(str(journal)))
            for summary in store.problems(operator):
                if device in (None, summary.device):
                    num_written += 1
                    study = optuna.create_study(storage=storage, study_name=_name(store, summary), direction="minimize")
                    study.add_trials(_trials([r for r in store.entry(summary) if not is_library(r.schedule)]))
            if num_written:
                atomic_write.publish(path, journal.read_bytes())
    finally:
        optuna.logging.set_verbosity(verbosity)
    return num_written


def _name(store: Store, summary: ProblemSummary) -> str:
    """Return the name of an entry. Names are unique, because each problem has one canonical text."""
    try:
        problem = formatting.one_line(store.problem(summary))
    except ValueError:  # the user's kernel is not registered
        problem = summary.problem_key
    how = "" if summary.policy in ("", DEFAULT) else f", {summary.policy}"
    return f"{problem} on {summary.device} ({summary.provenance}{how})"


def _trials(trials: Sequence[Trial]) -> list[Any]:
    from optuna.trial import TrialState, create_trial

    domains = _domains(trials)
    optuna_trials = []
    for trial in trials:
        params = _named(trial)
        attributes: dict[str, Any] = {"trial": trial.id, "status": trial.status.value, "sampler": trial.sampler}
        if trial.measurement.reason:
            attributes["reason"] = trial.measurement.reason
        if trial.measurement.error is not None:
            attributes["error"] = str(trial.measurement.error)
        optuna_trial = create_trial(
            state=TrialState.COMPLETE if trial.seconds is not None else TrialState.FAIL,
            value=trial.seconds,
            params=params,
            distributions={name: domains[name] for name in params},
            user_attrs=attributes,
        )
        optuna_trial.datetime_start = trial.created.astimezone().replace(tzinfo=None)
        optuna_trial.datetime_complete = optuna_trial.datetime_start + timedelta(
            seconds=trial.measurement.compile_seconds or 0.0
        )
        optuna_trials.append(optuna_trial)
    return optuna_trials


def _named(trial: Trial) -> dict[str, Value]:
    return {"template": trial.schedule.template, **dict(trial.schedule.items)}


def _domains(trials: Sequence[Trial]) -> dict[str, Any]:
    """Return the tried values of each parameter.

    The tried values replace the domains of the search space, which a database does not store.
    """
    from optuna.distributions import CategoricalDistribution

    values: dict[str, dict[Value, None]] = {}
    for trial in trials:
        for name, value in _named(trial).items():
            values.setdefault(name, {})[value] = None
    ordered = {name: sorted(each, key=lambda v: (str(type(v)), v)) for name, each in values.items()}
    return {name: CategoricalDistribution(choices) for name, choices in ordered.items()}
