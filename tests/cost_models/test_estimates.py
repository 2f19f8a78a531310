"""Each schedule is estimated once. A schedule that does not fit the device does not affect other schedules."""

import numpy as np
import pytest

from cost_models.estimates import AnalyticEstimates, Estimates, estimate
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.templates.template import TemplateSet


class TestAnalyticEstimates:
    PROBLEM = Matmul(m=96, n=80, k=64)
    DEVICE = device("h200")
    TEMPLATES = TemplateSet([template("matmul")])

    def test_rows_keep_their_order_and_are_remembered(self) -> None:
        estimates = AnalyticEstimates(self.PROBLEM, self.TEMPLATES, self.DEVICE)
        schedules = template("matmul").space(self.PROBLEM, self.DEVICE).sample(8, 1)
        rows, guess = estimates.features(schedules), estimates.log_seconds(schedules)
        assert rows.shape[0] == 8 and rows.dtype == np.float32
        assert np.isfinite(guess).all()
        assert np.array_equal(estimates.features(schedules[::-1]), rows[::-1])
        assert np.array_equal(estimates.log_seconds(schedules[2:5]), guess[2:5])
        again = AnalyticEstimates(self.PROBLEM, self.TEMPLATES, self.DEVICE)
        assert again.log_seconds(schedules).tolist() == guess.tolist()

    def test_no_schedules_give_empty_arrays(self) -> None:
        estimates = AnalyticEstimates(self.PROBLEM, self.TEMPLATES, self.DEVICE)
        assert estimates.log_seconds(()).shape == (0,)
        assert estimates.features(()).shape[0] == 0

    def test_an_illegal_schedule_is_infinite_and_does_not_affect_others(self) -> None:
        estimates = AnalyticEstimates(self.PROBLEM, self.TEMPLATES, self.DEVICE)
        good = template("matmul").space(self.PROBLEM, self.DEVICE).sample(3, 1)
        illegal = good[0].replace(stages=5, tile_m=256, tile_n=256, tile_k=128)
        guess = estimates.log_seconds([good[0], illegal, good[1]])
        assert np.isfinite(guess).tolist() == [True, False, True]


class TestEstimates:
    SPACE = template("matmul").space(Matmul(m=96, n=80, k=64), device("h200"))

    def test_each_schedule_is_computed_once_until_there_are_too_many(self) -> None:
        computed: list[str] = []

        def log_seconds(schedules):  # type: ignore[no-untyped-def]
            computed.extend(schedule.key() for schedule in schedules)
            return np.arange(len(schedules), dtype=np.float64)

        a, b, c = self.SPACE.sample(3, 1)
        estimates = Estimates(self.SPACE.encode, log_seconds, most=2)
        assert estimates.log_seconds([a, b, a]).tolist() == [0.0, 1.0, 0.0]
        assert list(estimates.known) == [a, b]
        estimates.log_seconds([b])
        assert computed == [a.key(), b.key()]
        estimates.log_seconds([c, a])
        assert computed == [a.key(), b.key(), c.key(), a.key()]

    def test_an_encoding_has_features_and_no_times(self) -> None:
        schedules = self.SPACE.sample(4, 1)
        encoded = Estimates.encoded(self.SPACE)
        assert not encoded.has_times
        assert np.array_equal(encoded.features(schedules), self.SPACE.encode(schedules))
        with pytest.raises(ValueError, match="has_times"):
            encoded.log_seconds(schedules)

    def test_the_function_and_the_value_agree(self) -> None:
        problem, templates, h200 = Matmul(m=96, n=80, k=64), TemplateSet([template("matmul")]), device("h200")
        schedules = self.SPACE.sample(5, 2)
        alone = estimate(problem, templates, h200, schedules)
        assert np.array_equal(AnalyticEstimates(problem, templates, h200).log_seconds(schedules), alone)

    def test_a_correction_keeps_features_and_infinite_estimates(self) -> None:
        problem, templates, h200 = Matmul(m=96, n=80, k=64), TemplateSet([template("matmul")]), device("h200")
        analytic = AnalyticEstimates(problem, templates, h200)
        good = self.SPACE.sample(2, 1)
        bad = good[0].replace(stages=5, tile_m=256, tile_n=256, tile_k=128)
        corrected = analytic.corrected(lambda table: np.full(len(table), 3.0))
        assert corrected.log_seconds([good[0], bad, good[1]]).tolist() == [3.0, np.inf, 3.0]
        assert np.array_equal(corrected.features(good), analytic.features(good))
