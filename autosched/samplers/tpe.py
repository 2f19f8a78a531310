"""Sampler that uses an Optuna sampler (default: the tree-structured Parzen estimator, TPE) by ask and tell.

Optuna only supports independent domains without rules, so most of its suggestions are illegal. A suggestion that is
illegal or not new is not measured, but immediately reported to Optuna as failed. After a few such suggestions in a row,
the last one is repaired: the sampler proposes the most similar schedule that is new and legal. It chooses this schedule
from random schedules and neighbours of the best schedules.
"""

from __future__ import annotations

import math

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.trial import Trial, TrialState, create_trial

from autosched.samplers.base import Sampler, UnvisitedPool, differences
from measurements.trials.measurement import Measurement
from search_spaces.spaces.parameters import Parameter, Value
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace

_TEMPLATE = "template"  # name of the Optuna parameter for the template; names of all other parameters contain a dot
_TRIES = 3  # maximum number of suggestions per proposal; if none is usable, the last one is repaired
_RANDOM = 256  # number of random schedules that a repair considers
_BEST = 4  # number of best schedules, whose neighbours a repair also considers
_NEIGHBOURS = 32  # number of neighbours of each best schedule


class OptunaSampler(Sampler):
    """Proposes schedules that an Optuna sampler suggests.

    Optuna first chooses the template, then values of the template's parameters, which the study names
    "template.parameter". Optuna chooses the index of a value. The distribution is an integer distribution for an
    ordinal parameter, and a categorical distribution for any other. The objective is log(seconds). A failed trial is
    reported as pruned: Optuna's samplers rank pruned trials below all finished trials, or ignore them.

    Args:
        space: Schedules to propose.
        seed: Random seed.
        sampler: Optuna sampler. Default: ``TPESampler(seed=seed)``.
    """

    name = "tpe"

    def __init__(self, space: SearchSpace, seed: int, sampler: optuna.samplers.BaseSampler | None = None) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)  # prevents Optuna from printing a line per trial to stderr
        self._space = space
        self._seed = seed
        self._unseen = UnvisitedPool(space, seed)
        self._templates = CategoricalDistribution(tuple(space.members))
        self._distributions = {
            template: {f"{template}.{p.name}": _distribution(p) for p in member.parameters}
            for template, member in space.members.items()
        }
        self._study = optuna.create_study(
            direction="minimize", sampler=optuna.samplers.TPESampler(seed=seed) if sampler is None else sampler
        )
        self._running: dict[str, Trial] = {}
        self._times: dict[Schedule, float] = {}
        self._repairs = 0

    def ask(self, n: int) -> list[Schedule]:
        """Return Optuna's suggestions; a suggestion is repaired if it is illegal or not new."""
        self._unseen.check(n)
        proposals: list[Schedule] = []
        while len(proposals) < n:
            proposal = self._proposed()
            if proposal is None:
                break
            proposals.append(proposal)
        return proposals

    def tell(self, schedule: Schedule, measurement: Measurement) -> None:
        """Report log(seconds) to the Optuna study, or a failure as a pruned trial."""
        self._unseen.remove(schedule)
        value = math.log(measurement.timing.median) if measurement.timing is not None else None
        state = TrialState.PRUNED if value is None else TrialState.COMPLETE
        running = self._running.pop(schedule.key(), None)
        if running is not None:
            self._study.tell(running, values=value, state=state)
        else:
            distributions = {_TEMPLATE: self._templates, **self._distributions[schedule.template]}
            params = self._params(schedule)
            self._study.add_trial(create_trial(state=state, value=value, params=params, distributions=distributions))
        if value is not None:
            self._times[schedule] = min(value, self._times.get(schedule, math.inf))

    def _proposed(self) -> Schedule | None:
        """Return the first of a few suggestions that is legal and new; if none is, repair the last suggestion."""
        for _ in range(_TRIES):
            trial = self._study.ask()
            suggestion = self._suggested(trial)
            if suggestion in self._unseen and suggestion in self._space:
                return self._started(suggestion, trial)
            self._study.tell(trial, state=TrialState.FAIL)
        nearest = self._nearest(suggestion)
        if nearest is None:
            return None
        self._study.enqueue_trial(self._params(nearest))
        trial = self._study.ask()
        return self._started(self._suggested(trial), trial)

    def _nearest(self, suggestion: Schedule) -> Schedule | None:
        """Return a new legal schedule that differs from ``suggestion`` in few parameters; None if none remains."""
        self._repairs += 1
        seed = np.random.SeedSequence([self._seed, self._repairs]).generate_state(1, np.uint64)
        best = sorted(self._times, key=lambda s: self._times[s])[:_BEST]
        pool = [near for schedule in best for near in self._space.neighbours(schedule, _NEIGHBOURS)]
        pool += self._space.sample(_RANDOM, int(seed[0]))
        pool = [schedule for schedule in pool if schedule in self._unseen] or self._unseen.draw(1)
        # among equally similar schedules, choose the first, because the neighbours of the best schedules come first
        return min(pool, key=lambda s: differences(s, suggestion), default=None)

    def _started(self, schedule: Schedule, trial: Trial) -> Schedule:
        self._unseen.remove(schedule)
        self._running[schedule.key()] = trial
        return schedule

    def _suggested(self, trial: Trial) -> Schedule:
        """Return the template and then the parameters that Optuna chooses.

        For an enqueued trial, these are the trial's parameters.
        """
        template = trial.suggest_categorical(_TEMPLATE, tuple(self._space.members))
        items: list[tuple[str, Value]] = []
        for parameter in self._space.members[template].parameters:
            name, last = f"{template}.{parameter.name}", len(parameter.values) - 1
            if parameter.kind == "categorical":
                code = trial.suggest_categorical(name, tuple(range(last + 1)))
            else:
                code = trial.suggest_int(name, 0, last)
            items.append((parameter.name, parameter.values[code]))
        return Schedule(template, tuple(items))

    def _params(self, schedule: Schedule) -> dict[str, Value]:
        """Return Optuna's parameters of ``schedule``."""
        parameters = self._space.members[schedule.template].parameters
        codes: dict[str, Value] = {f"{schedule.template}.{p.name}": p.code(schedule[p.name]) for p in parameters}
        return {_TEMPLATE: schedule.template, **codes}


def _distribution(parameter: Parameter) -> BaseDistribution:
    if parameter.kind == "categorical":
        return CategoricalDistribution(tuple(range(len(parameter.values))))
    return IntDistribution(0, len(parameter.values) - 1)
