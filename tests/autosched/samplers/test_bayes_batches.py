"""In batches of the sampler bayes, every second proposal uses a module that is already compiled.

Batches are reproducible with a seed.
"""

import math
from itertools import product

import numpy as np
import pytest

from autosched.samplers.bayes.sampler import BayesSampler
from autosched.samplers.bayes.settings import Batches, BayesSettings, CandidatePool
from autosched.testing.samplers import ok
from cost_models.estimates import Estimates
from search_spaces.spaces.parameters import categorical, ordinal
from search_spaces.spaces.rules import Rule
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space
from search_spaces.spaces.union_space import UnionSpace

NUMBERS = tuple(2**i for i in range(8))
SPACE = Space(
    "launched",
    (
        ordinal("x", NUMBERS),
        categorical("order", ("row", "column", "bands"), at_launch=True),
        ordinal("y", NUMBERS),
        ordinal("hint", (1, 2), at_launch=True),
    ),
    (),
    (Rule("hint", lambda x, hint: (x > 1) | (hint == 1), "{x} takes no hint {hint}"),),
)
SETTINGS = BayesSettings(candidates=CandidatePool(whole=0, living=128), batches=Batches(size=8, near=1.5))


def seconds(schedule: Schedule) -> float:
    apart = abs(math.log2(schedule.integer("x")) - 5) + abs(math.log2(schedule.integer("y")) - 3)
    return 1e-5 * (1 + 0.1 * apart + 0.02 * (schedule["order"] == "row") + 0.01 * schedule.integer("hint"))


def new_sampler() -> BayesSampler:
    guesses = Estimates(SPACE.encode, lambda s: np.log([seconds(one) * (1 + one.integer("x") / 256) for one in s]))
    return BayesSampler(SPACE, 3, estimates=guesses, settings=SETTINGS)


def module(schedule: Schedule) -> tuple[object, ...]:
    return schedule["x"], schedule["y"]


def searched(sampler: BayesSampler, batches: int) -> list[list[Schedule]]:
    proposed_batches = []
    for _ in range(batches):
        proposed_batches.append(sampler.ask(8))
        for schedule in proposed_batches[-1]:
            sampler.tell(schedule, ok(seconds(schedule)))
    return proposed_batches


def test_every_other_proposal_is_of_a_compiled_module_with_a_fast_schedule() -> None:
    first, *later = searched(new_sampler(), 6)
    compiled = {module(schedule) for schedule in first}
    for batch in later:
        siblings = [schedule for schedule in batch if module(schedule) in compiled]
        assert len(siblings) >= len(batch) // 2
        compiled |= {module(schedule) for schedule in batch}
    proposed = [schedule for batch in (first, *later) for schedule in batch]
    assert len(set(proposed)) == len(proposed) and all(schedule in SPACE for schedule in proposed)
    assert min(map(seconds, proposed)) == pytest.approx(min(map(seconds, SPACE.sample(10**4, 0))), rel=0.01)


def test_batches_repeat() -> None:
    assert searched(new_sampler(), 4) == searched(new_sampler(), 4)


def test_considered_schedules_are_candidates() -> None:
    best = min(SPACE.sample(10**4, 0), key=seconds)
    sampler = new_sampler()
    sampler.consider([best])
    for schedule in SPACE.sample(40, 5):
        if schedule != best:
            sampler.tell(schedule, ok(seconds(schedule)))
    sampler.prepare()
    assert best in sampler.ask(8)


def test_siblings_are_the_other_legal_values_of_a_launch() -> None:
    for space in (SPACE, UnionSpace([SPACE])):
        for schedule in SPACE.sample(20, 1):
            variants = [schedule.replace(order=o, hint=h) for o, h in product(("row", "column", "bands"), (1, 2))]
            assert space.siblings(schedule) == [s for s in variants if s in SPACE and s != schedule]
