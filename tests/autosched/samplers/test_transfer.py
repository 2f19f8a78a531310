"""Estimates from another recording of the kernel: the search follows good estimates and ignores misleading ones."""

import math
import random
from collections.abc import Callable

import numpy as np
import pytest

from autosched.replay import search as replay
from autosched.samplers.bayes.sampler import BayesSampler
from autosched.samplers.bayes.settings import BayesSettings, GuessTrust
from autosched.samplers.first_choices.guesses import LEAST, Guesses
from autosched.samplers.transfer import TransferredTimes
from cost_models.estimates import Estimates
from measurements.tables.table import Row, Table, table_of
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from search_spaces.spaces.schedule import Schedule


def table(device: str, best: tuple[int, int], values: tuple[int, ...] = (2, 4, 8, 16, 32, 64)) -> Table:
    """Return the table of a kernel with two tile sizes and a flag. The tile sizes ``best`` are fastest.

    Tiles beyond 1024 elements fail.
    """
    rows = []
    for m in values:
        for n in values:
            for cache in ("yes", "no"):
                far = abs(math.log2(m / best[0])) + abs(math.log2(n / best[1]))
                seconds = 1e-3 * 1.3**far * (1.0 if cache == "yes" else 1.2)
                result = Measurement(Status.OK, Provenance.MEASURED, timing=Timing.of([seconds]))
                if m * n > 1024:
                    result = Measurement(Status.LAUNCH_ERROR, Provenance.MEASURED, "too large")
                rows.append(Row("k", {"m": m, "n": n, "cache": cache}, result))
    return table_of(device, rows)


def evaluations(here: Table, estimates: Estimates | None) -> float:
    summary = replay.searches(
        here, "bayes", lambda space, seed: BayesSampler(space, seed, estimates=estimates), budget=30, repeats=1
    )
    needed = summary.median_evaluations_to(0.99)
    return math.inf if needed is None else needed


def seconds_of(here: Table) -> Callable[[Schedule], float]:
    def of(schedule: Schedule) -> float:
        timing = here.measurements[schedule].timing
        return math.inf if timing is None else timing.median

    return of


def test_a_similar_recording_saves_most_of_the_search() -> None:
    recorded = table("a", (32, 8))
    cold = evaluations(recorded, None)
    warm = evaluations(recorded, TransferredTimes(recorded.space(), table("b", (32, 8)).measurements).estimates)
    assert warm <= 2 < cold


def test_a_misleading_prior_costs_few_evaluations() -> None:
    recorded = table("a", (32, 8))
    cold = evaluations(recorded, None)
    assert (
        evaluations(recorded, TransferredTimes(recorded.space(), table("b", (2, 64)).measurements).estimates)
        <= 1.5 * cold + 5
        < 30
    )


def test_an_unsuccessful_prior_decides_every_fourth_proposal() -> None:
    """After trials without progress, three of four proposals ignore the prior."""
    recorded = table("a", (32, 8))
    space = recorded.space()
    estimates = TransferredTimes(space, table("b", (64, 16)).measurements).estimates
    differed = False
    for num_reported in (8, 11, 14, 18):
        doubting, trusting = (
            BayesSampler(space, 0, estimates=estimates, settings=BayesSettings(trust=GuessTrust(patience=patience)))
            for patience in (6, 1000)
        )
        ordered = random.Random(0).sample(list(recorded.measurements), num_reported)
        ordered.sort(key=seconds_of(recorded))  # with the fastest trial first, no later trial is an improvement
        for bayes in (doubting, trusting):
            for schedule in ordered:
                bayes.tell(schedule, recorded.measurements[schedule])
        assert doubting.ask(1) == trusting.ask(1)
        differed |= any(doubting.ask(1) != trusting.ask(1) for _ in range(3))
    assert differed


def test_progress_restores_the_trust_in_a_guess() -> None:
    recorded = table("a", (32, 8))
    space = recorded.space()
    estimates = TransferredTimes(space, table("b", (64, 4)).measurements).estimates
    ordered = random.Random(0).sample(list(recorded.measurements), 11)
    ordered.sort(key=seconds_of(recorded), reverse=True)  # slowest first: each trial is an improvement
    proposals = []
    for patience in (6, 1000):
        bayes = BayesSampler(space, 0, estimates=estimates, settings=BayesSettings(trust=GuessTrust(patience=patience)))
        for schedule in ordered:
            bayes.tell(schedule, recorded.measurements[schedule])
        proposals.append(bayes.ask(1))
    assert proposals[0] == proposals[1]


def test_a_guess_counts_by_its_rank_in_coarse_steps_and_by_its_value() -> None:
    recorded = table("a", (32, 8))
    estimates = TransferredTimes(recorded.space(), table("b", (32, 8)).measurements).estimates
    schedules = list(recorded.measurements)
    guesses = Guesses(estimates, schedules)
    seconds = np.exp(estimates.log_seconds(schedules))
    np.testing.assert_allclose(guesses.values(schedules), np.maximum(np.log(seconds.min() / seconds), LEAST))
    ranks = guesses.coordinate(schedules)[0]
    assert ranks.dtype == np.float32
    assert ranks[seconds.argmin()] == ranks.max() >= np.float32(31 / 32)
    order = np.argsort(seconds)
    assert (np.diff(ranks[order]) <= 0).all()
    assert ranks.min() == 0
    np.testing.assert_array_equal(ranks * 32, np.floor(ranks * 32))
    # The guesses are derived without the five fastest schedules, and are then applied to the fastest schedule.
    few = Guesses(estimates, [schedules[i] for i in order[5:]])
    assert few.coordinate([schedules[order[0]]])[0, 0] == 1.0
    assert few.values([schedules[order[0]]])[0] > 0.0


def test_a_guess_that_does_not_fit_is_the_least_value() -> None:
    schedules = list(table("a", (32, 8)).measurements)[:4]
    estimates = Estimates(table("a", (32, 8)).space().encode, lambda _: np.array([0.0, 1.0, 20.0, math.inf]))
    assert Guesses(estimates, schedules).values(schedules).tolist() == [0.0, -1.0, LEAST, LEAST]


def test_an_estimate_is_the_recorded_time_or_a_tree_prediction() -> None:
    recorded = table("a", (32, 8))
    every_second = table("b", (32, 8), (4, 16, 64))
    estimates = TransferredTimes(recorded.space(), every_second.measurements).estimates
    schedules = list(recorded.measurements)
    guesses = np.exp(estimates.log_seconds(schedules))
    known_indices = [i for i, s in enumerate(schedules) if s in every_second.measurements]
    times = [every_second.measurements[schedules[i]].timing for i in known_indices]
    slowest = max(t.median for t in times if t is not None)
    expected = [2 * slowest if t is None else t.median for t in times]
    np.testing.assert_allclose(guesses[known_indices], expected)
    predicted = np.delete(guesses, known_indices)
    assert len(predicted) == len(schedules) - len(known_indices) > 0
    assert (predicted > 0.5e-3).all() and (predicted < 3 * slowest).all()
    assert estimates.features(schedules[:2]).shape[0] == 2


def test_recordings_of_other_kernels_are_rejected() -> None:
    recorded = table("a", (32, 8))
    other = table_of("b", [Row("z", {"x": i}, next(iter(recorded.measurements.values()))) for i in (1, 2)])
    with pytest.raises(ValueError, match="no varying parameter"):
        TransferredTimes(recorded.space(), other.measurements)
    failed = {s: Measurement(Status.LAUNCH_ERROR, Provenance.MEASURED, "no") for s in recorded.measurements}
    with pytest.raises(ValueError, match="no times"):
        TransferredTimes(recorded.space(), failed)
