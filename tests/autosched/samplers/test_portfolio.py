"""A search begins with winners of similar problems, in alternation with diverse schedules that the model ranks high."""

from __future__ import annotations

import math

import numpy as np
from toy_searches import ok

from autosched.samplers import sampler
from autosched.samplers.base import differences
from autosched.samplers.first_choices.portfolio import ENOUGH, NAME, SIZE, WINNERS, first_tried, portfolio, structure
from cost_models.estimates import AnalyticEstimates, Estimates
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.row_reduction import Softmax
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.union_space import UnionSpace

PROBLEM = Softmax(256, 1024)
H100 = device("h100")


def _task() -> tuple[UnionSpace, AnalyticEstimates]:
    templates = templates_for(PROBLEM, H100)
    return templates.space(PROBLEM, H100), AnalyticEstimates(PROBLEM, templates, H100)


def test_winners_and_the_models_best_alternate() -> None:
    space, estimates = _task()
    winners = space.sample(3, 7)
    alone, first = portfolio(space, estimates, ()), portfolio(space, estimates, winners)
    assert len(alone) == len(first) == len(set(first)) == SIZE
    assert first[1:6:2] == winners
    assert first[0:5:2] == alone[:3]
    assert all(schedule in space for schedule in first)
    best = float(estimates.log_seconds(space.sample(2000, 0)).min())
    assert float(estimates.log_seconds(alone[:1])[0]) <= best


def test_the_models_schedules_differ_and_are_not_slow() -> None:
    space, estimates = _task()
    chosen = portfolio(space, estimates, ())[:16]
    assert min(differences(a, b) for i, a in enumerate(chosen) for b in chosen[:i]) >= 3
    times = estimates.log_seconds(chosen)
    assert float(times.max() - times.min()) < math.log(1.3)


def test_many_winners_leave_room_and_foreign_ones_are_skipped() -> None:
    space, estimates = _task()
    foreign = Schedule("row_reduction", (("no_such_parameter", 1),))
    winners = space.sample(40, 7)
    first = portfolio(space, estimates, [foreign, *winners])
    assert foreign not in first
    assert sum(schedule in winners for schedule in first) == WINNERS


def test_no_portfolio_without_finite_estimates() -> None:
    space, _ = _task()
    fails = Estimates(space.encode, lambda schedules: np.full(len(schedules), math.inf))
    assert portfolio(space, Estimates.encoded(space), space.sample(2, 0)) == []
    assert portfolio(space, fails, ()) == []


def test_no_proposal_is_random_and_the_sampler_learns_from_results() -> None:
    space, estimates = _task()
    bayes = sampler("bayes", space, seed=0, estimates=estimates)
    tested_sampler = first_tried(bayes, space, estimates, lambda: space.sample(2, 7))
    proposals = tested_sampler.ask(SIZE)
    assert {tested_sampler.proposer(schedule) for schedule in proposals} == {NAME}
    for schedule in proposals:
        tested_sampler.tell(schedule, ok(math.exp(float(estimates.log_seconds([schedule])[0]))))
    assert [tested_sampler.proposer(schedule) for schedule in tested_sampler.ask(2)] == ["bayes", "bayes"]
    assert 0 <= tested_sampler.expected_gain < math.inf


def test_remaining_schedules_are_dropped_once_enough_results_are_known() -> None:
    space, estimates = _task()
    tested_sampler = first_tried(sampler("bayes", space, seed=0, estimates=estimates), space, estimates, tuple)
    for schedule in tested_sampler.ask(ENOUGH):
        tested_sampler.tell(schedule, ok(math.exp(float(estimates.log_seconds([schedule])[0]))))
    assert tested_sampler.proposer(tested_sampler.ask(1)[0]) == "bayes"


def test_other_samplers_are_not_wrapped() -> None:
    space, estimates = _task()
    for unwrapped in (sampler("random", space, seed=0), sampler("model", space, seed=0, estimates=estimates)):
        assert first_tried(unwrapped, space, estimates, tuple) is unwrapped


def test_the_models_best_are_of_several_structures() -> None:
    problem = Matmul(2048, 2048, 2048, a="bf16")
    templates = templates_for(problem, H100)
    chosen = portfolio(templates.space(problem, H100), AnalyticEstimates(problem, templates, H100), ())[:16]
    assert len({(s["tile_m"], s["tile_n"], s["tile_k"]) for s in chosen}) >= 6


def test_descents_begin_at_structures_that_none_would_reach() -> None:
    problem = Matmul(4096, 6144, 4096, a="bf16")
    templates = templates_for(problem, H100)
    space, estimates = templates.space(problem, H100), AnalyticEstimates(problem, templates, H100)
    considered: list[Schedule] = []
    bayes = sampler("bayes", space, seed=0, estimates=estimates)
    bayes.consider = considered.extend  # type: ignore[method-assign,assignment]
    first_tried(bayes, space, estimates, tuple)
    times = estimates.log_seconds(considered)
    near = {structure(s) for s, time in zip(considered, times, strict=True) if time < times.min() + math.log(1.1)}
    assert len(near) >= 8  # without the portfolio, descents end at only about 5 structures
