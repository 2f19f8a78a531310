"""What a search knows before its first trial, from a trained model or from other problems' times in its database, and
what that was worth in the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from autosched.samplers.base import Matrix, Prior
from autosched.samplers.first_choices.prior import AnalyticPrior, prior_of
from measurements.records.measurement import Provenance
from measurements.records.record import Record
from search_spaces.arrays import FloatArray
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace
from search_spaces.templates.template import TemplateSet

if TYPE_CHECKING:
    from cost_models.trees.trained_model import OperatorModel, TrainedModel
    from measurements.store.store import Store

FEWEST_TIMES = 32  # of other problems: fewer teach nothing that the analytic model does not know
MOST_TIMES = 2000  # those of this device first: they are learned from in seconds
FEWEST_JUDGED = 8  # times of a run, to say what the start was worth
_REMEMBERED = 1 << 16  # schedules


class LearnedPrior:
    """The features of the analytic prior, and a trained model's time in place of the analytic one."""

    def __init__(self, analytic: AnalyticPrior, model: OperatorModel) -> None:
        self.analytic = analytic
        self._model = model
        self._guesses: dict[Schedule, float] = {}

    def features(self, schedules: Sequence[Schedule]) -> Matrix:
        return self.analytic.features(schedules)

    def log_seconds(self, schedules: Sequence[Schedule]) -> FloatArray:
        """[n]; infinite for a schedule that does not fit on the device."""
        new = [s for s in dict.fromkeys(schedules) if s not in self._guesses]
        if len(self._guesses) + len(new) > _REMEMBERED:
            self._guesses.clear()
            new = list(dict.fromkeys(schedules))
        if new:
            fits = np.isfinite(self.analytic.log_seconds(new))
            guesses = np.full(len(new), math.inf)
            guesses[fits] = self._model.predict(self.analytic.table([s for s, f in zip(new, fits, strict=True) if f]))
            self._guesses.update(zip(new, guesses.tolist(), strict=True))
        return np.array([self._guesses[s] for s in schedules], dtype=np.float64)


@dataclass(frozen=True)
class WarmStart:
    """``prior`` for a sampler; ``lines`` say for people where it comes from, and what to doubt. ``source`` is what it
    learned from, "" where that is nothing."""

    prior: Prior
    source: str = ""
    lines: tuple[str, ...] = ()

    def worth(self, records: Sequence[Record]) -> str:
        """How well it foresaw the times of a run, for people; "" where there was no warm start or too few times."""
        from cost_models.trees.evaluation import rank_correlation

        times = {r.schedule: r.seconds for r in records if r.seconds is not None}
        if not isinstance(self.prior, LearnedPrior) or len(times) < FEWEST_JUDGED:
            return ""
        schedules, seconds = list(times), np.array(list(times.values()))
        guesses, analytic = self.prior.log_seconds(schedules), self.prior.analytic.log_seconds(schedules)
        judged = np.isfinite(guesses)
        if judged.sum() < FEWEST_JUDGED:
            return ""
        agrees = rank_correlation(guesses[judged], seconds[judged])
        without = rank_correlation(analytic[judged], seconds[judged])
        first = seconds[:5].min() / seconds.min() - 1.0
        return (
            f"{self.source}: its order agrees with this run's times to {agrees:.2f} (the analytic model's alone to "
            f"{without:.2f}; 1 is the same order); the first five trials came within {100 * first:.1f} % of the best"
        )


def loaded(path: str | Path) -> TrainedModel:
    """Return the model in a file. Raises ModelMismatch, a ValueError, for one that cannot be used, and where there is
    none."""
    from cost_models.trees.boosted import ModelMismatch  # with xgboost, which takes a second
    from cost_models.trees.trained_model import TrainedModel

    try:
        return TrainedModel.load(path)
    except OSError as error:
        raise ModelMismatch(f"the cost model {path} cannot be read ({error.strerror}): name another file") from error


def from_model(
    model: TrainedModel, name: str, templates: TemplateSet, problem: Problem, device: Device, space: SearchSpace
) -> WarmStart:
    """Return a start from a trained model.

    Args:
        model: What ``autosched train`` wrote.
        name: Of its file, for people.
        templates: Those that are searched.
        problem: What is computed.
        device: The GPU.
        space: The space of all ``templates``.

    Returns:
        The start, with a line for each doubt about the model: another device, shapes far from those that it knows.

    Raises:
        ModelMismatch: A ValueError: the model does not know the operator, or was trained on other features.
    """
    part = model.of(problem)
    prior = LearnedPrior(_analytic(templates, problem, device, space), part)
    prior.log_seconds(space.sample(1, 0))  # raises ModelMismatch for other features
    source = f"{name}, which knows {part.rows:,} {model.provenance} times of {problem.operator}"
    said = f"the search starts from {source}"
    if model.provenance == Provenance.ESTIMATED.value:
        said += ": these were no measurements"
    doubts = part.doubts(problem, device, templates)
    return WarmStart(prior, source, (said, *(f"doubt {name}: {doubt}" for doubt in doubts)))


def from_other_problems(
    store: Store,
    provenance: Provenance,
    templates: TemplateSet,
    problem: Problem,
    device: Device,
    space: SearchSpace,
    *,
    policy: str | None = None,
) -> WarmStart:
    """Return a start from the times that a database holds of other problems of the operator.

    Args:
        store: The database; the same content gives the same start.
        provenance: Only times of this provenance count.
        templates: Those that are searched.
        problem: What is computed; its own trials on ``device`` are left out.
        device: The GPU; times on it are read first, then those on others, MOST_TIMES at most.
        space: The space of all ``templates``.
        policy: Only times taken so; None for any.

    Returns:
        The start; with the analytic model alone where there are fewer than FEWEST_TIMES.
    """
    prior = prior_of(templates, problem, device, space)
    if not isinstance(prior, AnalyticPrior):
        return WarmStart(prior)
    records: list[Record] = []
    others = [
        s
        for s in store.problems(problem.operator)
        if s.provenance is provenance and policy in (None, s.policy) and s.ok
    ]
    others = [s for s in others if s.problem_key != problem.key() or s.device != device.name]
    for summary in sorted(others, key=lambda s: (s.device != device.name, s.first)):
        if len(records) >= MOST_TIMES:
            break
        try:
            other = store.problem(summary)
        except ValueError:  # of another version: 'best' says so
            continue
        records += store.trials(other, summary.device, provenance, policy=policy)
    if sum(record.ok for record in records) < FEWEST_TIMES:
        return WarmStart(prior)
    from autosched.tuning.training_data import TrainingData, observations_of, usable
    from cost_models.trees.boosted import ModelMismatch
    from cost_models.trees.training import TRAINING, fitted

    found = usable(TrainingData(tuple(observations_of(records[:MOST_TIMES], {})), {}, 0))
    if found.rows < FEWEST_TIMES:
        return WarmStart(prior)
    (part,) = fitted(found.observations, replace(TRAINING, members=1))
    learned = LearnedPrior(prior, part)
    try:
        learned.log_seconds(space.sample(1, 0))
    except ModelMismatch:  # of templates that have other parameters for those problems
        return WarmStart(prior)
    problems, times = len(found.observations), f"{found.rows:,} {provenance.value} times"
    source = f"{times} of {problems} other {'problem' if problems == 1 else 'problems'} in {store.name}"
    return WarmStart(learned, source, (f"the search starts from {source}",))


def _analytic(templates: TemplateSet, problem: Problem, device: Device, space: SearchSpace) -> AnalyticPrior:
    prior = prior_of(templates, problem, device, space)
    if not isinstance(prior, AnalyticPrior):
        silent = ", ".join(t.name for t in templates if t.counts is None)
        raise ValueError(f"a model cannot see schedules of {silent}, whose cost is not stated: leave --model out")
    return prior
