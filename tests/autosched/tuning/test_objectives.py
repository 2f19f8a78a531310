"""Searches with other objectives than time: direction, best trial, and Pareto front."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pytest
from toy_tuning import PROBLEM, SPACE, FakeRunner, Outcome, seconds, tuned

from autosched.samplers import sampler
from autosched.samplers.scalarized import ScalarizedSampler
from autosched.tuning.objectives import MOST, Objectives
from autosched.tuning.result import TuneResult
from measurements.runners.base import Candidate
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from search_spaces.spaces.schedule import Schedule


def watts(schedule: Schedule) -> float:
    """Return a power that falls with the threads along x. The fastest schedule does not have the lowest power."""
    return 400.0 / schedule.integer("x")


class PowerRunner(FakeRunner):
    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        for position, m in super().measure(candidates):
            power = watts(candidates[position].schedule) if m.ok else None
            yield position, dataclasses.replace(m, watts=power)


def searched(store: Store, trials: int, *objective_texts: str, name: str = "bayes", **arguments: object) -> TuneResult:
    objectives = Objectives.of(objective_texts)
    members = [sampler(name, SPACE, seed=i) for i in range(len(objectives.weights))]
    scalarized = ScalarizedSampler(members, objectives.weights, partial(objectives.costs, PROBLEM))
    return tuned(store, trials, PowerRunner(), scalarized, objectives=objectives, **arguments)  # type: ignore[arg-type]


def energy(schedule: Schedule) -> float:
    return watts(schedule) * seconds(schedule)


def test_a_search_for_energy_finds_efficient_schedules(store: Store) -> None:
    result = searched(store, 30, "joules")
    assert result.best is not None
    energies = [energy(r.schedule) for r in result.trials if r.ok]
    assert energy(result.best.schedule) == min(energies) < energy(store.best(PROBLEM, "h200").schedule)  # type: ignore[union-attr]
    assert np.median(energies[-10:]) < 0.6 * np.median(energies[:8]), "the sampler has not learned the objective"


def test_larger_may_be_better(store: Store) -> None:
    result = searched(store, 40, "watts:max")
    assert result.best is not None and result.best.schedule["x"] == 1


def test_several_objectives_give_a_front_without_dominated_trials(store: Store) -> None:
    result = searched(store, 45, "seconds", "watts")
    points = [(row["seconds"], row["watts"]) for row in result.front]
    assert len(points) >= 3 and points == sorted(points)
    for trial in result.trials:
        if trial.ok:
            costs = (seconds(trial.schedule), watts(trial.schedule))
            assert not any(costs != p and costs[0] <= p[0] and costs[1] <= p[1] for p in points)
    assert result.best is not None and result.best.seconds == points[0][0], "the first objective decides"


def test_schedules_on_the_front_are_verified(store: Store) -> None:
    verified: list[Schedule] = []

    def verifier(schedule: Schedule) -> Outcome:
        verified.append(schedule)
        return Outcome(schedule["x"] != 32, "ok" if schedule["x"] != 32 else "wrong_result", "32 is wrong")

    result = searched(store, 40, "seconds", "watts", verifier=verifier)
    assert result.front and all(row["x"] != 32 for row in result.front)
    # Schedules that differ only in the parameter "letter" are equally fast, and only the first of them is verified.
    assert {(row["x"], row["y"]) for row in result.front} <= {(s["x"], s["y"]) for s in verified}
    assert any(s["x"] == 32 for s in verified), "the best schedule by watts was tried and rejected"


def test_a_second_run_continues_the_first(store: Store) -> None:
    first = searched(store, 20, "joules")
    second = searched(store, 20, "joules")
    assert not {r.schedule for r in first.trials} & {r.schedule for r in second.trials}
    assert first.best is not None and second.best is not None
    assert energy(second.best.schedule) <= energy(first.best.schedule)


def test_earlier_trials_without_the_objective_are_measured_again(store: Store) -> None:
    plain = tuned(store, 10, FakeRunner())
    assert all(r.measurement.watts is None for r in plain.trials)
    result = searched(store, 60, "watts")
    assert result.best is not None and result.best.measurement.watts is not None
    assert result.best.schedule["x"] == max(s.schedule["x"] for s in result.trials if s.ok)


@pytest.mark.parametrize("names", [(), ("seconds",) * 2, tuple("abcde")])
def test_empty_duplicate_and_too_many_objectives_are_rejected(names: tuple[str, ...]) -> None:
    assert MOST == 4
    with pytest.raises(ValueError, match="1 to 4"):
        Objectives.of(names)


def test_a_wrong_direction_and_an_unknown_objective_are_rejected() -> None:
    with pytest.raises(ValueError, match="must be min or max, got 'up'"):
        Objectives.of("seconds:up")
    with pytest.raises(ValueError, match="unknown objective 'watt': use one of seconds, watts"):
        Objectives.of("watt").check(["seconds", "watts"])


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_weights_are_whole_and_reach_from_each_objective_to_all(n: int) -> None:
    weights = Objectives.of([str(i) for i in range(n)]).weights
    assert all(len(w) == n and math.isclose(sum(w), 1) and min(w) > 0 for w in weights)
    for i in range(n):
        assert any(w[i] == max(w) and w[i] > 0.5 for w in weights)
    assert len(set(weights)) == len(weights)


def test_a_trial_without_an_objective_counts_as_failed() -> None:
    objectives = Objectives.of("watts")
    scalarized = ScalarizedSampler(
        [sampler("bayes", SPACE, seed=0)], objectives.weights, partial(objectives.costs, PROBLEM)
    )
    for schedule in scalarized.ask(8):
        scalarized.tell(schedule, Measurement(Status.OK, Provenance.MEASURED, timing=Timing.estimate(1e-3)))
    assert len(scalarized.ask(4)) == 4


def test_a_negative_objective_is_rejected() -> None:
    (schedule,) = SPACE.sample(1, 0)
    measured = Measurement(Status.OK, Provenance.MEASURED, timing=Timing.estimate(1.0), watts=-1.0)
    with pytest.raises(ValueError, match="the objective watts is -1: it must be 0 or more"):
        Objectives.of("watts").costs(PROBLEM, schedule, measured)
