"""Optuna sampler that brings Bayesian optimisation as in ``tune`` to any Optuna study.

    study = optuna.create_study(sampler=autosched.StudySampler(seed=0))

Storages, callbacks, the dashboard and parallel workers work as usual, because the sampler has no state apart from the
study.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from autosched import blas
from autosched.samplers.bayes.acquisition import expected_improvement
from autosched.samplers.bayes.settings import GuessTrust
from autosched.samplers.optuna.axes import Axis, Code, axis
from cost_models import feasibility, gaussian_process
from cost_models.covariance import Columns, Hyperparameters, coordinates
from cost_models.gaussian_process import IncrementalPosterior, Scale
from search_spaces.arrays import FloatArray

Params = dict[str, Any]
Codes = tuple[Code, ...]  # a candidate: one code for each parameter
Legal = Callable[[Codes], bool]

_FIRST = 5  # number of random trials before the model is used
_GROWTH = 1.15
_RANDOM = 384  # number of candidates per draw
_DRAWS = 16  # maximum number of draws of candidates; no more are drawn once _ENOUGH candidates are legal
_ENOUGH = 128
_NEAR = 384
_ELITE = 5
_ROUNDS = 3
_MOST = 384  # maximum number of trials in the model
_STATES = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL, TrialState.RUNNING)


class StudySampler(BaseSampler):
    """Optuna sampler that maximises the expected improvement under the Gaussian process that ``tune`` uses.

    Trials that failed, were pruned, or violated a constraint (``Trial.set_constraint``) have no value. From such
    trials, a second model learns which parameters fail. Running trials are imputed with their predicted mean (kriging
    believer), so that parallel workers spread out. A categorical parameter with ascending numbers as choices, such as
    tile sizes, is treated as ordinal.

    The model covers the parameters that occur, with the same range, in all completed and pruned trials. Other
    parameters are sampled at random and not passed to ``legal``. Until a trial is completed or pruned, all values are
    sampled independently and may be illegal: prune illegal trials. If no legal candidate is found, the sampler warns
    once and proposes an illegal candidate.

    Args:
        legal: Function of all parameters, including parameters with a single value. Only parameters for which it
            returns True are proposed.

    Raises:
        ValueError: The study has several objectives.
    """

    def __init__(self, seed: int | None = None, legal: Callable[[Mapping[str, Any]], bool] | None = None) -> None:
        self._rng = np.random.default_rng(seed)
        self._random = RandomSampler(seed=seed)
        self._legal = legal
        self._common = IntersectionSearchSpace(include_pruned=True)
        self._fixed: Params = {}
        self._warned = False
        self._fitted: tuple[int, tuple[str, ...], Hyperparameters, Hyperparameters | None] | None = None

    def reseed_rng(self) -> None:
        """Draw a new seed. Optuna calls this for samplers that are copied to other workers."""
        self._rng = np.random.default_rng()
        self._random.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return the parameters that all trials so far have in common."""
        space = self._common.calculate(study)
        single = {name: axis(distribution) for name, distribution in space.items() if distribution.single()}
        self._fixed = {name: only.value(only.random(self._rng)) for name, only in single.items()}
        return {name: distribution for name, distribution in space.items() if not distribution.single()}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Return a random value."""
        return self._random.sample_independent(study, trial, param_name, param_distribution)

    @blas.single_thread()
    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]) -> Params:
        """Return the values with the largest expected improvement; {} for the first trials, which are random."""
        if len(study.directions) > 1:
            raise ValueError("StudySampler does not support several objectives: use a study with one direction")
        trials = [t for t in study.get_trials(deepcopy=False, states=_STATES) if t.number != trial.number]
        trials = [t for t in trials if search_space.keys() <= t.params.keys()]
        names, axes = tuple(search_space), [axis(distribution) for distribution in search_space.values()]
        coded_trials = [(t, own) for t in trials if (own := _codes_of(t, names, axes)) is not None]
        trials, codes = [t for t, _ in coded_trials], [own for _, own in coded_trials]
        values, works = _values(trials, study.direction), _works(trials)

        def params(codes: Codes) -> Params:
            return {name: one.value(code) for name, one, code in zip(names, axes, codes, strict=True)}

        def legal(codes: Codes) -> bool:
            return self._legal is None or self._legal(self._fixed | params(codes))

        finished = int(np.count_nonzero(~np.isnan(works)))
        if not search_space or finished < _FIRST or np.isnan(values).all():
            return {} if not search_space or self._legal is None else params(self._candidates([], axes, legal)[0])
        tried = set(codes)
        selected = _selected(values, works)
        codes, values, works = [codes[i] for i in selected], values[selected], works[selected]
        rows = _rows(codes, axes)
        of_values, of_failures = self._hyperparameters(rows, values, works, names, finished)
        scale = Scale.of(values[~np.isnan(values)])
        order = np.argsort(-np.nan_to_num(values, nan=-math.inf), kind="stable")[:_ELITE]
        candidates = self._candidates([codes[i] for i in order], axes, legal)
        best = candidates[0]
        for _ in range(_ROUNDS):
            fresh = [c for c in candidates if c not in tried]
            if not fresh:
                break
            columns = _rows(fresh, axes)
            posterior = IncrementalPosterior(columns, of_values)
            posterior.observe(rows)
            scaled = posterior.impute_pending(scale.down(values))
            reached = float(posterior.fitted(scaled)[works != 0].max())
            probable = np.ones(len(fresh))
            if of_failures is not None:
                fails = IncrementalPosterior(columns, of_failures)
                fails.observe(rows)
                probable = feasibility.probability(fails, works)
            worth = expected_improvement(posterior.predict(scaled), reached + GuessTrust.margin) * probable
            best = fresh[int(worth.argmax())]
            candidates = [best, *self._moved([best] * 32, axes, 1, legal)]
        return params(best)

    def _hyperparameters(
        self, rows: Columns, values: FloatArray, works: FloatArray, names: tuple[str, ...], count: int
    ) -> tuple[Hyperparameters, Hyperparameters | None]:
        """Return the hyperparameters of the model of values and, if any trial failed, those of the model of failures.

        Hyperparameters are fitted again when the number of results has grown by ``_GROWTH``, and at the first failure.
        ``count`` is the number of all results, including results that the model does not use.
        """
        fitted, failed = self._fitted, bool((works == 0).any())
        if fitted is None or fitted[1] != names or count >= fitted[0] * _GROWTH or (failed and fitted[3] is None):
            finished, known = ~np.isnan(works), ~np.isnan(values)
            scaled = Scale.of(values[known]).down(values[known])
            of_values = gaussian_process.hyperparameters(
                rows[:, known], scaled, gaussian_process.GaussianProcessSettings(starts=1)
            )
            of_failures = None
            if failed:
                of_failures = feasibility.hyperparameters(rows[:, finished], works[finished])
            self._fitted = fitted = count, names, of_values, of_failures
        return fitted[2:]

    def _candidates(self, best: Sequence[Codes], axes: Sequence[Axis], legal: Legal) -> list[Codes]:
        """Return random candidates and mutants of the best trials; only legal ones, if any candidate is legal."""
        allowed: list[Codes] = []
        for _ in range(_DRAWS):
            random = [tuple(one.random(self._rng) for one in axes) for _ in range(_RANDOM)]
            allowed += filter(legal, random)
            if len(allowed) >= _ENOUGH:
                break
        parents = [best[i] for i in self._rng.integers(len(best), size=_NEAR)] if best else []
        candidates = [*allowed, *self._moved(parents, axes, 2, legal)]
        if not candidates and not self._warned:
            self._warned = True
            warnings.warn(
                f"none of {_DRAWS * _RANDOM:,} random candidates is legal, so an illegal one is proposed: check the "
                "predicate ``legal``, or use narrower ranges",
                stacklevel=2,
            )
        return candidates or random

    def _moved(self, parents: Sequence[Codes], axes: Sequence[Axis], most: int, legal: Legal) -> list[Codes]:
        moved = []
        for parent in parents:
            child = list(parent)
            for i in self._rng.permutation(len(axes))[: self._rng.integers(1, most + 1)]:
                child[i] = axes[i].near(child[i], self._rng)
            moved.append(tuple(child))
        return list(filter(legal, moved))


def _codes_of(trial: FrozenTrial, names: Sequence[str], axes: Sequence[Axis]) -> Codes | None:
    """Return the codes of a trial's values; None if a choice is unknown, for example in another study's trials."""
    try:
        return tuple(one.code(trial.params[name]) for name, one in zip(names, axes, strict=True))
    except (ValueError, TypeError):
        return None


def _failed(trial: FrozenTrial) -> bool:
    """Return True if a finished trial has no usable value.

    Trials have constraints only in Optuna 5 and newer.
    """
    broken = any(value > 0 for value in getattr(trial, "constraints", {}).values())
    return trial.state is not TrialState.COMPLETE or trial.value is None or not math.isfinite(trial.value) or broken


def _works(trials: Sequence[FrozenTrial]) -> FloatArray:
    """Return 1 for each trial with a value, 0 for each failure, and NaN for each running trial."""
    return np.array(
        [math.nan if t.state is TrialState.RUNNING else float(not _failed(t)) for t in trials], dtype=np.float64
    )


def _values(trials: Sequence[FrozenTrial], direction: StudyDirection) -> FloatArray:
    """Return the value of each trial: 1 for the best, less for other completed trials, NaN for failed and running ones.

    If all objective values are positive, a trial's value is the ratio of its objective to the best one, or the inverse
    ratio when minimising. Otherwise values are linear from 0 for the worst to 1 for the best objective.
    """
    sign = 1.0 if direction is StudyDirection.MAXIMIZE else -1.0
    values = np.full(len(trials), np.nan)
    for i, trial in enumerate(trials):
        if trial.value is not None and not _failed(trial):
            values[i] = trial.value
    if np.isnan(values).all():
        return values
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if low > 0:
        return values / high if sign > 0 else low / values
    best = high if sign > 0 else low
    # halve the values, because their difference may overflow a float
    return 1 - sign * (best / 2 - values / 2) / ((high / 2 - low / 2) or 1.0)


def _selected(values: FloatArray, works: FloatArray) -> list[int]:
    """Return the trials for the model: all trials, or if there are too many, the running, best and newest trials."""
    if len(values) <= _MOST:
        return list(range(len(values)))
    worth = np.where(np.isnan(works), math.inf, np.nan_to_num(values, nan=-math.inf))
    order = np.argsort(-worth, kind="stable").tolist()
    selected = set(order[: _MOST // 2])
    selected.update([i for i in range(len(values) - 1, -1, -1) if i not in selected][: _MOST - len(selected)])
    return sorted(selected)


def _rows(codes: Sequence[Codes], axes: Sequence[Axis]) -> Columns:
    return coordinates([[one.coordinate(code) for one, code in zip(axes, row, strict=True)] for row in codes])
