"""Any Optuna sampler through Optuna's ask-and-tell interface, by default its tree-structured Parzen estimator.

Optuna knows independent domains and nothing of the rules, so most of what it suggests is illegal. A suggestion that is
illegal, or not new, is told to Optuna as failed at once and costs no measurement. After a few of them in a row the last
one is repaired: the nearest new legal schedule to it, among random ones and neighbours of the best, is proposed.
"""

from __future__ import annotations

import math

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import Trial, TrialState, create_trial

from autosched.search.base import Unseen
from measurements.measurement import Measurement
from search_spaces.spaces.parameters import Parameter, Value
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space

_TRIES = 3  # suggestions per proposal before the last one is repaired
_RANDOM = 256  # random schedules that a repair chooses from
_BEST = 4  # best schedules whose neighbours a repair chooses from
_NEIGHBOURS = 32  # of each of them


class OptunaSampler:
    """Proposals of one Optuna sampler, ``TPESampler(seed=seed)`` if none is given.

    A categorical parameter becomes a categorical distribution over its values, an ordinal one an integer distribution
    over the positions of its values. The objective is log(seconds). A failed trial is told as pruned: Optuna's samplers
    take that as worse than every finished one, or leave it out.
    """

    name = "tpe"

    def __init__(self, space: Space, seed: int, sampler: optuna.samplers.BaseSampler | None = None) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)  # a line per trial otherwise, on stderr
        self._space = space
        self._seed = seed
        self._unseen = Unseen(space, seed)
        self._distributions = {p.name: _distribution(p) for p in space.parameters}
        self._study = optuna.create_study(
            direction="minimize", sampler=optuna.samplers.TPESampler(seed=seed) if sampler is None else sampler
        )
        self._running: dict[str, Trial] = {}
        self._times: dict[Schedule, float] = {}
        self._repairs = 0

    def ask(self, n: int) -> list[Schedule]:
        self._unseen.check(n)
        proposals: list[Schedule] = []
        while len(proposals) < n:
            proposal = self._proposed()
            if proposal is None:
                break
            proposals.append(proposal)
        return proposals

    def tell(self, schedule: Schedule, measurement: Measurement) -> None:
        self._unseen.remove(schedule)
        value = math.log(measurement.timing.median) if measurement.timing is not None else None
        state = TrialState.PRUNED if value is None else TrialState.COMPLETE
        running = self._running.pop(schedule.key(), None)
        if running is not None:
            self._study.tell(running, values=value, state=state)
        else:
            params = self._params(schedule)
            self._study.add_trial(
                create_trial(state=state, value=value, params=params, distributions=self._distributions)
            )
        if value is not None:
            self._times[schedule] = min(value, self._times.get(schedule, math.inf))

    def _proposed(self) -> Schedule | None:
        """What Optuna suggests, if that is legal and new within a few tries; else the last suggestion, repaired."""
        for _ in range(_TRIES):
            trial = self._study.ask(self._distributions)
            suggestion = self._schedule(trial)
            if suggestion in self._unseen and self._space.allowed(self._space.columns([suggestion])).all():
                return self._started(suggestion, trial)
            self._study.tell(trial, state=TrialState.FAIL)
        nearest = self._nearest(suggestion)
        if nearest is None:
            return None
        self._study.enqueue_trial(self._params(nearest))
        return self._started(nearest, self._study.ask(self._distributions))

    def _nearest(self, suggestion: Schedule) -> Schedule | None:
        """A new legal schedule that differs from ``suggestion`` in few parameters; None if none is left."""
        self._repairs += 1
        seed = np.random.SeedSequence([self._seed, self._repairs]).generate_state(1, np.uint64)
        best = sorted(self._times, key=lambda s: self._times[s])[:_BEST]
        pool = [near for schedule in best for near in self._space.neighbours(schedule, _NEIGHBOURS)]
        pool += self._space.sample(_RANDOM, int(seed[0]))
        pool = [schedule for schedule in pool if schedule in self._unseen] or self._unseen.draw(1)
        # the first of equals: a neighbour of the best
        return min(pool, key=lambda s: _differences(s, suggestion), default=None)

    def _started(self, schedule: Schedule, trial: Trial) -> Schedule:
        self._unseen.remove(schedule)
        self._running[schedule.key()] = trial
        return schedule

    def _schedule(self, trial: Trial) -> Schedule:
        items = []
        for parameter in self._space.parameters:
            said = trial.params[parameter.name]
            items.append((parameter.name, said if parameter.kind == "categorical" else parameter.values[said]))
        return Schedule(self._space.name, tuple(items))

    def _params(self, schedule: Schedule) -> dict[str, Value]:
        values = schedule.values
        return {
            p.name: values[p.name] if p.kind == "categorical" else p.code(values[p.name])
            for p in self._space.parameters
        }


def _distribution(parameter: Parameter) -> BaseDistribution:
    if parameter.kind == "categorical":
        return CategoricalDistribution(parameter.values)
    return IntDistribution(0, len(parameter.values) - 1)


def _differences(a: Schedule, b: Schedule) -> int:
    return sum(x != y for x, y in zip(a.items, b.items, strict=True))
