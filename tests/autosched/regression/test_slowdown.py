"""A slowdown is reported only if it exceeds the noise and a few nanoseconds, and if the machine is stable."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from autosched.regression.procedure import ComparisonEffort, flagged, judged, until_decided
from autosched.regression.slowdown import SlowdownLimits, Times, compare, discoveries, moved_between, one_sided
from measurements.trials.timing_statistics import SpeedChange

LIMITS = SlowdownLimits(max_slowdown=0.01, floor=0.5e-6)


def times(
    slowdown: float = 0.0,
    noise: float = 0.002,
    *,
    rounds: int = 40,
    seconds: float = 1e-3,
    drift: float = 0.0,
    control_drift: float = 0.0,
    again: float = 0.0,
    seed: int = 0,
) -> Times:
    """Return times of four programs. ``drift`` slows all programs during a run, ``control_drift`` only the control."""
    rng = np.random.default_rng(seed)
    machine = seconds * (1 + drift * np.linspace(0, 1, rounds))
    noisy = lambda factor: tuple(machine * factor * np.exp(noise * rng.standard_normal(rounds)))  # noqa: E731
    return Times(
        noisy(1.0), noisy(1 + slowdown), noisy(1 + again), noisy(2 * (1 + control_drift * np.linspace(0, 1, rounds)))
    )


@pytest.mark.parametrize(
    ("slowdown", "verdict"),
    [(0.0, SpeedChange.SAME), (0.05, SpeedChange.SLOWER), (-0.05, SpeedChange.FASTER), (0.004, SpeedChange.SAME)],
)
@pytest.mark.parametrize("drift", [0.0, 0.3])
def test_the_verdict_is_independent_of_machine_drift(slowdown, verdict, drift):
    comparison = compare(times(slowdown, drift=drift), LIMITS)
    assert (comparison.verdict, comparison.moved) == (verdict, "")
    assert comparison.ratio.low <= 1 + slowdown <= comparison.ratio.high


def test_the_limit_grows_with_the_noise_of_the_entry():
    loud = compare(times(0.05, noise=0.1), LIMITS)
    assert loud.limit > 0.02 and loud.verdict is not SpeedChange.SLOWER
    assert compare(times(0.05), LIMITS, noise=0.08).verdict is SpeedChange.SAME, (
        "noise that is known from earlier runs must be considered"
    )
    assert compare(times(0.05), SlowdownLimits(max_slowdown=0.08)).verdict is SpeedChange.SAME


def test_a_slowdown_below_the_floor_is_ignored():
    assert compare(times(0.05, seconds=5e-6), LIMITS).verdict is SpeedChange.SAME, (
        "a slowdown of 0.25 us is below the floor"
    )
    assert compare(times(0.05, seconds=5e-5), LIMITS).verdict is SpeedChange.SLOWER


def test_too_few_rounds_are_uncertain():
    comparison = compare(times(0.5, rounds=7), LIMITS)
    assert (comparison.verdict, comparison.p) == (SpeedChange.UNCERTAIN, 1.0)
    assert not comparison.decided


def test_a_drifting_machine_is_reported():
    assert "runs of the baseline differ by" in compare(times(again=0.04), LIMITS).moved
    comparison = compare(times(0.05, control_drift=0.2), LIMITS)
    assert "control's time changed by" in comparison.moved and not comparison.decided
    first, second = compare(times(0.05), LIMITS), compare(times(0.05, seed=1), LIMITS)
    assert moved_between(first, second, LIMITS) == ""
    elsewhere = compare(dataclasses.replace(times(0.05), control=tuple([3e-3] * 40)), LIMITS)
    assert "between two processes" in moved_between(first, elsewhere, LIMITS)


@pytest.mark.parametrize("bad", [{"max_slowdown": -0.1}, {"max_slowdown": math.nan}, {"floor": -1e-6}, {"floor": 2.0}])
def test_invalid_limits_are_rejected(bad):
    with pytest.raises(ValueError, match="such as"):
        SlowdownLimits(**bad)


def test_discoveries_agree_with_benjamini_and_hochberg():
    # Benjamini and Hochberg (1995), section 3.2: at 5%, the four smallest of these fifteen p-values are discoveries
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459]
    p += [0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]
    assert discoveries(p, 0.05) == [True] * 4 + [False] * 11
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(15)
    assert discoveries([p[i] for i in shuffled], 0.05) == [bool(i < 4) for i in shuffled]
    assert discoveries([], 0.05) == []
    uniform = [any(discoveries(list(rng.random(100)), 0.05)) for _ in range(400)]
    assert np.mean(uniform) < 0.09, "without slowdowns, no more false discoveries than allowed"


def test_one_sided_runs_are_recognized_by_their_verdicts():
    slower, same, faster = SpeedChange.SLOWER, SpeedChange.SAME, SpeedChange.FASTER
    assert one_sided([slower] * 8) and one_sided([faster] * 9 + [same] * 2)
    assert not one_sided([slower] * 7), "too few pairs for a decision"
    assert not one_sided([slower] * 8 + [faster])
    assert not one_sided([slower] * 5 + [same] * 5)
    assert not one_sided([same] * 100)


class Machine:
    """Fake machine that times entries. ``slow`` maps an entry's number to its slowdown. ``seed`` decides the noise."""

    def __init__(self, slow: dict[int, float], noise: float = 0.002, seed: int = 0) -> None:
        self.slow, self.noise, self.seeds, self.rounds = slow, noise, itertools.count(1000 * seed), 0

    def entry(self, i: int):
        def measure(rounds: int) -> Times:
            self.rounds += rounds
            return times(self.slow.get(i, 0.0), self.noise, rounds=rounds, seed=next(self.seeds))

        return until_decided(measure, LIMITS, 0.0, ComparisonEffort(rounds=20, most_rounds=100))


def run(first: Machine, second: Machine, entries: int):
    timed = {i: first.entry(i) for i in range(entries)}
    again = {i: second.entry(i) for i in flagged(timed)}
    return judged(timed, again, dict.fromkeys(timed, LIMITS))


def test_only_slowdowns_found_by_two_processes_are_reported():
    verdicts, doubt = run(Machine({3: 0.06}), Machine({3: 0.06}, seed=1), 12)
    assert {i: j.verdict for i, j in verdicts.items() if j.verdict is not SpeedChange.SAME} == {3: SpeedChange.SLOWER}
    assert (verdicts[3].reason, doubt) == ("confirmed in a second process", "")


def test_a_slowdown_that_a_second_process_does_not_confirm_is_cleared():
    verdicts, _ = run(Machine({3: 0.06}), Machine({}, seed=1), 12)
    assert (verdicts[3].verdict, verdicts[3].reason) == (
        SpeedChange.SAME,
        "slower in one process, but not in a second process",
    )


def test_no_slowdown_is_confirmed_without_a_second_process():
    timed = {0: Machine({0: 0.06}).entry(0)}
    verdicts, _ = judged(timed, {}, {0: LIMITS})
    assert verdicts[0].verdict is SpeedChange.UNCERTAIN and "could not run" in verdicts[0].reason


def test_uniform_slowdowns_are_attributed_to_the_machine():
    slow = dict.fromkeys(range(10), 0.06)
    verdicts, doubt = run(Machine(slow), Machine(slow, seed=1), 10)
    assert {j.verdict for j in verdicts.values()} == {SpeedChange.UNCERTAIN}
    assert doubt.startswith("10 of 10 entries changed in the same direction")


def test_rounds_are_added_until_an_entry_is_decided_or_the_effort_is_spent():
    easy, hard = Machine({}), Machine({0: 0.01}, noise=0.01)
    assert easy.entry(0).rounds == 20
    assert hard.entry(0).rounds == 100 == hard.rounds
    late = until_decided(
        lambda rounds: times(0.01, 0.05, rounds=rounds), LIMITS, 0.0, ComparisonEffort(20, 1000, seconds=1e-9)
    )
    assert late.rounds == 20


@pytest.mark.parametrize("bad", [{"rounds": 7}, {"rounds": 50, "most_rounds": 40}, {"seconds": 0.0}])
def test_an_effort_that_allows_no_claim_is_rejected(bad):
    with pytest.raises(ValueError, match=r"rounds|seconds"):
        ComparisonEffort(**bad)
