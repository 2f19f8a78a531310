"""The sampler ``bayes`` for any Optuna study.

    study = optuna.create_study(sampler=autosched.StudySampler(seed=0))

Storages, callbacks, the dashboard and parallel workers work as with every sampler of Optuna: its state is the study.
"""

from __future__ import annotations

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
from cost_models import gaussian_process
from cost_models.covariance import Hyperparameters, coordinates
from cost_models.gaussian_process import GrowingPosterior, Scale
from search_spaces.arrays import FloatArray

Params = dict[str, Any]

_FIRST = 5  # trials before the model decides
_GROWTH = 1.15
_RANDOM = 384  # candidates
_NEAR = 384
_ELITE = 5
_ROUNDS = 3
_MOST = 384  # trials that the model looks at: the best half and the newest others
_STATES = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL, TrialState.RUNNING)


class StudySampler(BaseSampler):
    """Expected improvement under a Gaussian process, as in ``tune``.

    Pruned and failed trials count as the worst possible value; running ones as what the model expects of them, so that
    parallel workers spread out. A categorical parameter whose choices are ascending numbers, such as tile sizes, is
    taken as an ordinal one. ``legal`` says which parameters may be proposed at all; without it, prune illegal trials.
    Parameters that not every trial has are sampled at random. Raises ValueError for a study of several objectives.
    """

    def __init__(self, seed: int | None = None, legal: Callable[[Mapping[str, Any]], bool] | None = None) -> None:
        self._rng = np.random.default_rng(seed)
        self._random = RandomSampler(seed=seed)
        self._legal = legal
        self._common = IntersectionSearchSpace(include_pruned=True)
        self._fitted: tuple[int, tuple[str, ...], Hyperparameters] | None = None

    def reseed_rng(self) -> None:
        """As Optuna asks of samplers that are copied to other workers."""
        self._rng = np.random.default_rng()
        self._random.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters that all trials so far have in common."""
        space = self._common.calculate(study)
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
        values = _values(trials, study.direction)
        if not search_space or np.count_nonzero(~np.isnan(values)) < _FIRST or not (values > 0).any():
            return {} if not search_space or self._legal is None else self._candidates([], search_space)[0]
        kept = _kept(values)
        trials, values = [trials[i] for i in kept], values[kept]
        given = self._hyperparameters(trials, values, search_space)
        known = values[~np.isnan(values)]
        scale = Scale.of(known)
        order = np.argsort(-np.nan_to_num(values, nan=-math.inf), kind="stable")[:_ELITE]
        tried = {tuple(t.params[name] for name in search_space) for t in trials}
        candidates = self._candidates([trials[i].params for i in order], search_space)
        best: Params = candidates[0]
        for _ in range(_ROUNDS):
            fresh = [c for c in candidates if tuple(c[name] for name in search_space) not in tried]
            if not fresh:
                break
            posterior = GrowingPosterior(coordinates(_rows(fresh, search_space)), given)
            posterior.observe(coordinates(_rows([t.params for t in trials], search_space)))
            scaled = scale.down(values)
            worth = expected_improvement(posterior.predict(scaled), float(posterior.fitted(scaled).max()))
            best = fresh[int(worth.argmax())]
            candidates = [best, *self._moved([best] * 32, search_space, 1)]
        return best

    def _hyperparameters(
        self, trials: Sequence[FrozenTrial], values: FloatArray, space: Mapping[str, BaseDistribution]
    ) -> Hyperparameters:
        known = ~np.isnan(values)
        count, names = int(known.sum()), tuple(space)
        if self._fitted is None or self._fitted[1] != names or count >= self._fitted[0] * _GROWTH:
            rows = coordinates(_rows([t.params for t, has in zip(trials, known, strict=True) if has], space))
            told = values[known]
            found = gaussian_process.hyperparameters(
                rows, Scale.of(told).down(told), gaussian_process.Settings(starts=1)
            )
            self._fitted = count, names, found
        return self._fitted[2]

    def _candidates(self, best: Sequence[Params], space: Mapping[str, BaseDistribution]) -> list[Params]:
        """Random parameters, and the best ones with one or two changes; legal ones where there are any."""
        random = [{name: _random(found, self._rng) for name, found in space.items()} for _ in range(_RANDOM)]
        parents = [best[i] for i in self._rng.integers(len(best), size=_NEAR)] if best else []
        made = [*random, *self._moved(parents, space, 2)]
        allowed = [c for c in made if self._legal is None or self._legal(c)]
        return allowed or made

    def _moved(self, parents: Sequence[Params], space: Mapping[str, BaseDistribution], most: int) -> list[Params]:
        names, moved = list(space), []
        for parent in parents:
            child = {name: parent[name] for name in names}
            for i in self._rng.permutation(len(names))[: self._rng.integers(1, most + 1)]:
                child[names[i]] = _near(child[names[i]], space[names[i]], self._rng)
            moved.append(child)
        return [c for c in moved if self._legal is None or self._legal(c)]


def _values(trials: Sequence[FrozenTrial], direction: StudyDirection) -> FloatArray:
    """From 0 for a failure to 1 for the best; NaN for a running trial.

    Positive objectives are compared by their ratio to the best, as times are; others by their place between the worst
    and the best.
    """
    sign = 1.0 if direction is StudyDirection.MAXIMIZE else -1.0
    finished = [t.value for t in trials if t.state is TrialState.COMPLETE and t.value is not None]
    finished = [value for value in finished if math.isfinite(value)]
    found = np.full(len(trials), np.nan)
    if not finished:
        return found
    best = max(finished, key=lambda v: sign * v)
    span = (max(finished) - min(finished)) or 1.0
    for i, trial in enumerate(trials):
        if trial.state is TrialState.RUNNING:
            continue
        value = trial.value if trial.state is TrialState.COMPLETE else None
        if value is None or not math.isfinite(value):
            found[i] = 0.0
        elif min(finished) > 0:
            found[i] = value / best if sign > 0 else best / value
        else:
            found[i] = 0.1 + 0.9 * (1 - sign * (best - value) / span)
    return found


def _kept(values: FloatArray) -> list[int]:
    if len(values) <= _MOST:
        return list(range(len(values)))
    order = np.argsort(-np.nan_to_num(values, nan=math.inf), kind="stable").tolist()
    kept = set(order[: _MOST // 2])
    kept.update([i for i in range(len(values) - 1, -1, -1) if i not in kept][: _MOST - len(kept)])
    return sorted(kept)


def _is_ordinal(found: CategoricalDistribution) -> bool:
    numbers = [c for c in found.choices if isinstance(c, (int, float)) and not isinstance(c, bool)]
    return len(numbers) == len(found.choices) and numbers == sorted(numbers)


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


def _unscale(at: float, found: IntDistribution | FloatDistribution) -> Any:
    low, high = float(found.low), float(found.high)
    value = math.exp(math.log(low) + at * math.log(high / low)) if found.log else low + at * (high - low)
    if isinstance(found, IntDistribution):
        return int(min(max(found.low + round((value - low) / found.step) * found.step, found.low), found.high))
    if found.step is not None:
        value = low + round((value - low) / found.step) * found.step
    return float(min(max(value, low), high))


def _random(found: BaseDistribution, rng: np.random.Generator) -> Any:
    if isinstance(found, CategoricalDistribution):
        return found.choices[int(rng.integers(len(found.choices)))]
    assert isinstance(found, (IntDistribution, FloatDistribution))
    return _unscale(float(rng.random()), found)


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
