"""Small spaces with a known best schedule, samplers over them, and estimates and models that tests can distinguish."""

import math
from collections.abc import Sequence

import numpy as np
import optuna

from autosched.samplers import Sampler, sampler
from autosched.samplers.bayes import settings as bayes
from autosched.samplers.bayes.sampler import BayesSampler
from autosched.samplers.evolution import EvolutionSampler, EvolutionSettings
from autosched.samplers.scalarized import ScalarizedSampler
from autosched.samplers.seeded import SeededSampler
from autosched.samplers.tpe import OptunaSampler
from autosched.testing.samplers import BOTH, FLAT, TOY, Make, failed, ok, outcome, proposed, run, seconds
from cost_models import gaussian_process
from cost_models.estimates import Estimates
from cost_models.features import Matrix
from search_spaces.arrays import FloatArray
from search_spaces.spaces.parameters import ordinal
from search_spaces.spaces.rules import Rule
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace
from search_spaces.spaces.space import Space


def toy_estimates(space: SearchSpace = TOY) -> Estimates:
    """Return estimates: 3 times the exact time, or infinity for x = 1. The parameter ``letter`` has no effect."""

    def log_seconds(schedules: Sequence[Schedule]) -> FloatArray:
        blind = (s.replace(letter="b") for s in schedules)
        return np.array([math.inf if s["x"] == 1 else math.log(3 * seconds(s)) for s in blind], dtype=np.float64)

    return Estimates(space.encode, log_seconds)


class Nearest:
    """A model for tests: it predicts the logarithm of the time of the nearest training row.

    Missing values are far from all other values.
    """

    def __init__(self, rows: Matrix, times: FloatArray) -> None:
        assert not np.isinf(rows).any() and np.isfinite(times).all() and (times > 0).all()
        self.rows, self.times = np.nan_to_num(rows, nan=-100.0), times

    def predict(self, X: Matrix) -> FloatArray:
        distances = np.abs(np.nan_to_num(X, nan=-100.0)[:, None, :] - self.rows[None, :, :]).sum(axis=2)
        return np.log(self.times[distances.argmin(axis=1)])


FEW = gaussian_process.GaussianProcessSettings(starts=1, iterations=5)
_SMALL_POOL = bayes.CandidatePool(whole=0, living=32, moves=8, rounds=1)
LIVING = bayes.BayesSettings(refits=bayes.Refits(growth=1.5), candidates=_SMALL_POOL, model=FEW)
WHOLE = bayes.BayesSettings(refits=bayes.Refits(growth=1.5), model=FEW)
__all__ = ["BOTH", "FLAT", "TOY", "Make", "failed", "ok", "outcome", "proposed", "run", "seconds"]  # for tests

QUICK = EvolutionSettings(warmup=6, population=24, generations=2)
MAKERS: dict[str, Make] = {
    "bayes of two objectives": lambda space, seed: ScalarizedSampler(
        [BayesSampler(space, seed + i, settings=WHOLE) for i in (0, 1)],
        [(0.9, 0.1), (0.1, 0.9)],
        lambda schedule, m: None if m.timing is None else (math.log(m.timing.median), 1.0),
    ),
    "bayes": lambda space, seed: BayesSampler(space, seed, settings=WHOLE),
    "bayes_guided": lambda space, seed: BayesSampler(space, seed, estimates=toy_estimates(space), settings=WHOLE),
    "bayes_of_a_living_pool": lambda space, seed: BayesSampler(space, seed, settings=LIVING),
    "random": lambda space, seed: sampler("random", space, seed=seed),
    "model": lambda space, seed: sampler("model", space, seed=seed),
    "model_guided": lambda space, seed: sampler("model", space, seed=seed, estimates=toy_estimates(space)),
    "bayes_advised": lambda space, seed: SeededSampler(
        BayesSampler(space, seed, estimates=toy_estimates(space), settings=WHOLE), space.sample(3, 99), "somebody"
    ),
    "tpe": lambda space, seed: sampler("tpe", space, seed=seed),
    "optuna_random": lambda space, seed: OptunaSampler(space, seed, optuna.samplers.RandomSampler(seed=seed)),
    "evolution": lambda space, seed: sampler("evolution", space, seed=seed),
    "evolution_of_nearest": lambda space, seed: EvolutionSampler(space, seed, fit=Nearest, settings=QUICK),
    "evolution_guided": lambda space, seed: EvolutionSampler(
        space, seed, fit=Nearest, estimates=toy_estimates(space), settings=QUICK
    ),
    "evolution_of_a_prior_alone": lambda space, seed: EvolutionSampler(
        space, seed, fit=None, estimates=toy_estimates(space), settings=QUICK
    ),
}
CASES: dict[str, tuple[Make, SearchSpace]] = {
    **{name: (make, TOY) for name, make in MAKERS.items()},
    **{
        f"{name}_of_a_union": (MAKERS[name], BOTH)
        for name in ("random", "tpe", "bayes_guided", "evolution", "evolution_guided")
    },
}


HILL = Space(
    "hill",
    tuple(ordinal(name, tuple(range(1, 13))) for name in "abcde"),
    (),
    (Rule("product", lambda a, b: a * b <= 48, "{a} * {b} is over 48"),),
)


def hill_seconds(schedule: Schedule) -> float:
    return 1e-6 * 1.3 ** sum(
        abs(schedule.integer(name) - top) for name, top in zip("abcde", (4, 9, 7, 2, 11), strict=True)
    )


def best_after(searcher: Sampler, trials: int) -> float:
    best = math.inf
    while trials > 0:
        batch = searcher.ask(min(8, trials))
        trials -= len(batch)
        for schedule in batch:
            best = min(best, hill_seconds(schedule))
            searcher.tell(schedule, ok(hill_seconds(schedule)))
    return best


def median_of_best(name: str, trials: int) -> float:
    return float(np.median([best_after(sampler(name, HILL, seed=seed), trials) for seed in range(5)]))
