"""Guarantees of the evolutionary sampler beyond the contract of all samplers."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import pytest
from toy_searches import (
    BOTH,
    FLAT,
    MAKERS,
    QUICK,
    TOY,
    Nearest,
    median_of_best,
    ok,
    outcome,
    run,
    seconds,
    toy_estimates,
)

from autosched.samplers import sampler
from autosched.samplers.evolution import EvolutionSampler
from cost_models.estimates import Estimates
from cost_models.features import Matrix
from search_spaces.arrays import FloatArray
from search_spaces.spaces.schedule import Schedule


class TestEvolution:
    def test_evolution_finds_faster_schedules_than_chance(self) -> None:
        assert median_of_best("evolution", 64) < 0.6 * median_of_best("random", 64)

    def test_a_guide_leads_from_the_first_proposal(self) -> None:
        best = [min(map(seconds, MAKERS["evolution_guided"](TOY, seed).ask(8))) for seed in range(10)]
        chance = [min(map(seconds, MAKERS["random"](TOY, seed).ask(8))) for seed in range(10)]
        assert np.median(best) < np.median(chance)
        assert max(best) <= 1.5e-6

    def test_only_the_first_proposals_are_chosen_from_many_estimates(self) -> None:
        estimated: set[Schedule] = set()

        def log_seconds(schedules: Sequence[Schedule]) -> FloatArray:
            estimated.update(schedules)
            return toy_estimates().log_seconds(schedules)

        estimates = Estimates(TOY.encode, log_seconds, most=0)
        settings = dataclasses.replace(QUICK, first=100)
        evolution = EvolutionSampler(TOY, 1, fit=None, estimates=estimates, settings=settings)
        estimated.clear()
        first = evolution.ask(4)
        assert len(estimated) > 60  # some of the 100 sampled schedules are equal
        for schedule in first:
            evolution.tell(schedule, ok(seconds(schedule)))
        estimated.clear()
        evolution.ask(4)
        assert 0 < len(estimated) < 60

    def test_the_model_learns_measured_over_guessed_time(self) -> None:
        trained: list[tuple[Matrix, FloatArray]] = []

        def fit(rows: Matrix, times: FloatArray) -> Nearest:
            trained.append((rows, times))
            return Nearest(rows, times)

        estimates = toy_estimates()
        settings = dataclasses.replace(QUICK, warmup=10)
        evolution = EvolutionSampler(TOY, 1, fit=fit, estimates=estimates, settings=settings)
        reported = [s for s in TOY.sample(10**6, 3) if s["x"] != 1][:10]
        for schedule in reported:
            evolution.tell(schedule, ok(seconds(schedule)))
        evolution.ask(1)
        ((rows, times),) = trained
        assert np.array_equal(rows, TOY.encode(reported))
        assert times == pytest.approx(
            [seconds(s) / math.exp(g) for s, g in zip(reported, estimates.log_seconds(reported), strict=True)]
        )

    def test_the_model_is_retrained_after_a_fifth_more_trials(self) -> None:
        sizes: list[int] = []

        def fit(rows: Matrix, times: FloatArray) -> Nearest:
            sizes.append(len(rows))
            return Nearest(rows, times)

        evolution = EvolutionSampler(TOY, 1, fit=fit, settings=QUICK)
        for schedule in TOY.sample(40, 3):
            evolution.tell(schedule, ok(seconds(schedule)))
            evolution.ask(1)
        assert sizes == [6, 8, 10, 12, 15, 18, 22, 27, 33, 40]

    def test_rows_of_all_templates_are_fitted_together_with_nan_for_missing_columns(self) -> None:
        learned: list[Matrix] = []

        def fit(rows: Matrix, times: FloatArray) -> Nearest:
            learned.append(rows)
            return Nearest(rows, times)

        evolution = EvolutionSampler(BOTH, 1, fit=fit, settings=dataclasses.replace(QUICK, warmup=30))
        reported = BOTH.sample(30, 3)
        for schedule in reported:
            evolution.tell(schedule, ok(seconds(schedule)))
        evolution.ask(1)
        assert np.array_equal(learned[0], BOTH.encode(reported), equal_nan=True)
        toys = np.isnan(learned[0]).sum(axis=1) == len(FLAT.encoded_names)
        assert toys.tolist() == [s.template == "toy" for s in reported]

    def test_failures_are_worse_than_every_time_and_never_better(self) -> None:
        labels: list[float] = []

        def fit(rows: Matrix, times: FloatArray) -> Nearest:
            labels[:] = times.tolist()
            return Nearest(rows, times)

        evolution = EvolutionSampler(TOY, 1, fit=fit, settings=QUICK)
        reported = TOY.sample(30, 3)
        for schedule in reported:
            evolution.tell(schedule, outcome(schedule))
        evolution.ask(1)
        slowest = max(seconds(s) for s in reported[: len(labels)] if outcome(s).ok)
        for schedule, label in zip(reported, labels, strict=False):
            expected = seconds(schedule) if outcome(schedule).ok else 2 * slowest
            assert label == pytest.approx(expected)
        assert any(not outcome(s).ok for s in reported[: len(labels)])

    def test_a_schedule_measured_again_counts_with_its_median(self) -> None:
        labels: list[float] = []

        def fit(rows: Matrix, times: FloatArray) -> Nearest:
            labels[:] = times.tolist()
            return Nearest(rows, times)

        evolution = EvolutionSampler(TOY, 1, fit=fit, settings=QUICK)
        reported = TOY.sample(6, 3)
        for factor in (1.0, 9.0, 1.2):
            for schedule in reported:
                evolution.tell(schedule, ok(factor * seconds(schedule)))
        evolution.ask(1)
        assert labels == pytest.approx([1.2 * seconds(s) for s in reported])

    def test_one_batch_is_spread_out(self) -> None:
        evolution = EvolutionSampler(
            TOY, 1, fit=None, estimates=toy_estimates(), settings=dataclasses.replace(QUICK, guided=1.0, distance=2)
        )
        batch = evolution.ask(4)
        apart = [sum(p != q for p, q in zip(a.items, b.items, strict=True)) for a in batch for b in batch if a != b]
        assert min(apart) >= 2

    def test_schedules_predicted_to_fail_are_not_proposed(self) -> None:
        evolution = EvolutionSampler(
            TOY, 1, fit=None, estimates=toy_estimates(), settings=dataclasses.replace(QUICK, guided=1.0)
        )
        possible = sum(s["x"] != 1 for s in TOY.sample(10**6, 0))
        proposed = [s for _ in range(4) for s in evolution.ask(8)]
        assert len(proposed) < possible
        assert all(s["x"] != 1 for s in proposed)

    def test_a_restored_search_continues_identically(self) -> None:
        for make in (MAKERS["evolution_guided"], MAKERS["evolution_of_nearest"]):
            uninterrupted = run(make(TOY, 3), 12)
            restored = make(TOY, 3)
            for schedule in uninterrupted[:35]:
                restored.tell(schedule, outcome(schedule))
            assert run(restored, 5) == uninterrupted[35:]


def test_a_prior_that_predicts_only_failures_is_tolerated() -> None:
    denying = Estimates(TOY.encode, lambda schedules: np.full(len(schedules), np.inf))
    evolution = sampler("evolution", TOY, seed=1, estimates=denying)
    for _ in range(8):
        for schedule in evolution.ask(8):
            evolution.tell(schedule, ok(seconds(schedule)))
