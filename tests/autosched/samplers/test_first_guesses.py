"""Where a search begins: somebody's advice, descents along a prior, and the time model as one."""

import math
from collections.abc import Sequence

import numpy as np
from toy_searches import BOTH, TOY, WHOLE, ToyGuide, ok, seconds

from autosched.samplers import sampler
from autosched.samplers.base import EncodingPrior
from autosched.samplers.bayes.sampler import BayesSampler
from autosched.samplers.bayes.settings import GuessTrust, Settings
from autosched.samplers.first_choices.descent import descended
from autosched.samplers.first_choices.prior import AnalyticPrior
from autosched.samplers.seeded import SeededSampler
from search_spaces.arrays import FloatArray
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import TemplateSet


class TestAdvised:
    ADVICE = TOY.sample(3, 99)

    def made(self) -> SeededSampler:
        return SeededSampler(BayesSampler(TOY, 1, prior=ToyGuide(), settings=WHOLE), self.ADVICE, "somebody")

    def test_advice_follows_the_first_proposal_one_by_one_or_in_a_batch(self) -> None:
        single, batch = self.made(), self.made()
        one_by_one = [s for _ in range(6) for s in single.ask(1)]
        assert one_by_one[1:4] == self.ADVICE == batch.ask(6)[1:4]
        assert [single.proposer(s) for s in one_by_one] == ["bayes", *["somebody"] * 3, "bayes", "bayes"]
        assert single.name == "bayes"

    def test_what_the_sampler_proposes_itself_is_its_own(self) -> None:
        (first,) = BayesSampler(TOY, 1, prior=ToyGuide(), settings=WHOLE).ask(1)
        made = SeededSampler(BayesSampler(TOY, 1, prior=ToyGuide(), settings=WHOLE), [first, *self.ADVICE], "somebody")
        assert made.ask(4) == [first, *self.ADVICE]
        assert made.proposer(first) == "bayes"

    def test_a_later_run_begins_with_what_is_left_of_it(self) -> None:
        made = self.made()
        made.tell(self.ADVICE[0], ok(1e-6))
        assert made.ask(2) == self.ADVICE[1:]

    def test_the_promise_of_a_proposal_is_known_once_the_sampler_made_it(self) -> None:
        made = self.made()
        for schedule in made.ask(8):
            assert made.expected_gain == math.inf or schedule not in self.ADVICE
            made.tell(schedule, ok(seconds(schedule)))
        made.ask(1)
        assert 0 <= made.expected_gain < math.inf


class Slope(EncodingPrior):
    """Guesses that fall along every parameter of TOY, and that nothing with a ``c`` works."""

    def log_seconds(self, schedules: Sequence[Schedule]) -> FloatArray:
        guesses = [-s.integer("x") - 2.0 * s.integer("y") - (s["letter"] == "b") for s in schedules]
        return np.array([math.inf if s["letter"] == "c" else g for s, g in zip(schedules, guesses, strict=True)])


class TestDescent:
    def test_it_ends_where_no_neighbour_is_guessed_to_be_faster(self) -> None:
        ends = descended(TOY, Slope(TOY), TOY.sample(3, 0))
        assert [dict(end.items) for end in ends] == [{"x": 128, "y": 128, "letter": "b"}]

    def test_the_best_guess_comes_first(self) -> None:
        class Valleys(Slope):
            def log_seconds(self, schedules: Sequence[Schedule]) -> FloatArray:  # a ridge between a and b
                return super().log_seconds(schedules) + [
                    10.0 * (s["letter"] == "b" and s["x"] == 64) for s in schedules
                ]

        starts = [s for s in TOY.sample(10**6, 0) if s["x"] in (32, 128)]
        ends = descended(TOY, Valleys(TOY), starts)
        assert ends[0] == max(starts, key=lambda s: (s["x"], s["letter"] == "b"))

    def test_nothing_without_a_guess_or_with_failures_alone(self) -> None:
        assert descended(TOY, EncodingPrior(TOY), TOY.sample(5, 0)) == []
        assert descended(TOY, Slope(TOY), [s for s in TOY.sample(100, 0) if s["letter"] == "c"]) == []
        assert descended(TOY, Slope(TOY), []) == []

    def test_the_first_proposal_of_bayes_has_no_neighbour_that_is_guessed_to_be_faster(self) -> None:
        prior = Slope(BOTH)
        (first,) = BayesSampler(TOY, 3, prior=prior, settings=Settings(trust=GuessTrust(guessed=3))).ask(1)
        assert prior.log_seconds([first])[0] <= prior.log_seconds(TOY.neighbours(first)).min()


class TestAnalyticPrior:
    PROBLEM = Matmul(m=96, n=80, k=64)
    DEVICE = device("h200")
    TEMPLATES = TemplateSet([template("matmul")])

    def test_rows_keep_their_order_and_are_remembered(self) -> None:
        prior = AnalyticPrior(self.TEMPLATES, self.PROBLEM, self.DEVICE)
        schedules = template("matmul").space(self.PROBLEM, self.DEVICE).sample(8, 1)
        rows, guess = prior.features(schedules), prior.log_seconds(schedules)
        assert rows.shape[0] == 8 and rows.dtype == np.float32
        assert np.isfinite(guess).all()
        assert np.array_equal(prior.features(schedules[::-1]), rows[::-1])
        assert np.array_equal(prior.log_seconds(schedules[2:5]), guess[2:5])
        again = AnalyticPrior(self.TEMPLATES, self.PROBLEM, self.DEVICE)
        assert again.log_seconds(schedules).tolist() == guess.tolist()

    def test_nothing_gives_empty_arrays(self) -> None:
        prior = AnalyticPrior(self.TEMPLATES, self.PROBLEM, self.DEVICE)
        assert prior.log_seconds(()).shape == (0,)
        assert prior.features(()).shape[0] == 0

    def test_what_does_not_fit_is_infinite_and_spoils_no_other(self) -> None:
        prior = AnalyticPrior(self.TEMPLATES, self.PROBLEM, self.DEVICE)
        good = template("matmul").space(self.PROBLEM, self.DEVICE).sample(3, 1)
        illegal = good[0].replace(stages=5, tile_m=256, tile_n=256, tile_k=128)
        guess = prior.log_seconds([good[0], illegal, good[1]])
        assert np.isfinite(guess).tolist() == [True, False, True]

    def test_it_leads_a_search_of_matmuls(self) -> None:
        space = template("matmul").space(self.PROBLEM, self.DEVICE)
        prior = AnalyticPrior(self.TEMPLATES, self.PROBLEM, self.DEVICE)
        led = sampler("evolution", space, seed=1, prior=prior).ask(8)
        chance = sampler("random", space, seed=1).ask(8)
        assert all(not space.explain(s) for s in led)
        assert np.median(prior.log_seconds(led)) < np.median(prior.log_seconds(chance))
