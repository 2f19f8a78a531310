"""Evolutionary search with a learned cost model, after TVM MetaSchedule (Shao et al., NeurIPS 2022).

A population of legal schedules of all templates is mutated and crossed over for a few generations. The first generation
consists of the best measured schedules and random schedules. A single model predicts the times of all templates. The
new schedules with the best predictions are proposed, together with a few random schedules. The model is trained again
whenever the number of trials has grown by a fifth.

Estimated times (of an analytic model) guide the search from the first proposal on. The learned model corrects the
estimates: it predicts the ratio of measured to estimated time, which needs far fewer trials than predicting the time.

Proposals depend only on the seed and on previous proposals and results. A resumed search therefore continues exactly
like an uninterrupted search.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from autosched.samplers.base import Sampler, UnvisitedPool, spread_out
from cost_models.estimates import Estimates
from cost_models.features import Matrix
from cost_models.trees.boosted import BoostedModel
from cost_models.trees.boosted import BoostedTreeSettings as TreeSettings
from measurements.trials.measurement import Measurement
from search_spaces.arrays import FloatArray
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace

_FEWEST_ROWS = 2  # minimum number of trials for training a model


class Model(Protocol):
    """Interface of a trained model that predicts times."""

    def predict(self, X: Matrix) -> FloatArray:
        """Return the logarithm of the predicted time [n] for each row of X [n, d], up to a constant."""


Fit = Callable[[Matrix, FloatArray], Model]  # trains a model on rows [n, d] and their seconds [n], deterministically


@dataclass(frozen=True)
class EvolutionSettings:
    """Constants of the search.

    Attributes:
        warmup: Number of successful trials before a model is trained. Until then, the fraction ``guided`` of the
            proposals are the schedules with the best estimates, and the remaining proposals are random.
        guided: Fraction of proposals with the best estimates before a model is trained.
        first: Number of random schedules, the best of which enter the first population. Applies to searches with
            estimated times.
        population: Number of schedules in a generation.
        generations: Number of generations that are evolved for a batch of proposals.
        elite: Fraction of the first generation that consists of the best measured schedules.
        mutation: Probability that a child is a mutant of one parent; otherwise the child is a crossover of two parents.
        epsilon: Fraction of proposals that are random even with a trained model.
        growth: The model is trained again when the number of trials has grown by this factor.
        distance: Minimum number of parameters in which the proposals of a batch differ, if possible.
        failure_factor: In the training data, a failure counts as this multiple of the slowest successful time.
    """

    warmup: int = 24
    guided: float = 0.6
    first: int = 512
    population: int = 64
    generations: int = 6
    elite: float = 0.2
    mutation: float = 0.85
    epsilon: float = 0.05
    growth: float = 1.2
    distance: int = 3
    failure_factor: float = 2.0


class EvolutionSampler(Sampler):
    """Sampler that proposes the schedules with the best predicted times from an evolving population.

    Args:
        space: Schedules to propose.
        seed: Random seed.
        fit: Function that trains a model on results; None to use only estimates.
        estimates: Features for the model, and estimated times to use until the model is trained. Default: the encoding
            of ``space``.
        settings: Constants of the search. Default: ``EvolutionSettings()``.
    """

    name = "evolution"
    batch = 16

    def __init__(
        self,
        space: SearchSpace,
        seed: int,
        *,
        fit: Fit | None,
        estimates: Estimates | None = None,
        settings: EvolutionSettings | None = None,
    ) -> None:
        self._space = space
        self._seed = seed
        self._fit = fit
        self._estimates = Estimates.encoded(space) if estimates is None else estimates
        self._settings = EvolutionSettings() if settings is None else settings
        self._unseen = UnvisitedPool(space, seed)
        self._times: dict[Schedule, list[float]] = {}  # times of each schedule; empty after a failure
        self._model: Model | None = None
        self._trained = 0

    def tell(self, schedule: Schedule, measurement: Measurement) -> None:
        """Record the time or failure."""
        self._unseen.remove(schedule)
        times = self._times.setdefault(schedule, [])
        if measurement.timing is not None:
            times.append(measurement.timing.median)

    def ask(self, n: int) -> list[Schedule]:
        """Return those schedules of an evolved population that have the best predictions, then random schedules."""
        rng = np.random.default_rng([self._seed, self._unseen.seen])
        self._train()
        guided = int(max(n, 0) * self._guided_share + rng.random())  # rounded at random, so that the average is exact
        ranked = self._evolved(guided, rng) if guided else []
        for schedule in ranked:
            self._unseen.remove(schedule)
        return ranked + self._unseen.draw(n - len(ranked))

    @property
    def _guided_share(self) -> float:
        """Fraction of the proposals that are chosen by predicted times."""
        if self._model is not None:
            return 1.0 - self._settings.epsilon
        return self._settings.guided if self._estimates.has_times else 0.0

    def _train(self) -> None:
        """Train on the first n trials. n only grows in steps, so that the model is trained less often."""
        ok = sum(1 for times in self._times.values() if times)
        size, step = 0, self._settings.warmup
        while step <= ok:
            size, step = step, math.ceil(step * self._settings.growth)
        if self._fit is None or size == self._trained:
            return
        rows, seconds, num_successful = [], [], 0
        for schedule, times in self._times.items():
            if num_successful == size:
                break
            num_successful += bool(times)
            rows.append(schedule)
            seconds.append(statistics.median(times) if times else math.nan)
        labels = np.array(seconds, dtype=np.float64)
        labels[np.isnan(labels)] = self._settings.failure_factor * np.nanmax(labels)
        if self._estimates.has_times:
            guess = self._estimates.log_seconds(rows)
            usable = np.isfinite(guess)
            rows = [row for row, use in zip(rows, usable, strict=True) if use]
            labels, guess = labels[usable], guess[usable]
            labels = labels / np.exp(guess)
        # schedules without a finite estimate, which are expected to fail, are not used for training
        if len(rows) < _FEWEST_ROWS:
            return
        self._model, self._trained = self._fit(self._estimates.features(rows), labels), size

    def _predicted(self, schedules: Sequence[Schedule]) -> FloatArray:
        """Return predicted log(seconds), up to a constant; infinite for an expected failure."""
        known = self._estimates.has_times
        predicted = self._estimates.log_seconds(schedules) if known else np.zeros(len(schedules))
        if self._model is not None and len(schedules):
            usable = np.isfinite(predicted)
            rows = [s for s, use in zip(schedules, usable, strict=True) if use]
            predicted[usable] += self._model.predict(self._estimates.features(rows))
        return predicted

    def _evolved(self, n: int, rng: np.random.Generator) -> list[Schedule]:
        """Return up to ``n`` new schedules with the best predictions, found in a few generations."""
        settings = self._settings
        elite = self._fastest()[: int(settings.elite * settings.population)]
        first = settings.population if self._times or not self._estimates.has_times else settings.first
        fresh = self._space.sample(first - len(elite), int(rng.integers(2**62)))
        scores: dict[Schedule, float] = {}
        self._score([*elite, *fresh], scores)
        for _ in range(settings.generations):
            living = sorted(scores, key=lambda s: scores[s])[: settings.population]
            self._score(self._children(living, rng), scores)
        new = (s for s in sorted(scores, key=lambda s: scores[s]) if s in self._unseen and math.isfinite(scores[s]))
        return spread_out(list(new), n, settings.distance)

    def _score(self, schedules: Sequence[Schedule], scores: dict[Schedule, float]) -> None:
        unknown = [s for s in dict.fromkeys(schedules) if s not in scores]
        scores.update(zip(unknown, self._predicted(unknown).tolist(), strict=True))

    def _children(self, living: Sequence[Schedule], rng: np.random.Generator) -> list[Schedule]:
        """Return as many children as ``living`` (sorted) has schedules. Most parents come from the better half."""

        def parents(count: int) -> list[Schedule]:
            return [living[i] for i in (len(living) * rng.random(count) ** 2).astype(int)]

        mutants = int(np.count_nonzero(rng.random(len(living)) < self._settings.mutation))
        crossed = len(living) - mutants
        children = self._space.mutate(parents(mutants), rng)
        return children + self._space.crossover(parents(crossed), parents(crossed), rng)

    def _fastest(self) -> list[Schedule]:
        medians = {s: statistics.median(times) for s, times in self._times.items() if times}
        return sorted(medians, key=lambda s: medians[s])


def boosted_trees(seed: int, threads: int) -> Fit:
    """Return a function that trains boosted trees with XGBoost. Equal rows give equal trees."""
    settings = TreeSettings(seed=seed % 2**30, threads=threads)
    return lambda rows, seconds: BoostedModel.fit(rows, seconds, settings=settings)
