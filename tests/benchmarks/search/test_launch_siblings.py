"""Schedules near fast ones between the proposals of a sampler."""

from __future__ import annotations

from toy_searches import ok

from autosched.samplers import sampler
from benchmarks.search.launch_siblings import DECISIONS_OF_LAUNCH, FOR_EACH, NAME, SiblingSampler
from cost_models.estimates import AnalyticEstimates
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.union_space import UnionSpace
from search_spaces.templates.template import TemplateSet

PROBLEM, H100 = Matmul(2048, 2048, 2048, a="bf16"), device("h100")


def made(enough: int) -> tuple[SiblingSampler, UnionSpace]:
    templates = TemplateSet([template("wgmma_matmul")])
    space = templates.space(PROBLEM, H100)
    estimates = AnalyticEstimates(PROBLEM, templates, H100)
    return SiblingSampler(sampler("random", space, seed=3), space, estimates, enough=enough), space


def module(schedule: Schedule) -> tuple[tuple[str, object], ...]:
    return tuple(item for item in schedule.items if item[0] not in DECISIONS_OF_LAUNCH)


def test_siblings_and_neighbours_of_the_fastest_follow_and_nothing_comes_twice() -> None:
    siblings, space = made(enough=2)
    fast, slow = space.sample(2, 5)
    siblings.tell(fast, ok(1e-4))
    siblings.tell(slow, ok(9e-4))
    proposed = siblings.ask(FOR_EACH)
    near = [s for s in proposed if siblings.proposer(s) == NAME]
    assert len(near) == FOR_EACH - 1
    assert len(set(proposed) | {fast, slow}) == FOR_EACH + 2
    assert all(s in space for s in proposed)
    neighbours = set(space.neighbours(fast))
    assert all(module(s) == module(fast) or s in neighbours for s in near)


def test_before_enough_results_the_sampler_proposes_alone() -> None:
    siblings, space = made(enough=3)
    (fast,) = space.sample(1, 5)
    siblings.tell(fast, ok(1e-4))
    assert all(siblings.proposer(s) == "random" for s in siblings.ask(8))


def test_the_same_results_give_the_same_proposals() -> None:
    proposals = []
    for _ in range(2):
        siblings, space = made(enough=1)
        for i, schedule in enumerate(space.sample(4, 5)):
            siblings.tell(schedule, ok(1e-4 * (1 + 0.01 * i)))
        proposals.append(siblings.ask(24))
    assert proposals[0] == proposals[1]
