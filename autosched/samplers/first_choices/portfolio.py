"""First trials of a search: winners of similar problems, and schedules with small estimates and different structures.

The schedules have different structures, because the model may be wrong about all neighbours of a schedule in the same
way. No schedule is chosen at random.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from autosched.samplers.base import Sampler, spread_out
from autosched.samplers.first_choices.descent import STARTS, descended, starting_points
from autosched.samplers.first_choices.model_choice import SAMPLES, SEED
from autosched.samplers.seeded import SeededSampler
from cost_models.estimates import Estimates
from search_spaces.spaces.parameters import Value
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace

NAME = "portfolio"
# name of the only sampler that begins with a portfolio; other samplers choose their first proposals themselves
SAMPLER = "bayes"
SIZE = 32  # maximum number of schedules in a portfolio
# number of results after which proposals of the sampler are better than remaining schedules of the portfolio
ENOUGH = 16
WINNERS = 16  # maximum number of winners in a portfolio
_DISTANCE = 3  # schedules with small estimates differ in this number of parameters if possible
_SLOWEST = 1.25  # maximum ratio of a schedule's estimate to the best estimate
_MORE = 2  # factor by which the sample is larger when templates with a fast schedule are sampled again
_GENERATIONS, _LAST_GENERATIONS = 4, 2  # generations of crossover between structures, before and after the descents
_CHILDREN = 256  # number of children per generation of this crossover
# At the end, neighbours of the best schedules are estimated. The first number is the maximum ratio of the estimate of
# one of these schedules to the best estimate. The second is the number of neighbours per schedule.
_SLOWEST_CENTRE, _NEIGHBOURS = 1.15, 256
_SLOWEST_PARENT = 1.5  # maximum ratio of a parent's estimate to the best estimate, before descents


def first_tried(
    sampler: Sampler, space: SearchSpace, estimates: Estimates, winners: Callable[[], Sequence[Schedule]]
) -> Sampler:
    """Return a sampler that proposes a portfolio first.

    Args:
        sampler: Sampler that makes all later proposals.
        space: Space of the sampler.
        estimates: Estimates before the first trial.
        winners: Function that returns the ``winners`` for ``portfolio``.

    Returns:
        The new sampler. If there are no estimated times, or ``sampler`` is not named SAMPLER, ``sampler`` itself.
    """
    if sampler.name != SAMPLER or not estimates.has_times:
        return sampler
    model = _best_of_model(space, estimates)
    first = _alternated(space, model, winners())
    sampler.consider(model)
    return SeededSampler(sampler, first, NAME, own_first=False, enough=ENOUGH) if first else sampler


def portfolio(space: SearchSpace, estimates: Estimates, winners: Sequence[Schedule]) -> list[Schedule]:
    """Return the first trials of a search.

    Args:
        space: Schedules that may be tried.
        estimates: Estimates before the first trial.
        winners: Fastest schedules of other problems, the nearest problem first. Schedules that are not in ``space`` are
            skipped.

    Returns:
        Up to SIZE different schedules. Schedules with small estimates, the smallest first, alternate with winners. The
        list is empty without estimated times.
    """
    return _alternated(space, _best_of_model(space, estimates), winners) if estimates.has_times else []


def _alternated(space: SearchSpace, model: Sequence[Schedule], winners: Sequence[Schedule]) -> list[Schedule]:
    """Return schedules of ``model`` and of ``winners`` alternately, starting with ``model``."""
    usable = [winner for winner in dict.fromkeys(winners) if winner in space][:WINNERS]
    model = spread_out(model, SIZE, _DISTANCE)
    alternating = [schedule for pair in zip(model, usable, strict=False) for schedule in pair]
    return list(dict.fromkeys([*alternating, *usable, *model]))[:SIZE]


def _best_of_model(space: SearchSpace, estimates: Estimates) -> list[Schedule]:
    """Return schedules with small estimates, the best of each structure first.

    Descents rarely change the structure, because rules connect the structure with many other parameters, and the path
    between two good structures may lead through slow structures. Therefore schedules of different structures are first
    combined by crossover. Then a descent starts at the best schedule of each structure, and the results are combined
    again. Estimating the neighbours of each structure's best schedule finds variants with other numbers of stages and
    other clusters. If there are few structures, descents start at the best schedules of any structure.
    """
    seen = Estimates(estimates.features, estimates.log_seconds, most=math.inf)
    rng = np.random.default_rng(SEED)
    seen.log_seconds(starting_points(space, SAMPLES, SEED))
    leaders = _leaders(_fast(seen, _SLOWEST_PARENT))
    if len(leaders) < STARTS:
        descended(space, seen, list(seen.known))
    else:
        templates = {schedule.template for schedule in leaders}
        more = starting_points(space, _MORE * SAMPLES, SEED)
        seen.log_seconds([schedule for schedule in more if schedule.template in templates])
        _cross(space, seen, rng, _SLOWEST_PARENT, _GENERATIONS)
        descended(space, seen, _leaders(_fast(seen, _SLOWEST_PARENT)))
        _cross(space, seen, rng, _SLOWEST, _LAST_GENERATIONS)
        for leader in _leaders(_fast(seen, _SLOWEST_CENTRE))[:SIZE]:
            seen.log_seconds(space.neighbours(leader, _NEIGHBOURS))
    fast = _fast(seen, _SLOWEST)
    return list(dict.fromkeys([*_leaders(fast), *fast]))


def _cross(space: SearchSpace, seen: Estimates, rng: np.random.Generator, slowest: float, generations: int) -> None:
    """Cross the best schedules of different structures for ``generations`` generations, and estimate the children."""
    for _ in range(generations):
        parents = _leaders(_fast(seen, slowest))
        first, second = ([parents[int(i)] for i in rng.random(_CHILDREN) * len(parents)] for _ in range(2))
        seen.log_seconds(space.crossover(first, second, rng))


def _fast(seen: Estimates, slowest: float) -> list[Schedule]:
    """Return the schedules whose estimate is at most ``slowest`` times the smallest, the smallest first."""
    bound = min(seen.known.values(), default=math.inf) + math.log(slowest)
    fast = [schedule for schedule, value in seen.known.items() if value <= bound and math.isfinite(value)]
    return sorted(fast, key=seen.known.__getitem__)


def _leaders(fast: Sequence[Schedule]) -> list[Schedule]:
    """Return the first schedule of each structure."""
    leaders: dict[object, Schedule] = {}
    for schedule in fast:
        leaders.setdefault(structure(schedule), schedule)
    return list(leaders.values())


def structure(schedule: Schedule) -> tuple[str, tuple[tuple[str, Value], ...]]:
    """Return the structure of a schedule: the template and tile sizes, which determine most properties of a kernel."""
    return schedule.template, tuple(item for item in schedule.items if item[0].startswith("tile_"))
