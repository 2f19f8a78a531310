"""The contract of ``Sampler``, as one class of tests that every sampler passes, and what each promises besides."""

import dataclasses
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.search import Sampler, bayes, sampler, samplers
from autosched.search.advised import Advised
from autosched.search.base import EncodingPrior, Matrix, Unseen
from autosched.search.bayes import BayesSampler
from autosched.search.descent import descended
from autosched.search.evolution import EvolutionSampler, Settings
from autosched.search.prior import AnalyticPrior
from autosched.search.tpe import OptunaSampler
from cost_models import gaussian_process
from measurements.measurement import Measurement, Provenance, Status, Timing
from search_spaces.arrays import FloatArray
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.parameters import categorical, ordinal
from search_spaces.spaces.rules import Rule
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace
from search_spaces.spaces.space import EmptySpace, Space
from search_spaces.spaces.union_space import UnionSpace
from search_spaces.templates.template import TemplateSet


def toy(size: int = 8) -> Space:
    """``size`` x ``size`` x 3 combinations, of which those with x <= y and a letter are legal."""
    numbers = tuple(2**i for i in range(size))
    return Space(
        "toy",
        (ordinal("x", numbers), ordinal("y", numbers), categorical("letter", ("a", "b", "c"))),
        (),
        (
            Rule("order", lambda x, y: x <= y, "{x} is more than {y}"),
            Rule("no_small_c", lambda x, letter: (x > 2) | (letter != "c"), "c needs more than {x}"),
        ),
    )


TOY = toy()
FLAT = Space(
    "flat",
    (ordinal("x", tuple(2**i for i in range(6))), ordinal("depth", (1, 2, 3, 4)), categorical("letter", ("b", "z"))),
    (),
    (Rule("depth", lambda x, depth: x >= depth, "{depth} is more than {x}"),),
    stratified_by="letter",
)
BOTH = UnionSpace([TOY, FLAT])
EVERYTHING = {id(space): frozenset(s.key() for s in space.sample(10**6, 0)) for space in (TOY, BOTH)}


def seconds(schedule: Schedule) -> float:
    """A time that is smallest, 1 us, at x = 8, y = 32, letter b; a schedule of ``flat`` takes as long as one of ``toy``
    with y = 32, and longer with less depth."""
    if schedule.template == "flat":
        same = Schedule("toy", (("x", schedule["x"]), ("y", 32), ("letter", schedule["letter"])))
        return seconds(same) * 1.2 ** (4 - schedule.integer("depth"))
    distance = abs(math.log2(schedule.integer("x")) - 3) + abs(math.log2(schedule.integer("y")) - 5)
    return 1e-6 * 1.5 ** (distance + (schedule["letter"] != "b"))


def ok(time: float) -> Measurement:
    return Measurement(Status.OK, Provenance.MEASURED, timing=Timing(time, time, time, 10))


def failed() -> Measurement:
    return Measurement(Status.TIMEOUT, Provenance.MEASURED, reason="too slow")


class ToyGuide:
    """The encoding, and a guess that is right but for the letter; it holds x = 1 to be impossible."""

    def __init__(self, space: SearchSpace = TOY) -> None:
        self.space = space

    def features(self, schedules: Sequence[Schedule]) -> Matrix:
        return self.space.encode(schedules)

    def log_seconds(self, schedules: Sequence[Schedule]) -> FloatArray:
        blind = (s.replace(letter="b") for s in schedules)
        return np.array([math.inf if s["x"] == 1 else math.log(3 * seconds(s)) for s in blind], dtype=np.float64)


class Nearest:
    """A model for tests: the logarithm of the time of the nearest row that was trained on. Missing values are far from
    all others."""

    def __init__(self, rows: Matrix, times: FloatArray) -> None:
        assert not np.isinf(rows).any() and np.isfinite(times).all() and (times > 0).all()
        self.rows, self.times = np.nan_to_num(rows, nan=-100.0), times

    def predict(self, X: Matrix) -> FloatArray:
        distances = np.abs(np.nan_to_num(X, nan=-100.0)[:, None, :] - self.rows[None, :, :]).sum(axis=2)
        return np.log(self.times[distances.argmin(axis=1)])


FEW = gaussian_process.Settings(starts=1, iterations=5)
LIVING = bayes.Settings(whole=0, living=32, moves=8, rounds=1, growth=1.5, model=FEW)
WHOLE = bayes.Settings(growth=1.5, model=FEW)
QUICK = Settings(warmup=6, population=24, generations=2)
Make = Callable[[SearchSpace, int], Sampler]
MAKERS: dict[str, Make] = {
    "bayes": lambda space, seed: BayesSampler(space, seed, settings=WHOLE),
    "bayes_guided": lambda space, seed: BayesSampler(space, seed, prior=ToyGuide(space), settings=WHOLE),
    "bayes_of_a_living_pool": lambda space, seed: BayesSampler(space, seed, settings=LIVING),
    "random": lambda space, seed: sampler("random", space, seed=seed),
    "bayes_advised": lambda space, seed: Advised(
        BayesSampler(space, seed, prior=ToyGuide(space), settings=WHOLE), space.sample(3, 99), "somebody"
    ),
    "tpe": lambda space, seed: sampler("tpe", space, seed=seed),
    "optuna_random": lambda space, seed: OptunaSampler(space, seed, optuna.samplers.RandomSampler(seed=seed)),
    "evolution": lambda space, seed: sampler("evolution", space, seed=seed),
    "evolution_of_nearest": lambda space, seed: EvolutionSampler(space, seed, fit=Nearest, settings=QUICK),
    "evolution_guided": lambda space, seed: EvolutionSampler(
        space, seed, fit=Nearest, prior=ToyGuide(space), settings=QUICK
    ),
    "evolution_of_a_prior_alone": lambda space, seed: EvolutionSampler(
        space, seed, fit=None, prior=ToyGuide(space), settings=QUICK
    ),
}
CASES: dict[str, tuple[Make, SearchSpace]] = {
    **{name: (make, TOY) for name, make in MAKERS.items()},
    **{
        f"{name}_of_a_union": (MAKERS[name], BOTH)
        for name in ("random", "tpe", "bayes_guided", "evolution", "evolution_guided")
    },
}


def outcome(schedule: Schedule) -> Measurement:
    """Some fail, whatever their time would have been."""
    return failed() if (schedule["x"], schedule["letter"]) in ((4, "a"), (16, "c")) else ok(seconds(schedule))


def run(made: Sampler, rounds: int, n: int = 5) -> list[Schedule]:
    asked: list[Schedule] = []
    for _ in range(rounds):
        batch = made.ask(n)
        asked += batch
        for schedule in batch:
            made.tell(schedule, outcome(schedule))
    return asked


_PROPOSED: dict[tuple[Make, int], list[Schedule]] = {}


def proposed(make: Make, space: SearchSpace) -> list[Schedule]:
    """What seed 5 proposes in eight rounds of five, found once for all tests."""
    key = make, id(space)
    if key not in _PROPOSED:
        _PROPOSED[key] = run(make(space, 5), 8)
    return _PROPOSED[key]


@pytest.mark.parametrize(("make", "space"), CASES.values(), ids=CASES)
class TestContract:
    def test_proposals_are_legal_and_never_repeated(self, make: Make, space: SearchSpace) -> None:
        asked = proposed(make, space)
        assert len(asked) == 40
        assert all(s in space for s in asked)
        assert len({s.key() for s in asked}) == 40

    def test_the_parameters_stand_in_the_order_of_the_space(self, make: Make, space: SearchSpace) -> None:
        for schedule in proposed(make, space):
            assert list(schedule) == [p.name for p in space.members[schedule.template].parameters]

    def test_nothing_is_asked_twice_without_being_told(self, make: Make, space: SearchSpace) -> None:
        made = make(space, 4)
        asked = [*made.ask(7), *made.ask(7), *made.ask(7)]
        assert len({s.key() for s in asked}) == 21

    def test_the_same_seed_proposes_the_same(self, make: Make, space: SearchSpace) -> None:
        assert run(make(space, 5), 8) == proposed(make, space)

    def test_another_seed_proposes_something_else(self, make: Make, space: SearchSpace) -> None:
        assert proposed(make, space)[:15] != run(make(space, 6), 3)

    def test_the_global_generator_is_neither_used_nor_moved(self, make: Make, space: SearchSpace) -> None:
        expected = proposed(make, space)[:20]
        np.random.seed(1)
        assert run(make(space, 5), 4) == expected
        drawn = np.random.random()
        np.random.seed(1)
        assert np.random.random() == drawn

    def test_everything_is_proposed_once_and_then_nothing(self, make: Make, space: SearchSpace) -> None:
        made = make(space, 7)
        keys: list[str] = []
        while batch := made.ask(16):
            assert len(batch) == min(16, len(EVERYTHING[id(space)]) - len(keys))
            for schedule in batch:
                made.tell(schedule, outcome(schedule))
            keys += [s.key() for s in batch]
        assert len(keys) == len(EVERYTHING[id(space)])
        assert set(keys) == EVERYTHING[id(space)]
        assert made.ask(16) == []

    def test_a_restored_sampler_proposes_nothing_it_was_told(self, make: Make, space: SearchSpace) -> None:
        told = proposed(make, space)[:30]
        restored = make(space, 5)
        for schedule in told:
            restored.tell(schedule, outcome(schedule))
        more = run(restored, 4)
        assert len(more) == 20
        assert not {s.key() for s in told} & {s.key() for s in more}

    def test_restored_twice_from_the_same_records_it_proposes_the_same(self, make: Make, space: SearchSpace) -> None:
        told = proposed(make, space)[:30]
        proposals = []
        for _ in range(2):
            restored = make(space, 5)
            for schedule in told:
                restored.tell(schedule, outcome(schedule))
            proposals.append(run(restored, 3))
        assert proposals[0] == proposals[1]

    def test_results_may_come_in_any_order_and_more_than_once(self, make: Make, space: SearchSpace) -> None:
        made = make(space, 9)
        batch = made.ask(12)
        for schedule in reversed(batch):
            made.tell(schedule, outcome(schedule))
        for schedule in batch[:4]:
            made.tell(schedule, outcome(schedule))
        assert not {s.key() for s in made.ask(12)} & {s.key() for s in batch}

    def test_schedules_that_were_never_asked_may_be_told(self, make: Make, space: SearchSpace) -> None:
        made = make(space, 10)
        others = space.sample(30, 99)
        for schedule in others:
            made.tell(schedule, outcome(schedule))
        assert not {s.key() for s in run(made, 3)} & {s.key() for s in others}

    def test_only_failures_do_not_stop_it(self, make: Make, space: SearchSpace) -> None:
        made = make(space, 11)
        total = 0
        while batch := made.ask(20):
            for schedule in batch:
                made.tell(schedule, failed())
            total += len(batch)
        assert total == len(EVERYTHING[id(space)])

    def test_counts(self, make: Make, space: SearchSpace) -> None:
        assert make(space, 1).ask(0) == []
        with pytest.raises(ValueError, match="cannot ask for -1"):
            make(space, 1).ask(-1)

    def test_it_has_a_name_for_the_records(self, make: Make, space: SearchSpace) -> None:
        assert make(space, 1).name in samplers()

    def test_nothing_is_printed(self, make: Make, space: SearchSpace, capfd: pytest.CaptureFixture[str]) -> None:
        run(make(space, 2), 4)
        assert capfd.readouterr() == ("", "")

    @settings(deadline=None, max_examples=5)
    @given(data=st.data())
    def test_any_sequence_of_calls(self, make: Make, space: SearchSpace, data: st.DataObject) -> None:
        made = make(space, data.draw(st.integers(0, 2**31 - 1)))
        seen: set[str] = set()
        waiting: list[Schedule] = []
        for _ in range(data.draw(st.integers(1, 6))):
            batch = made.ask(data.draw(st.integers(0, 30)))
            keys = {s.key() for s in batch}
            assert len(keys) == len(batch)
            assert keys <= EVERYTHING[id(space)]
            assert not keys & seen
            seen |= keys
            waiting += batch
            for _ in range(data.draw(st.integers(0, len(waiting)))):
                schedule = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
                made.tell(schedule, data.draw(st.sampled_from([failed(), ok(1e-6), ok(3e-5)])))


HILL = Space(
    "hill",
    tuple(ordinal(name, tuple(range(1, 13))) for name in "abcde"),
    (),
    (Rule("product", lambda a, b: a * b <= 48, "{a} * {b} is over 48"),),
)


def hill_seconds(schedule: Schedule) -> float:
    return 1e-6 * 1.3 ** sum(
        abs(schedule.integer(name) - top) for name, top in zip("abcde", (4, 9, 7, 2, 11), strict=True)
    )


def best_after(made: Sampler, trials: int) -> float:
    best = math.inf
    while trials > 0:
        batch = made.ask(min(8, trials))
        trials -= len(batch)
        for schedule in batch:
            best = min(best, hill_seconds(schedule))
            made.tell(schedule, ok(hill_seconds(schedule)))
    return best


def median_of_best(name: str, trials: int) -> float:
    return float(np.median([best_after(sampler(name, HILL, seed=seed), trials) for seed in range(5)]))


LAKE = Space(  # as many schedules as HILL has in its own two dimensions, all of them slow
    "lake", tuple(ordinal(name, tuple(range(1, 13))) for name in "ab"), ()
)


@pytest.mark.parametrize("name", ["tpe", "evolution"])
def test_a_search_of_a_union_finds_the_template_and_the_schedule(name: str) -> None:
    """Half of a sample is of each template; one that learns turns to the better one."""

    def found(name: str, seed: int) -> tuple[float, int]:
        made, best, on_the_hill = sampler(name, UnionSpace([LAKE, HILL]), seed=seed), math.inf, 0
        for _ in range(8):
            for schedule in made.ask(8):
                time = 2e-4 if schedule.template == "lake" else hill_seconds(schedule)
                best, on_the_hill = min(best, time), on_the_hill + (schedule.template == "hill")
                made.tell(schedule, ok(time))
        return best, on_the_hill

    best, on_the_hill = np.median([found(name, seed) for seed in range(3)], axis=0)
    chance, half = np.median([found("random", seed) for seed in range(3)], axis=0)
    assert half == 32
    assert on_the_hill > 40
    assert best < 0.6 * chance


@pytest.mark.parametrize("name", samplers())
def test_equal_decisions_in_two_templates_are_two_schedules(name: str) -> None:
    twins = UnionSpace([Space(template, TOY.parameters[:2]) for template in ("one", "two")])
    made = sampler(name, twins, seed=1)
    asked = []
    while batch := made.ask(16):
        for schedule in batch:
            made.tell(schedule, ok(1e-6 * schedule.integer("x")))
        asked += batch
    assert Counter(s.template for s in asked) == {"one": 64, "two": 64}
    assert len({s.items for s in asked}) == 64


class TestRandom:
    def test_every_schedule_is_equally_likely_to_come_first(self) -> None:
        small = toy(3)
        total = small.count()
        first = Counter(sampler("random", small, seed=seed).ask(1)[0].key() for seed in range(150 * total))
        assert len(first) == total
        expected = 150.0
        chi_squared = sum((count - expected) ** 2 / expected for count in first.values())
        assert chi_squared < total + 6 * math.sqrt(2 * total)

    def test_a_restored_run_goes_on_as_if_it_had_not_stopped(self) -> None:
        whole = run(sampler("random", TOY, seed=3), 10)
        restored = sampler("random", TOY, seed=3)
        for schedule in whole[:20]:
            restored.tell(schedule, outcome(schedule))
        assert run(restored, 6) == whole[20:]

    def test_it_draws_beyond_the_first_stretch_of_the_order(self) -> None:
        large = toy(30)
        unseen = Unseen(large, 1)
        drawn = [s.key() for _ in range(10) for s in unseen.draw(100)]
        assert len(set(drawn)) == 1000


class Spy(optuna.samplers.RandomSampler):
    """Keeps the trials that Optuna's samplers see."""

    seen: tuple[optuna.trial.FrozenTrial, ...] = ()

    def before_trial(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        self.seen = tuple(study.get_trials())


class TestTpe:
    def test_it_finds_faster_schedules_than_chance(self) -> None:
        assert median_of_best("tpe", 64) < 0.6 * median_of_best("random", 64)

    def test_almost_everything_illegal_is_no_obstacle(self) -> None:
        sparse = Space(
            "sparse",
            tuple(ordinal(name, tuple(range(12))) for name in "abcdef"),
            (),
            tuple(
                Rule(f"equal_{one}{two}", lambda x, y: x == y, "they differ", names={"x": one, "y": two})
                for one, two in zip("abcde", "bcdef", strict=True)
            ),
        )
        made = sampler("tpe", sparse, seed=1)
        asked = []
        while batch := made.ask(5):
            for schedule in batch:
                made.tell(schedule, ok(1e-6 * (1 + schedule.integer("a"))))
            asked += batch
        assert sorted(s.integer("a") for s in asked) == list(range(12))

    def test_optuna_knows_what_was_told(self) -> None:
        spy = Spy(seed=1)
        made = OptunaSampler(TOY, 0, spy)
        told = TOY.sample(10, 2)
        for schedule in told:
            made.tell(schedule, outcome(schedule))
        (asked,) = made.ask(1)
        made.tell(asked, ok(seconds(asked)))
        made.ask(1)
        complete = [t for t in spy.seen if t.state is optuna.trial.TrialState.COMPLETE]
        pruned = [t for t in spy.seen if t.state is optuna.trial.TrialState.PRUNED]
        worked = [s for s in [*told, asked] if outcome(s).ok or s == asked]
        assert [t.value for t in complete] == [math.log(seconds(s)) for s in worked]
        assert len(pruned) == 11 - len(worked)
        assert all(t.value is None for t in pruned), "a failure has no value"

    def test_optuna_sees_a_template_and_then_its_parameters_alone(self) -> None:
        spy = Spy(seed=1)
        made = OptunaSampler(BOTH, 0, spy)
        for schedule in [*BOTH.sample(6, 2), *made.ask(6)]:
            made.tell(schedule, ok(seconds(schedule)))
        made.ask(1)
        of = {m.name: {"template", *(f"{m.name}.{p.name}" for p in m.parameters)} for m in (TOY, FLAT)}
        done = [t for t in spy.seen if t.state is optuna.trial.TrialState.COMPLETE]
        assert len(done) == 12
        assert all(set(t.params) == of[t.params["template"]] for t in done)
        assert {t.params["template"] for t in done} == {"toy", "flat"}


class TestEvolution:
    def test_it_finds_faster_schedules_than_chance(self) -> None:
        assert median_of_best("evolution", 64) < 0.6 * median_of_best("random", 64)

    def test_a_guide_leads_from_the_first_proposal(self) -> None:
        best = [min(map(seconds, MAKERS["evolution_guided"](TOY, seed).ask(8))) for seed in range(10)]
        chance = [min(map(seconds, MAKERS["random"](TOY, seed).ask(8))) for seed in range(10)]
        assert np.median(best) < np.median(chance)
        assert max(best) <= 1.5e-6

    def test_only_the_first_proposals_come_from_many_guesses(self) -> None:
        class Counting(ToyGuide):
            asked: set[Schedule]

            def log_seconds(self, schedules: Sequence[Schedule]) -> FloatArray:
                self.asked.update(schedules)
                return super().log_seconds(schedules)

        prior = Counting()
        made = EvolutionSampler(TOY, 1, fit=None, prior=prior, settings=dataclasses.replace(QUICK, first=100))
        prior.asked = set()
        first = made.ask(4)
        assert len(prior.asked) > 60  # of 100 drawn, some twice
        for schedule in first:
            made.tell(schedule, ok(seconds(schedule)))
        prior.asked = set()
        made.ask(4)
        assert 0 < len(prior.asked) < 60

    def test_the_model_learns_measured_over_guessed_time(self) -> None:
        trained: list[tuple[Matrix, FloatArray]] = []

        def fit(rows: Matrix, times: FloatArray) -> Nearest:
            trained.append((rows, times))
            return Nearest(rows, times)

        prior = ToyGuide()
        made = EvolutionSampler(TOY, 1, fit=fit, prior=prior, settings=dataclasses.replace(QUICK, warmup=10))
        told = [s for s in TOY.sample(10**6, 3) if s["x"] != 1][:10]
        for schedule in told:
            made.tell(schedule, ok(seconds(schedule)))
        made.ask(1)
        ((rows, times),) = trained
        assert np.array_equal(rows, TOY.encode(told))
        assert times == pytest.approx(
            [seconds(s) / math.exp(g) for s, g in zip(told, prior.log_seconds(told), strict=True)]
        )

    def test_it_is_trained_whenever_a_fifth_more_records_have_come(self) -> None:
        sizes: list[int] = []

        def fit(rows: Matrix, times: FloatArray) -> Nearest:
            sizes.append(len(rows))
            return Nearest(rows, times)

        made = EvolutionSampler(TOY, 1, fit=fit, settings=QUICK)
        for schedule in TOY.sample(40, 3):
            made.tell(schedule, ok(seconds(schedule)))
            made.ask(1)
        assert sizes == [6, 8, 10, 12, 15, 18, 22, 27, 33, 40]

    def test_rows_of_all_templates_are_learned_together_with_what_they_lack_missing(self) -> None:
        learned: list[Matrix] = []

        def fit(rows: Matrix, times: FloatArray) -> Nearest:
            learned.append(rows)
            return Nearest(rows, times)

        made = EvolutionSampler(BOTH, 1, fit=fit, settings=dataclasses.replace(QUICK, warmup=30))
        told = BOTH.sample(30, 3)
        for schedule in told:
            made.tell(schedule, ok(seconds(schedule)))
        made.ask(1)
        assert np.array_equal(learned[0], BOTH.encode(told), equal_nan=True)
        toys = np.isnan(learned[0]).sum(axis=1) == len(FLAT.encoded_names)
        assert toys.tolist() == [s.template == "toy" for s in told]

    def test_failures_are_worse_than_every_time_and_never_better(self) -> None:
        labels: list[float] = []

        def fit(rows: Matrix, times: FloatArray) -> Nearest:
            labels[:] = times.tolist()
            return Nearest(rows, times)

        made = EvolutionSampler(TOY, 1, fit=fit, settings=QUICK)
        told = TOY.sample(30, 3)
        for schedule in told:
            made.tell(schedule, outcome(schedule))
        made.ask(1)
        slowest = max(seconds(s) for s in told[: len(labels)] if outcome(s).ok)
        for schedule, label in zip(told, labels, strict=False):
            expected = seconds(schedule) if outcome(schedule).ok else 2 * slowest
            assert label == pytest.approx(expected)
        assert any(not outcome(s).ok for s in told[: len(labels)])

    def test_a_schedule_measured_again_counts_with_its_median(self) -> None:
        labels: list[float] = []

        def fit(rows: Matrix, times: FloatArray) -> Nearest:
            labels[:] = times.tolist()
            return Nearest(rows, times)

        made = EvolutionSampler(TOY, 1, fit=fit, settings=QUICK)
        told = TOY.sample(6, 3)
        for factor in (1.0, 9.0, 1.2):
            for schedule in told:
                made.tell(schedule, ok(factor * seconds(schedule)))
        made.ask(1)
        assert labels == pytest.approx([1.2 * seconds(s) for s in told])

    def test_one_batch_is_spread_out(self) -> None:
        made = EvolutionSampler(
            TOY, 1, fit=None, prior=ToyGuide(), settings=dataclasses.replace(QUICK, guided=1.0, distance=2)
        )
        batch = made.ask(4)
        apart = [sum(p != q for p, q in zip(a.items, b.items, strict=True)) for a in batch for b in batch if a != b]
        assert min(apart) >= 2

    def test_what_the_guide_holds_to_be_impossible_is_not_led_to(self) -> None:
        made = EvolutionSampler(TOY, 1, fit=None, prior=ToyGuide(), settings=dataclasses.replace(QUICK, guided=1.0))
        possible = sum(s["x"] != 1 for s in TOY.sample(10**6, 0))
        asked = [s for _ in range(4) for s in made.ask(8)]
        assert len(asked) < possible
        assert all(s["x"] != 1 for s in asked)

    def test_a_stopped_search_goes_on_as_if_it_had_not_stopped(self) -> None:
        for make in (MAKERS["evolution_guided"], MAKERS["evolution_of_nearest"]):
            whole = run(make(TOY, 3), 12)
            restored = make(TOY, 3)
            for schedule in whole[:35]:
                restored.tell(schedule, outcome(schedule))
            assert run(restored, 5) == whole[35:]


class TestAdvised:
    ADVICE = TOY.sample(3, 99)

    def made(self) -> Advised:
        return Advised(BayesSampler(TOY, 1, prior=ToyGuide(), settings=WHOLE), self.ADVICE, "somebody")

    def test_advice_follows_the_first_proposal_one_by_one_or_in_a_batch(self) -> None:
        single, batch = self.made(), self.made()
        one_by_one = [s for _ in range(6) for s in single.ask(1)]
        assert one_by_one[1:4] == self.ADVICE == batch.ask(6)[1:4]
        assert [single.proposer(s) for s in one_by_one] == ["bayes", *["somebody"] * 3, "bayes", "bayes"]
        assert single.name == "bayes"

    def test_what_the_sampler_proposes_itself_is_its_own(self) -> None:
        (first,) = BayesSampler(TOY, 1, prior=ToyGuide(), settings=WHOLE).ask(1)
        made = Advised(BayesSampler(TOY, 1, prior=ToyGuide(), settings=WHOLE), [first, *self.ADVICE], "somebody")
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
        (first,) = BayesSampler(TOY, 3, prior=prior, settings=bayes.Settings(guessed=3)).ask(1)
        assert prior.log_seconds([first])[0] <= prior.log_seconds(TOY.neighbours(first)).min()


def test_unknown_names_and_seeds_are_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match="unknown sampler 'genetic': use one of bayes, evolution, random, tpe"):
        sampler("genetic", TOY, seed=0)
    for seed in (-1, 2**31, True, 1.5):
        with pytest.raises(ValueError, match="the seed must be an integer"):
            sampler("random", TOY, seed=seed)  # type: ignore[arg-type]


def test_a_space_with_nothing_legal_says_so() -> None:
    nothing = Space("toy", TOY.parameters, (), (Rule("never", lambda x: x < 0, "never"),))
    with pytest.raises(EmptySpace, match="never"):
        sampler("random", nothing, seed=0).ask(1)


def test_proposals_do_not_depend_on_the_hash_seed() -> None:
    """Sets and dicts of texts have another order in every process; no proposal may come from one."""
    code = f"""
import sys
sys.path[:0] = {[p for p in sys.path if p]!r}
from autosched.search import sampler
from measurements.measurement import Measurement, Provenance, Timing, Status
from search_spaces.spaces.parameters import categorical, ordinal
from search_spaces.spaces.space import Space
space = Space("toy", (ordinal("x", tuple(range(20))), categorical("y", tuple("abcdef"))), (), ())
for name in ("random", "tpe", "evolution"):
    made = sampler(name, space, seed=1)
    for _ in range(6):
        for s in made.ask(6):
            print(s.key())
            timing = Timing.estimate(1e-6 * (1 + s.integer("x")))
            made.tell(s, Measurement(Status.OK, Provenance.MEASURED, timing=timing))
"""
    outputs = [
        subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert outputs[0] == outputs[1]
    assert len(outputs[0].splitlines()) == 108


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
