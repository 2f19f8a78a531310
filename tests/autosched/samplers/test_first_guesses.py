"""A search starts with suggested schedules, and with local descents that minimise the estimated time."""

import math
from collections.abc import Callable

import numpy as np
from toy_searches import TOY, WHOLE, ok, seconds, toy_estimates

from autosched.samplers import sampler
from autosched.samplers.bayes.sampler import BayesSampler
from autosched.samplers.bayes.settings import BayesSettings, GuessTrust
from autosched.samplers.first_choices.descent import descended
from autosched.samplers.seeded import SeededSampler
from cost_models.estimates import AnalyticEstimates, Estimates
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.parameters import ordinal
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space
from search_spaces.templates.template import TemplateSet


class TestAdvised:
    ADVICE = TOY.sample(3, 99)

    def new_sampler(self) -> SeededSampler:
        return SeededSampler(BayesSampler(TOY, 1, estimates=toy_estimates(), settings=WHOLE), self.ADVICE, "somebody")

    def test_advice_follows_the_first_proposal_one_by_one_or_in_a_batch(self) -> None:
        single, batch = self.new_sampler(), self.new_sampler()
        one_by_one = [s for _ in range(6) for s in single.ask(1)]
        assert one_by_one[1:4] == self.ADVICE == batch.ask(6)[1:4]
        assert [single.proposer(s) for s in one_by_one] == ["bayes", *["somebody"] * 3, "bayes", "bayes"]
        assert single.name == "bayes"

    def test_a_proposal_of_the_sampler_is_attributed_to_the_sampler(self) -> None:
        (first,) = BayesSampler(TOY, 1, estimates=toy_estimates(), settings=WHOLE).ask(1)
        seeded = SeededSampler(
            BayesSampler(TOY, 1, estimates=toy_estimates(), settings=WHOLE), [first, *self.ADVICE], "somebody"
        )
        assert seeded.ask(4) == [first, *self.ADVICE]
        assert seeded.proposer(first) == "bayes"

    def test_a_later_run_begins_with_the_remaining_advice(self) -> None:
        sampler = self.new_sampler()
        sampler.tell(self.ADVICE[0], ok(1e-6))
        assert sampler.ask(2) == self.ADVICE[1:]

    def test_the_expected_gain_is_finite_for_the_samplers_proposals(self) -> None:
        sampler = self.new_sampler()
        for schedule in sampler.ask(8):
            assert sampler.expected_gain == math.inf or schedule not in self.ADVICE
            sampler.tell(schedule, ok(seconds(schedule)))
        sampler.ask(1)
        assert 0 <= sampler.expected_gain < math.inf


def slope(schedule: Schedule) -> float:
    """Return log-seconds that decrease with x and y and are smallest for the letter ``b``. ``c`` gives infinity."""
    if schedule["letter"] == "c":
        return math.inf
    return -schedule.integer("x") - 2.0 * schedule.integer("y") - (schedule["letter"] == "b")


def estimates_by(log_seconds: Callable[[Schedule], float]) -> Estimates:
    return Estimates(TOY.encode, lambda schedules: np.array([log_seconds(s) for s in schedules]))


class TestDescent:
    def test_descent_ends_at_a_local_minimum_of_the_estimate(self) -> None:
        ends = descended(TOY, estimates_by(slope), TOY.sample(3, 0))
        assert [dict(end.items) for end in ends] == [{"x": 128, "y": 128, "letter": "b"}]

    def test_the_best_estimate_is_proposed_first(self) -> None:
        def valleys(schedule: Schedule) -> float:  # with letter b, the slow x = 64 separates two optima
            return slope(schedule) + 10.0 * (schedule["letter"] == "b" and schedule["x"] == 64)

        starts = [s for s in TOY.sample(10**6, 0) if s["x"] in (32, 128)]
        ends = descended(TOY, estimates_by(valleys), starts)
        assert ends[0] == max(starts, key=lambda s: (s["x"], s["letter"] == "b"))

    def test_sides_of_a_matmul_are_exchanged_in_one_step(self) -> None:
        """The tile 1 x 3 is a local optimum. Exchanging tile_m and tile_n reaches the faster 3 x 1 in one step."""
        space = Space("tiles", tuple(ordinal(name, (1, 2, 3)) for name in ("tile_m", "tile_n")), (), ())

        def log_seconds(schedule: Schedule) -> float:
            tile = schedule.integer("tile_m"), schedule.integer("tile_n")
            return {(1, 3): -1.0, (3, 1): -2.0}.get(tile, 0.0)

        estimates = Estimates(space.encode, lambda schedules: np.array([log_seconds(s) for s in schedules]))
        (start,) = (s for s in space.sample(9, 0) if (s["tile_m"], s["tile_n"]) == (1, 3))
        assert dict(descended(space, estimates, [start])[0].items) == {"tile_m": 3, "tile_n": 1}

    def test_descent_from_only_failures_returns_nothing(self) -> None:
        assert descended(TOY, estimates_by(slope), [s for s in TOY.sample(100, 0) if s["letter"] == "c"]) == []
        assert descended(TOY, estimates_by(slope), []) == []

    def test_the_first_proposal_of_bayes_has_no_neighbour_that_is_guessed_to_be_faster(self) -> None:
        estimates = estimates_by(slope)
        (first,) = BayesSampler(TOY, 3, estimates=estimates, settings=BayesSettings(trust=GuessTrust(guessed=3))).ask(1)
        assert estimates.log_seconds([first])[0] <= estimates.log_seconds(TOY.neighbours(first)).min()


def test_the_time_model_leads_a_search_of_matmuls() -> None:
    problem, h200 = Matmul(m=96, n=80, k=64), device("h200")
    space = template("matmul").space(problem, h200)
    estimates = AnalyticEstimates(problem, TemplateSet([template("matmul")]), h200)
    led = sampler("evolution", space, seed=1, estimates=estimates).ask(8)
    chance = sampler("random", space, seed=1).ask(8)
    assert all(not space.explain(s) for s in led)
    assert np.median(estimates.log_seconds(led)) < np.median(estimates.log_seconds(chance))
