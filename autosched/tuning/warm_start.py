"""Warm start of a search: estimates from a trained model, or learned from other problems' times in the database."""

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

# minimum number of stored times for training a model; with fewer, it is not better than the analytic model
FEWEST_TIMES = 32
MOST_TIMES = 2000  # maximum number of stored times for training a model, so that training takes only seconds
FEWEST_JUDGED = 8  # minimum number of timed trials in a run for which the accuracy of the warm start is reported


@dataclass(frozen=True)
class WarmStart:
    """Estimated times with which a search starts, and the source of these times.

    Attributes:
        estimates: Estimates for samplers.
        analytic: Estimates of the analytic model, if ``estimates`` come from a trained model; else None.
        source: Description of the trained model and its training data; "" without a trained model.
        lines: Messages on the trained model and its limitations.
    """

    estimates: Estimates
    analytic: Estimates | None = None
    source: str = ""
    lines: tuple[str, ...] = ()

    def worth(self, trials: Sequence[Trial]) -> str:
        """Describe how well the estimates agree with the times of ``trials``.

        Returns "" if there is no trained model, or if there are too few times.
        """
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
    """Load a trained model. Raises ModelMismatch, a ValueError, if the file is unsuitable or cannot be read."""
    from cost_models.trees.boosted import ModelMismatch
    from cost_models.trees.trained_model import TrainedModel

    try:
        return TrainedModel.load(path)
    except OSError as error:
        raise ModelMismatch(f"the cost model {path} cannot be read ({error.strerror}): name another file") from error


def from_model(model: TrainedModel, name: str, task: SearchTask, estimates: Estimates) -> WarmStart:
    """Return a warm start from a trained model.

    Args:
        model: Model of ``autosched train``.
        name: Name of the model's file, for messages.
        task: Task of the search.
        estimates: Estimates of the analytic model.

    Returns:
        The warm start, with a message for each limitation of the model, for example that it was trained on other
        devices.

    Raises:
        ModelMismatch: The model has no times of the operator, or was trained on other features. A ValueError.
        ValueError: A kernel template has no cost counts.
    """
    part = model.of(task.problem)
    if not isinstance(estimates, AnalyticEstimates):
        silent = ", ".join(t.name for t in task.templates if t.counts is None)
        raise ValueError(
            f"trained models cannot predict schedules of {silent}, which have no cost counts: omit --model"
        )
    corrected = estimates.corrected(part.predict)
    corrected.log_seconds(task.space.sample(1, 0))  # raises ModelMismatch if the model was trained on other features
    source = f"{name}, trained on {part.rows:,} {model.provenance} times of {task.problem.operator}"
    line = f"the search starts from {source}"
    if model.provenance == Provenance.ESTIMATED.value:
        line += ": these times were not measured"
    doubts = (f"{name} may be inaccurate: {doubt}" for doubt in _doubts(part, task))
    return WarmStart(corrected, estimates, source, (line, *doubts))


def _doubts(part: OperatorModel, task: SearchTask) -> list[str]:
    """Return the reasons why predictions may be worse than in the model's evaluation, one sentence each."""
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
    """Return a warm start learned from stored times of the operator, mostly of other problems.

    Args:
        store: The database. Equal contents give equal results.
        run: The run. Only times of its provenance and policy are used.
        task: Task of the search. Trials of the task's problem on the task's device are excluded. At most MOST_TIMES
            stored times are read. Times on the task's device are read before times on other devices.
        estimates: Estimates of the analytic model.

    Returns:
        The warm start. It contains only ``estimates`` if fewer than FEWEST_TIMES usable times were read.
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
    except ModelMismatch:  # skip problems for which the templates have other parameters
        return WarmStart(estimates)
    problems, times = len(data.observations), f"{data.rows:,} {run.provenance.value} times"
    source = f"{times} of {problems} other {'problem' if problems == 1 else 'problems'} in {store.name}"
    return WarmStart(corrected, estimates, source, (f"the search starts from {source}",))


def _of_other_problems(store: Store, run: RunIdentity) -> list[Trial]:
    """Return about MOST_TIMES trials of the operator, except trials of the run's problem on the run's device.

    Trials on the run's device come first.
    """
    trials: list[Trial] = []
    excluded = run.problem.key(), run.device.name
    stored = [s for s in store.problems(run.problem.operator) if s.ok and (s.problem_key, s.device) != excluded]
    stored = [s for s in stored if s.provenance is run.provenance and run.policy in (None, s.policy)]
    for summary in sorted(stored, key=lambda s: (s.device != run.device.name, s.first)):
        if len(trials) >= MOST_TIMES:
            break
        try:
            other = store.problem(summary)
        # skip a problem whose trials are from another version; the command 'best' reports such trials
        except ValueError:
            continue
        trials += store.trials(other, summary.device, run.provenance, policy=run.policy)
    return trials
