"""What a search knows before its first trial, from a trained model or from other problems' times in its database, and
what that was worth in the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cost_models.estimates import AnalyticEstimates, Estimates, estimates_of
from measurements.records.measurement import Provenance
from measurements.records.record import Record
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem
from search_spaces.spaces.search_space import SearchSpace
from search_spaces.templates.template import TemplateSet

if TYPE_CHECKING:
    from cost_models.trees.trained_model import TrainedModel
    from measurements.store.store import Store

FEWEST_TIMES = 32  # of other problems: fewer teach nothing that the analytic model does not know
MOST_TIMES = 2000  # those of this device first: they are learned from in seconds
FEWEST_JUDGED = 8  # times of a run, to say what the start was worth


@dataclass(frozen=True)
class WarmStart:
    """Estimates to start from, and where they come from.

    Attributes:
        estimates: What samplers read.
        analytic: Estimates of the analytic model where ``estimates`` are those of a trained one; else None.
        source: What the trained model learned from; "" for none.
        lines: Lines for people on the source and its doubts.
    """

    estimates: Estimates
    analytic: Estimates | None = None
    source: str = ""
    lines: tuple[str, ...] = ()

    def worth(self, records: Sequence[Record]) -> str:
        """Return how well the estimates foresaw the times of a run; "" without a trained model or with few times."""
        from cost_models.trees.evaluation import rank_correlation

        times = {r.schedule: r.seconds for r in records if r.seconds is not None}
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
            f"{self.source}: its order agrees with this run's times to {agrees:.2f} (the analytic model's alone to "
            f"{without:.2f}; 1 is the same order); the first five trials came within {100 * first:.1f} % of the best"
        )


def loaded(path: str | Path) -> TrainedModel:
    """Return the model in a file. Raises ModelMismatch, a ValueError, for one that cannot be used, and where there is
    none."""
    from cost_models.trees.boosted import ModelMismatch
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
    analytic = _analytic(templates, problem, device, space)
    estimates = analytic.corrected(part.predict)
    estimates.log_seconds(space.sample(1, 0))  # raises ModelMismatch for other features
    source = f"{name}, which knows {part.rows:,} {model.provenance} times of {problem.operator}"
    said = f"the search starts from {source}"
    if model.provenance == Provenance.ESTIMATED.value:
        said += ": these were no measurements"
    doubts = part.doubts(problem, device, templates)
    return WarmStart(estimates, analytic, source, (said, *(f"doubt {name}: {doubt}" for doubt in doubts)))


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
    analytic = estimates_of(problem, templates, device, space)
    if not isinstance(analytic, AnalyticEstimates):
        return WarmStart(analytic)
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
        return WarmStart(analytic)
    from autosched.tuning.training_data import TrainingData, observations_of, usable
    from cost_models.trees.boosted import ModelMismatch
    from cost_models.trees.training import TRAINING, fitted

    found = usable(TrainingData(tuple(observations_of(records[:MOST_TIMES], {})), {}, 0))
    if found.rows < FEWEST_TIMES:
        return WarmStart(analytic)
    (part,) = fitted(found.observations, replace(TRAINING, members=1))
    learned = analytic.corrected(part.predict)
    try:
        learned.log_seconds(space.sample(1, 0))
    except ModelMismatch:  # of templates that have other parameters for those problems
        return WarmStart(analytic)
    problems, times = len(found.observations), f"{found.rows:,} {provenance.value} times"
    source = f"{times} of {problems} other {'problem' if problems == 1 else 'problems'} in {store.name}"
    return WarmStart(learned, analytic, source, (f"the search starts from {source}",))


def _analytic(templates: TemplateSet, problem: Problem, device: Device, space: SearchSpace) -> AnalyticEstimates:
    estimates = estimates_of(problem, templates, device, space)
    if not isinstance(estimates, AnalyticEstimates):
        silent = ", ".join(t.name for t in templates if t.counts is None)
        raise ValueError(f"a model cannot see schedules of {silent}, whose cost is not stated: leave --model out")
    return estimates
