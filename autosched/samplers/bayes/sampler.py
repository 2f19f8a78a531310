"""Bayesian optimisation with a Gaussian process.

Without estimated times, the value of a schedule is the ratio of the best time so far to the schedule's time. This
concentrates the model on fast schedules. After a few random trials, each proposal is the schedule that most probably
reaches the optimum predicted by the model (``acquisition.likely_optimum``). Candidates are all schedules of a small
space, or a changing sample of a large space. Aiming at the optimum, instead of at any improvement, prevents the search
from trying the neighbours of a good schedule one by one. Pending and failed trials are imputed with their predicted
mean (kriging believer), so that proposals in flight differ. The acquisition value is weighted by the probability that
the schedule works (``cost_models/feasibility.py``).

With estimated times, the value of a schedule is the logarithm of this ratio, because estimates have relative errors.
The estimate is an additional coordinate (``Guesses``). A second Gaussian process has a prior mean that is linear in the
estimate, with a learned slope (``Trend``). Estimates may be accurate for most schedules but wrong for the fastest
schedules. Such errors hardly change the likelihood of the trend, so the fit does not correct them. Therefore the search
relies less on the trend after ``patience`` trials without improvement. Until a new improvement, three of four proposals
come from the model without the trend (two of four if this model found the best schedule). Observed trials are biased
towards fast schedules, so both models treat the prior mean as unknown (``Hyperparameters.offset``). With estimated
times, proposals maximise the expected improvement (Jones, Schonlau and Welch, Efficient Global Optimization of
Expensive Black-Box Functions, 1998) over the best value plus a margin.
"""

from __future__ import annotations

import heapq
import math
import statistics
from collections.abc import Sequence
from itertools import islice

import numpy as np

from autosched import blas
from autosched.samplers.base import Sampler, UnvisitedPool
from autosched.samplers.bayes.acquisition import AcquisitionState, likely_optimum
from autosched.samplers.bayes.coordinates import SpaceCoordinates
from autosched.samplers.bayes.modules import CompiledModules
from autosched.samplers.bayes.pool import Pool
from autosched.samplers.bayes.settings import BayesSettings
from autosched.samplers.first_choices.descent import descended, starting_points
from autosched.samplers.first_choices.guesses import LEAST, Guesses
from cost_models import feasibility, gaussian_process
from cost_models.covariance import Columns, Grid, Hyperparameters, coordinates
from cost_models.estimates import Estimates
from cost_models.gaussian_process import IncrementalPosterior, Scale, Trend
from cost_models.pending_variance import PendingVariance
from measurements.trials.measurement import Measurement
from search_spaces.arrays import FloatArray, IntArray
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace


class BayesSampler(Sampler):
    """Sampler that maximises the expected improvement, or the probability to reach the expected optimum.

    Args:
        space: Schedules to propose.
        seed: Random seed.
        estimates: Estimated times, which guide the search as long as they are accurate. Default: no times.
        settings: Constants of the search. Default: ``BayesSettings()``.
    """

    name = "bayes"

    def __init__(
        self,
        space: SearchSpace,
        seed: int,
        *,
        estimates: Estimates | None = None,
        settings: BayesSettings | None = None,
    ) -> None:
        self._space = space
        self._seed = seed
        self._settings = settings or BayesSettings()
        self._estimates = estimates if estimates is not None and estimates.has_times else None
        self._unseen = UnvisitedPool(space, seed)
        self._columns = SpaceCoordinates(space)
        self._times: dict[
            Schedule, list[float] | None
        ] = {}  # times of each schedule, in the order of proposals; None while pending, empty after a failure
        self._medians: dict[Schedule, float] = {}  # median time of each schedule that has times
        self._best: float | None = None  # smallest median time; None if it must be computed
        self._reported: list[Schedule] = []
        self._pool: Pool | None = None
        self._by_guess: list[Schedule] | None = (
            None  # random schedules and results of descents; the schedule with the best estimate is last
        )
        self._guesses: Guesses | None = None
        self._of_pool = np.zeros(0)  # estimated values of the pool's schedules
        self._goal = math.inf  # times below this bound count as an improvement
        self._stale_trials = 0  # trials reported since the last improvement
        self._guided = True  # True if the best schedule so far was proposed by the model with the trend
        # True for each pending schedule that was proposed by the model with the trend
        self._guided_to: dict[Schedule, bool] = {}
        self._models: dict[
            str, IncrementalPosterior
        ] = {}  # posteriors by name: "plain", "guided" (with the trend), "works" (feasibility)
        self._observed: list[Schedule] = []  # schedules that the models treat as observed
        self._observed_guesses: list[float] = []  # estimated values of the observed schedules
        self._count = 0  # number of proposed or reported schedules at the last update of the models
        self._fitted = 0
        self._gain = math.inf
        self._num_batches = 0
        self._considered: list[Schedule] = []
        self._modules = CompiledModules(space, self._settings.batches.near)

    @property
    def expected_gain(self) -> float:
        """Expected relative improvement of the last proposal."""
        return self._gain

    @property
    def batch(self) -> int:
        """Batch size for a changing pool; 1 for a whole space, where the model is updated for each proposal."""
        return 1 if self._pool is None or self._pool.whole else self._settings.batches.size

    def consider(self, schedules: Sequence[Schedule]) -> None:
        """Store the schedules as candidates for the first pool."""
        self._considered = list(schedules)

    def prepare(self) -> None:
        """Create the pool if the initial trials have been proposed."""
        if self._unseen.seen >= self._settings.first:
            self._new_pool()

    def tell(self, schedule: Schedule, measurement: Measurement) -> None:
        """Record the time or failure, and check whether the time is an improvement."""
        self._unseen.remove(schedule)
        times = self._times.get(schedule)
        if times is None:
            times = self._times[schedule] = []
            self._reported.append(schedule)
            if self._pool is not None:
                self._pool.see([schedule])
            self._note_improvement(schedule, measurement)
        if measurement.timing is not None:
            times.append(measurement.timing.median)
            seconds = self._medians[schedule] = statistics.median(times)
            self._best = None
            self._modules.note(schedule, seconds)

    def _note_improvement(self, schedule: Schedule, measurement: Measurement) -> None:
        guided = self._guided_to.pop(schedule, True)
        self._stale_trials += 1
        if measurement.timing is not None and measurement.timing.median < self._goal:
            self._goal = measurement.timing.median * (1 - self._settings.trust.progress)
            self._stale_trials, self._guided = 0, guided

    @blas.single_thread()
    def ask(self, n: int) -> list[Schedule]:
        """Propose the initial trials first, then schedules that maximise the acquisition function."""
        self._unseen.check(n)
        rng = np.random.default_rng([self._seed, self._unseen.seen])
        proposals: list[Schedule] = []
        while len(proposals) < n:
            new = self._proposed(rng, n - len(proposals))
            if not new:
                break
            proposals += new
        return proposals

    def _proposed(self, rng: np.random.Generator, n: int) -> list[Schedule]:
        """Return the next 1 to n proposals; an empty list if no schedule remains."""
        self._gain = math.inf
        if self._unseen.seen < self._settings.first or not self._medians:
            # every second initial trial is random, because estimates may be misleading
            guessed = self._guessed() if self._unseen.seen % 2 == 0 else None
            return self._mark_pending(guessed or next(iter(self._unseen.draw(1)), None))
        pool = self._new_pool()
        self._update(pool)
        guided = self._follows_guess(n)
        state = self._acquisition(pool, guided)
        if not pool.whole:
            self._refresh(pool, self._fresh(rng), state)
            state = self._acquisition(pool, guided)
        for _ in range(0 if pool.whole else self._settings.candidates.rounds):
            chosen = pool.schedules[int(state.worth(pool.seen).argmax())]
            self._refresh(pool, self._space.neighbours(chosen, self._settings.candidates.moves), state)
            state = self._acquisition(pool, guided)
        return self._batch(pool, state, guided, 1 if pool.whole else min(n, self._settings.batches.size))

    def _batch(self, pool: Pool, state: AcquisitionState, guided: bool, n: int) -> list[Schedule]:
        """Choose up to n schedules of the pool; each choice treats the previous choices as observed at their means.

        Some choices (by default, every second one) are restricted to schedules whose modules are already compiled and
        known to be fast, as long as such schedules remain.
        """
        self._num_batches += 1
        batches, compiled, free = self._settings.batches, self._modules.are_fast(pool.modules), 0
        positions: IntArray = np.arange(len(pool.seen), dtype=np.int64)
        variance = None
        if n > 1:
            positions = pool.promising(state.worth(pool.seen, 0.0), compiled, batches.promising)
            variance = PendingVariance(state.model, positions, n)
        state, seen, compiled = state.at(positions), pool.seen[positions], compiled[positions]
        chosen: list[Schedule] = []
        while len(chosen) < n:
            now = state if variance is None else state.reduced(variance.reduction)
            if len(chosen) % batches.share and bool((compiled & ~seen).any()):
                worth = np.where(compiled, now.worth(seen, 0.0), -math.inf)
            else:
                worth = now.worth(seen, batches.margins[free % len(batches.margins)])
                free += 1
            best = int(worth.argmax())
            if worth[best] == -math.inf:  # no unseen schedule remains in the pool, but the space may have more
                return chosen or self._mark_pending(next(iter(self._unseen.draw(1)), None))
            if not chosen:
                self._gain = now.gain(best)
            seen[best] = True
            schedule = pool.schedules[int(positions[best])]
            self._guided_to[schedule] = guided
            chosen += self._mark_pending(schedule)
            if variance is not None:
                variance.observe(best)
        return chosen

    def _mark_pending(self, proposal: Schedule | None) -> list[Schedule]:
        """Mark a proposal as pending, and return it as a list; return an empty list for None."""
        if proposal is None:
            return []
        self._unseen.remove(proposal)
        self._times.setdefault(proposal, None)
        if self._pool is not None:
            self._pool.see([proposal])
        return [proposal]

    def _follows_guess(self, n: int) -> bool:
        """Return True if the next n proposals should come from the model with the trend."""
        if self._stale_trials < self._settings.trust.patience:
            return self._guided
        if n > 1:
            return self._num_batches % 2 == 0
        return self._num_batches % (4 if self._guided else 2) == 0

    # -- the model -----------------------------------------------------------------------------------------------

    def _new_pool(self) -> Pool:
        if self._pool is None:
            is_whole = self._space.count() <= self._settings.candidates.whole
            size = self._settings.candidates.whole if is_whole else self._settings.candidates.living
            considered = [] if is_whole else self._considered[: size // 2]
            random = self._space.sample(size - len(considered), self._seed)
            schedules = list(dict.fromkeys([*considered, *random]))
            if self._estimates is not None:
                self._guesses = Guesses(self._estimates, random)
                self._of_pool = self._guesses.values(schedules)
            self._pool = Pool(schedules, is_whole, self._coordinates_of, self._modules.number)
            self._pool.see(self._times)
        return self._pool

    def _coordinates_of(self, schedules: Sequence[Schedule]) -> Columns:
        """Return the schedules' coordinates for the model, [d, n]."""
        columns = coordinates(self._columns.of(schedules))
        return columns if self._guesses is None else np.concatenate([columns, self._guesses.coordinate(schedules)])

    def _update(self, pool: Pool) -> None:
        """Fit the hyperparameters if there are enough new results, then pass new observations to the models."""
        refits = self._settings.refits
        size = step = self._settings.first
        while step <= len(self._reported):
            growth = refits.growth if step < refits.many else refits.later
            size, step = step, max(step + 1, math.ceil(step * growth))
        refitted = size != self._fitted or not self._models
        if refitted:
            self._fitted = size
            fitted = self._hyperparameters(self._reported[:size])
        else:
            fitted = {name: model.hyperparameters for name, model in self._models.items()}
        new = list(islice(self._times, self._count, None))
        if refitted or len(self._observed) + len(new) > refits.most * 5 // 4:
            # predictions for a changing pool are invalid after the pool has changed
            grid = pool.grid or Grid(pool.coordinates)
            self._models = {
                name: IncrementalPosterior(pool.coordinates, parameters, grid) for name, parameters in fitted.items()
            }
            self._observed, self._observed_guesses, new = [], [], self._remembered()
        self._note_observed(new)
        for model in self._models.values():
            if model.count < len(self._observed):
                model.observe(self._coordinates_of(self._observed[model.count :]))

    def _note_observed(self, schedules: Sequence[Schedule]) -> None:
        self._count = len(self._times)
        self._observed += schedules
        if self._guesses is not None:
            self._observed_guesses += self._guesses.values(schedules).tolist()

    def _remembered(self) -> list[Schedule]:
        """Return the schedules that the model treats as observations.

        If there are more than ``most``, these are the ``most / 2`` fastest and the ``most / 2`` newest schedules.
        """
        most = self._settings.refits.most
        if len(self._times) <= most:
            return list(self._times)
        pending = [s for s, times in self._times.items() if times is None]
        selected = set([*pending, *sorted(self._medians, key=self._medians.__getitem__)][: most // 2])
        for schedule in reversed(self._times):
            if len(selected) == most:
                break
            selected.add(schedule)
        return [schedule for schedule in self._times if schedule in selected]

    def _hyperparameters(self, reported: Sequence[Schedule]) -> dict[str, Hyperparameters]:
        columns, values, works = self._coordinates_of(reported), self._values(reported), self._works(reported)
        settings = self._settings.model if self._guesses is None else self._settings.guided
        fitted = {}
        begin = {name: model.hyperparameters for name, model in self._models.items()}
        if (works == 0).any():
            fitted["works"] = feasibility.hyperparameters(columns, works, begin.get("works"))
        known = ~np.isnan(values)
        if not known.any():  # if all observed schedules failed, the models cannot be used before the next fit
            return {"plain": settings.mode(len(columns)), **fitted}
        columns, values = columns[:, known], values[known]
        scaled = Scale.of(values).down(values)
        fitted["plain"] = gaussian_process.hyperparameters(columns, scaled, settings, begin.get("plain"))
        if self._guesses is not None:
            guesses = self._guesses.values([s for s, k in zip(reported, known, strict=True) if k])
            guesses = Scale.of(guesses).down(guesses)
            slope = float(guesses @ scaled + 2.0) / (float(guesses @ guesses) + 4.0)
            rest = scaled - max(slope, 0.0) * guesses
            fitted["guided"] = gaussian_process.hyperparameters(columns, rest, settings, begin.get("guided"))
        return fitted

    def _values(self, schedules: Sequence[Schedule]) -> FloatArray:
        """Return the ratio (best time / time) of each schedule, or its logarithm if the search has estimated times.

        The value of a schedule without a time is NaN.
        """
        if self._best is None:
            self._best = min(self._medians.values(), default=1.0)
        values = self._best / np.array([self._medians.get(s, math.nan) for s in schedules], dtype=np.float64)
        return values if self._guesses is None else np.maximum(np.log(values), LEAST)

    def _works(self, schedules: Sequence[Schedule]) -> FloatArray:
        """Return 1 for each schedule with a time, 0 for each failure, and NaN for each pending trial."""
        pending = np.array([self._times[s] is None for s in schedules], dtype=np.bool_)
        return np.where(pending, math.nan, [float(s in self._medians) for s in schedules])

    def _acquisition(self, pool: Pool, guided: bool) -> AcquisitionState:
        """Return the acquisition function for the schedules of the pool."""
        values, works = self._values(self._observed), self._works(self._observed)
        scale = Scale.of(values[~np.isnan(values)])
        values = scale.down(values)
        model, trend = self._models["plain"], None
        if guided and "guided" in self._models and self._guesses is not None:
            trend = self._trend()
            if self._models["guided"].evidence(values, trend) < 0:
                trend = None
            else:
                model = self._models["guided"]
        if trend is None:
            values = model.impute_pending(values)
        best = float(model.fitted(values, trend)[works != 0].max())
        predicted = model.predict(values, trend)
        probable = np.ones(len(pool.schedules))
        aim = None
        if "works" in self._models:
            probable = feasibility.probability(self._models["works"], works)
        if self._guesses is None:
            aim = likely_optimum(predicted, best, np.where(pool.seen, 0.0, probable))
        margin = self._settings.trust.margin
        return AcquisitionState(predicted, best, probable, aim, margin, scale.deviation, model)

    # -- estimated times -----------------------------------------------------------------------------------------

    def _guessed(self) -> Schedule | None:
        """Return the unseen schedule with the best estimate, among random schedules and results of descents.

        Returns None if there are no estimated times.
        """
        if self._estimates is None:
            return None
        if self._by_guess is None:
            random = starting_points(self._space, self._settings.trust.guessed, self._seed)
            guesses = self._estimates.log_seconds(random)
            order = [i for i in np.argsort(-guesses, kind="stable").tolist() if math.isfinite(guesses[i])]
            self._by_guess = [random[i] for i in order] + descended(self._space, self._estimates, random)[::-1]
        while self._by_guess:
            if (best := self._by_guess.pop()) in self._unseen:
                return best
        return None

    def _trend(self) -> Trend:
        """Return the trend of the models: the estimated values of the observed schedules and of the pool."""
        observed = np.array(self._observed_guesses)
        scale = Scale.of(observed)
        return Trend(scale.down(observed), scale.down(self._of_pool))

    # -- a changing pool -----------------------------------------------------------------------------------------

    def _fresh(self, rng: np.random.Generator) -> list[Schedule]:
        """Return new candidates: neighbours and mutants of the fastest schedules, and random schedules."""
        fastest = heapq.nsmallest(self._settings.candidates.elite, self._medians, key=self._medians.__getitem__)
        parents = [fastest[i] for i in rng.integers(len(fastest), size=self._settings.candidates.moves)]
        near = self._space.neighbours(parents[0], self._settings.candidates.moves)
        random = self._space.sample(self._settings.candidates.moves, int(rng.integers(2**62)))
        return [
            *self._modules.siblings(self._settings.batches.swept),
            *near,
            *self._space.mutate(parents, rng),
            *random,
        ]

    def _refresh(self, pool: Pool, schedules: Sequence[Schedule], state: AcquisitionState) -> None:
        """Replace the worst schedules of the pool by new candidates."""
        new = pool.missing(s for s in schedules if s in self._unseen)
        if not new:
            return
        worth = state.worth(pool.seen)
        worth[self._modules.are_fast(pool.modules) & ~pool.seen] = math.inf
        positions: IntArray = np.argsort(worth, kind="stable")[: len(new)].astype(np.int64)
        coordinates = pool.put(positions, new)
        for model in self._models.values():
            model.replace(positions, coordinates)
        if self._guesses is not None:
            self._of_pool[positions] = self._guesses.values(new)
