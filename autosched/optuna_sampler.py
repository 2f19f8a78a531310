"""The sampler ``bayes`` for any Optuna study.

    study = optuna.create_study(sampler=autosched.StudySampler(seed=0))

Storages, callbacks, the dashboard and parallel workers work as with every sampler of Optuna: its state is the study.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from autosched.search.acquisition import expected_improvement
from autosched.search.bayes import Settings
from cost_models import feasibility, gaussian_process
from cost_models.covariance import Columns, Hyperparameters, coordinates
from cost_models.gaussian_process import GrowingPosterior, Scale
from search_spaces.arrays import FloatArray

Params = dict[str, Any]

_FIRST = 5  # trials before the model decides
_GROWTH = 1.15
_RANDOM = 384  # candidates of a draw
_DRAWS = 16  # at most, until _ENOUGH of them are legal
_ENOUGH = 128
_NEAR = 384
_ELITE = 5
_ROUNDS = 3
_MOST = 384  # trials that the model looks at
_STATES = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL, TrialState.RUNNING)


class StudySampler(BaseSampler):
    """The largest expected improvement beyond a margin, under the Gaussian process that ``tune`` uses.

    Trials that failed, were pruned, or broke a constraint (``Trial.set_constraint``) have no value: from them the
    sampler learns where trials fail, apart from the values. Running ones count as what the model expects, so that
    parallel workers spread out. A categorical parameter whose choices are ascending numbers, such as tile sizes, is
    taken as an ordinal one. ``legal`` says which parameters may be proposed, and gets those of a single value, too; the
    sampler learns which parameters there are from trials that were completed or pruned, so until there is one their
    values are drawn one by one: prune illegal trials. Parameters that not every trial has are sampled at random.

    Raises ValueError for a study of several objectives.
    """

    def __init__(self, seed: int | None = None, legal: Callable[[Mapping[str, Any]], bool] | None = None) -> None:
        self._rng = np.random.default_rng(seed)
        self._random = RandomSampler(seed=seed)
        self._legal = legal
        self._common = IntersectionSearchSpace(include_pruned=True)
        self._fixed: Params = {}
        self._fitted: tuple[int, tuple[str, ...], Hyperparameters, Hyperparameters | None] | None = None

    def reseed_rng(self) -> None:
        """As Optuna asks of samplers that are copied to other workers."""
        self._rng = np.random.default_rng()
        self._random.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters that all trials so far have in common."""
        space = self._common.calculate(study)
        self._fixed = {name: _unscale(0.0, found) for name, found in space.items() if found.single()}
        return {name: found for name, found in space.items() if not found.single()}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A random value."""
        return self._random.sample_independent(study, trial, param_name, param_distribution)

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]) -> Params:
        """The parameters of the largest expected improvement; none, to be sampled at random, for the first trials."""
        if len(study.directions) > 1:
            raise ValueError("StudySampler optimises one objective: give a study with one direction")
        trials = [t for t in study.get_trials(deepcopy=False, states=_STATES) if t.number != trial.number]
        trials = [t for t in trials if search_space.keys() <= t.params.keys()]
        values, works = _values(trials, study.direction), _works(trials)
        if not search_space or np.count_nonzero(~np.isnan(works)) < _FIRST or np.isnan(values).all():
            return {} if not search_space or self._legal is None else self._candidates([], search_space)[0]
        tried = {tuple(t.params[name] for name in search_space) for t in trials}
        kept = _kept(values, works)
        trials, values, works = [trials[i] for i in kept], values[kept], works[kept]
        rows = coordinates(_rows([t.params for t in trials], search_space))
        of_values, of_failures = self._hyperparameters(rows, values, works, tuple(search_space))
        scale = Scale.of(values[~np.isnan(values)])
        order = np.argsort(-np.nan_to_num(values, nan=-math.inf), kind="stable")[:_ELITE]
        candidates = self._candidates([trials[i].params for i in order], search_space)
        best: Params = candidates[0]
        for _ in range(_ROUNDS):
            fresh = [c for c in candidates if tuple(c[name] for name in search_space) not in tried]
            if not fresh:
                break
            places = coordinates(_rows(fresh, search_space))
            posterior = GrowingPosterior(places, of_values)
            posterior.observe(rows)
            scaled = posterior.believed(scale.down(values))
            reached = float(posterior.fitted(scaled)[works != 0].max())
            probable = np.ones(len(fresh))
            if of_failures is not None:
                fails = GrowingPosterior(places, of_failures)
                fails.observe(rows)
                probable = feasibility.probability(fails, works)
            worth = expected_improvement(posterior.predict(scaled), reached + Settings.margin) * probable
            best = fresh[int(worth.argmax())]
            candidates = [best, *self._moved([best] * 32, search_space, 1)]
        return best

    def _hyperparameters(
        self, rows: Columns, values: FloatArray, works: FloatArray, names: tuple[str, ...]
    ) -> tuple[Hyperparameters, Hyperparameters | None]:
        """Of the values, and of what works where anything failed; fitted again at ``_GROWTH`` times the results."""
        finished = ~np.isnan(works)
        count = int(finished.sum())
        if self._fitted is None or self._fitted[1] != names or count >= self._fitted[0] * _GROWTH:
            known = ~np.isnan(values)
            scaled = Scale.of(values[known]).down(values[known])
            of_values = gaussian_process.hyperparameters(rows[:, known], scaled, gaussian_process.Settings(starts=1))
            of_failures = None
            if (works == 0).any():
                of_failures = feasibility.hyperparameters(rows[:, finished], works[finished])
            self._fitted = count, names, of_values, of_failures
        return self._fitted[2:]

    def _candidates(self, best: Sequence[Params], space: Mapping[str, BaseDistribution]) -> list[Params]:
        """Random parameters, and the best ones with one or two changes; legal ones where there are any."""
        allowed: list[Params] = []
        for _ in range(_DRAWS):
            random = [_random(space, self._rng) for _ in range(_RANDOM)]
            allowed += self._allowed(random)
            if len(allowed) >= _ENOUGH:
                break
        parents = [best[i] for i in self._rng.integers(len(best), size=_NEAR)] if best else []
        return [*allowed, *self._moved(parents, space, 2)] or random

    def _moved(self, parents: Sequence[Params], space: Mapping[str, BaseDistribution], most: int) -> list[Params]:
        names, moved = list(space), []
        for parent in parents:
            child = {name: parent[name] for name in names}
            for i in self._rng.permutation(len(names))[: self._rng.integers(1, most + 1)]:
                child[names[i]] = _near(child[names[i]], space[names[i]], self._rng)
            moved.append(child)
        return self._allowed(moved)

    def _allowed(self, candidates: Sequence[Params]) -> list[Params]:
        return [c for c in candidates if self._legal is None or self._legal(self._fixed | c)]


def _failed(trial: FrozenTrial) -> bool:
    """Whether a trial that is finished has no value that counts. Optuna's trials have constraints since version 5."""
    broken = any(value > 0 for value in getattr(trial, "constraints", {}).values())
    return trial.state is not TrialState.COMPLETE or trial.value is None or not math.isfinite(trial.value) or broken


def _works(trials: Sequence[FrozenTrial]) -> FloatArray:
    """1 for a trial with a value, 0 for a failure, NaN for a running trial."""
    return np.array(
        [math.nan if t.state is TrialState.RUNNING else float(not _failed(t)) for t in trials], dtype=np.float64
    )


def _values(trials: Sequence[FrozenTrial], direction: StudyDirection) -> FloatArray:
    """1 for the best, and less for others; NaN for a failure and for a running trial.

    Positive objectives are compared by their ratio to the best, as times are; others by their place between the worst
    and the best.
    """
    sign = 1.0 if direction is StudyDirection.MAXIMIZE else -1.0
    found = np.full(len(trials), np.nan)
    for i, trial in enumerate(trials):
        if trial.value is not None and not _failed(trial):
            found[i] = trial.value
    if np.isnan(found).all():
        return found
    low, high = float(np.nanmin(found)), float(np.nanmax(found))
    if low > 0:
        return found / high if sign > 0 else low / found
    best = high if sign > 0 else low
    return 1 - sign * (best - found) / ((high - low) or 1.0)


def _kept(values: FloatArray, works: FloatArray) -> list[int]:
    """The trials that the model looks at: all, or those that run, the best, and the newest others."""
    if len(values) <= _MOST:
        return list(range(len(values)))
    worth = np.where(np.isnan(works), math.inf, np.nan_to_num(values, nan=-math.inf))
    order = np.argsort(-worth, kind="stable").tolist()
    kept = set(order[: _MOST // 2])
    kept.update([i for i in range(len(values) - 1, -1, -1) if i not in kept][: _MOST - len(kept)])
    return sorted(kept)


def _is_ordinal(found: CategoricalDistribution) -> bool:
    numbers = [c for c in found.choices if isinstance(c, (int, float)) and not isinstance(c, bool)]
    return len(numbers) == len(found.choices) and all(a < b for a, b in itertools.pairwise(numbers))


def _scale(value: Any, found: BaseDistribution) -> float:
    """The coordinate of a value."""
    if isinstance(found, CategoricalDistribution):
        position = found.choices.index(value)
        if not _is_ordinal(found):
            return float(position)
        numbers = [float(c) for c in found.choices if isinstance(c, (int, float))]
        if numbers[0] < 0:
            return position / (len(numbers) - 1)
        low, high = math.log2(1 + numbers[0]), math.log2(1 + numbers[-1])
        return (math.log2(1 + float(value)) - low) / (high - low)
    assert isinstance(found, (IntDistribution, FloatDistribution))
    low, high = float(found.low), float(found.high)
    if found.log:
        return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low))
    return (float(value) - low) / (high - low)


def _unscale(at: float, found: BaseDistribution) -> Any:
    if isinstance(found, CategoricalDistribution):
        return found.choices[min(int(at * len(found.choices)), len(found.choices) - 1)]
    assert isinstance(found, (IntDistribution, FloatDistribution))
    low, high = float(found.low), float(found.high)
    value = math.exp(math.log(low) + at * math.log(high / low)) if found.log else low + at * (high - low)
    if isinstance(found, IntDistribution):
        return int(min(max(found.low + round((value - low) / found.step) * found.step, found.low), found.high))
    if found.step is not None:
        value = low + round((value - low) / found.step) * found.step
    return float(min(max(value, low), high))


def _random(space: Mapping[str, BaseDistribution], rng: np.random.Generator) -> Params:
    return {name: _unscale(float(rng.random()), found) for name, found in space.items()}


def _near(value: Any, found: BaseDistribution, rng: np.random.Generator) -> Any:
    """Another value: the next one of an ordinal, something near of a float, any of a categorical."""
    if isinstance(found, CategoricalDistribution):
        position, last = found.choices.index(value), len(found.choices) - 1
        if _is_ordinal(found) and rng.random() < 0.5:
            step = 1 if rng.random() < 0.5 else -1
            return found.choices[min(max(position + step, 0), last)]
        return found.choices[(position + int(rng.integers(1, last + 1))) % (last + 1)]
    assert isinstance(found, (IntDistribution, FloatDistribution))
    if isinstance(found, IntDistribution) and rng.random() < 0.5:
        step = found.step if rng.random() < 0.5 else -found.step
        return int(min(max(value + step, found.low), found.high))
    return _unscale(min(max(_scale(value, found) + 0.15 * float(rng.normal()), 0.0), 1.0), found)


def _rows(params: Sequence[Mapping[str, Any]], space: Mapping[str, BaseDistribution]) -> FloatArray:
    return np.array([[_scale(p[name], found) for name, found in space.items()] for p in params], dtype=np.float64)
