"""Warm start of a search from a trained model or from times of other problems in the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from autosched.tuning.ledger import RunIdentity
from cost_models.estimates import AnalyticEstimates, Estimates
from measurements.trials.measurement import Provenance
from measurements.trials.trial import Trial
from search_spaces.search_task import SearchTask
from search_spaces.templates.compiler_controls import has_controls

if TYPE_CHECKING:
    from cost_models.trees.trained_model import OperatorModel, TrainedModel
    from measurements.store.store import Store

FEWEST_TIMES = 32  # with fewer times of other problems, a trained model is no better than the analytic one
MOST_TIMES = 2000  # maximum number of times, those on this device first, so that training takes only seconds
FEWEST_JUDGED = 8  # minimum number of times of a run to report the accuracy of the warm start


@dataclass(frozen=True)
class WarmStart:
    """Estimates to start from, and their source.

    Attributes:
        estimates: Estimates for samplers.
        analytic: Estimates of the analytic model if ``estimates`` are those of a trained one; else None.
        source: Training data of the trained model; "" for none.
        lines: Messages on the source and its limitations.
    """

    estimates: Estimates
    analytic: Estimates | None = None
    source: str = ""
    lines: tuple[str, ...] = ()

    def worth(self, trials: Sequence[Trial]) -> str:
        """Return the accuracy of the estimates in one line; "" without a trained model or with few times."""
        from cost_models.trees.evaluation import rank_correlation

        times = {r.schedule: r.seconds for r in trials if r.seconds is not None and not has_controls(r.schedule)}
        if self.analytic is None or len(times) < FEWEST_JUDGED:
            return ""
        schedules, seconds = list(times), np.array(list(times.values()))
        guesses, analytic = self.estimates.log_seconds(schedules), self.analytic.log_seconds(schedules)
        judged = np.isfinite(guesses)
        if judged.sum() < FEWEST_JUDGED:
            return ""
        agrees = rank_correlation(guesses[judged], seconds[judged])
        without = rank_correlation(analytic[judged], seconds[judged])
        first = seconds[:5].min() / seconds.min() - 1.0
        return (
            f"{self.source}: rank correlation with this run's times {agrees:.2f} (analytic model alone: "
            f"{without:.2f}); the first five trials came within {100 * first:.1f} % of the best"
        )


def loaded(path: str | Path) -> TrainedModel:
    """Return the model in a file. Raises ModelMismatch, a ValueError, for an unsuitable or missing one."""
    from cost_models.trees.boosted import ModelMismatch
    from cost_models.trees.trained_model import TrainedModel

    try:
        return TrainedModel.load(path)
    except OSError as error:
        raise ModelMismatch(f"the cost model {path} cannot be read ({error.strerror}): name another file") from error


def from_model(model: TrainedModel, name: str, task: SearchTask, estimates: Estimates) -> WarmStart:
    """Return a start from a trained model.

    Args:
        model: Model of ``autosched train``.
        name: Name of its file, for messages.
        task: Task of the search.
        estimates: Estimates of the analytic model.

    Returns:
        The start, with a message for each limitation of the model, such as another device.

    Raises:
        ModelMismatch: A ValueError: the model has no times of the operator, or was trained on other features.
        ValueError: A kernel template has no cost counts.
    """
    part = model.of(task.problem)
    if not isinstance(estimates, AnalyticEstimates):
        silent = ", ".join(t.name for t in task.templates if t.counts is None)
        raise ValueError(f"models cannot predict schedules of {silent}, whose cost is not stated: omit --model")
    corrected = estimates.corrected(part.predict)
    corrected.log_seconds(task.space.sample(1, 0))  # raises ModelMismatch for other features
    source = f"{name}, trained on {part.rows:,} {model.provenance} times of {task.problem.operator}"
    line = f"the search starts from {source}"
    if model.provenance == Provenance.ESTIMATED.value:
        line += ": these times were not measured"
    doubts = (f"{name} may be inaccurate: {doubt}" for doubt in _doubts(part, task))
    return WarmStart(corrected, estimates, source, (line, *doubts))


def _doubts(part: OperatorModel, task: SearchTask) -> list[str]:
    """Return the reasons why predictions may be worse than the held-out figures, one sentence each."""
    doubts, known = [], dict(part.templates)
    if task.device.name not in part.devices:
        doubts.append(f"the model has no times of {task.device.name}, only of {', '.join(part.devices)}")
    for name, version in task.versions.items():
        if name not in known:
            doubts.append(f"the model has no times of the kernel template {name}")
        elif known[name] != version:
            doubts.append(f"the kernel template {name} has changed since the model was trained")
    return doubts


def from_other_problems(store: Store, run: RunIdentity, task: SearchTask, estimates: Estimates) -> WarmStart:
    """Return a start from the times of other problems of the operator in a database.

    Args:
        store: The database. Equal contents give equal starts.
        run: Run, whose provenance and policy the times must have.
        task: Task of the search, whose own trials are excluded. Times on its device are read first, then those on
            others, MOST_TIMES at most.
        estimates: Estimates of the analytic model.

    Returns:
        The start; only ``estimates`` if there are fewer than FEWEST_TIMES times.
    """
    if not isinstance(estimates, AnalyticEstimates):
        return WarmStart(estimates)
    trials = _of_other_problems(store, run)
    if sum(trial.ok for trial in trials) < FEWEST_TIMES:
        return WarmStart(estimates)
    from autosched.tuning.training_data import TrainingData, observations_of, usable
    from cost_models.trees.boosted import ModelMismatch
    from cost_models.trees.training import TRAINING, fitted

    data = usable(TrainingData(tuple(observations_of(trials[:MOST_TIMES], {})), {}, 0))
    if data.rows < FEWEST_TIMES:
        return WarmStart(estimates)
    (part,) = fitted(data.observations, replace(TRAINING, members=1))
    corrected = estimates.corrected(part.predict)
    try:
        corrected.log_seconds(task.space.sample(1, 0))
    except ModelMismatch:  # for those problems, the templates have other parameters
        return WarmStart(estimates)
    problems, times = len(data.observations), f"{data.rows:,} {run.provenance.value} times"
    source = f"{times} of {problems} other {'problem' if problems == 1 else 'problems'} in {store.name}"
    return WarmStart(corrected, estimates, source, (f"the search starts from {source}",))


def _of_other_problems(store: Store, run: RunIdentity) -> list[Trial]:
    """Return up to about MOST_TIMES trials of the operator's other problems, those on the same device first."""
    trials: list[Trial] = []
    own = run.problem.key(), run.device.name
    stored = [s for s in store.problems(run.problem.operator) if s.ok and (s.problem_key, s.device) != own]
    stored = [s for s in stored if s.provenance is run.provenance and run.policy in (None, s.policy)]
    for summary in sorted(stored, key=lambda s: (s.device != run.device.name, s.first)):
        if len(trials) >= MOST_TIMES:
            break
        try:
            other = store.problem(summary)
        except ValueError:  # the trial is from another version; the command 'best' reports this
            continue
        trials += store.trials(other, summary.device, run.provenance, policy=run.policy)
    return trials
