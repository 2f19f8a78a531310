"""Guarantees of the wrapper of Optuna's samplers beyond the contract of all samplers."""

import math

import optuna
from toy_searches import BOTH, FLAT, TOY, median_of_best, ok, outcome, seconds

from autosched.samplers import sampler
from autosched.samplers.tpe import OptunaSampler
from search_spaces.spaces.parameters import ordinal
from search_spaces.spaces.rules import Rule
from search_spaces.spaces.space import Space


class Spy(optuna.samplers.RandomSampler):
    """Record the trials that Optuna's samplers see."""

    seen: tuple[optuna.trial.FrozenTrial, ...] = ()

    def before_trial(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        self.seen = tuple(study.get_trials())


class TestTpe:
    def test_tpe_finds_faster_schedules_than_chance(self) -> None:
        assert median_of_best("tpe", 64) < 0.6 * median_of_best("random", 64)

    def test_a_mostly_illegal_space_is_searched_completely(self) -> None:
        sparse = Space(
            "sparse",
            tuple(ordinal(name, tuple(range(12))) for name in "abcdef"),
            (),
            tuple(
                Rule(f"equal_{one}{two}", lambda x, y: x == y, "they differ", names={"x": one, "y": two})
                for one, two in zip("abcde", "bcdef", strict=True)
            ),
        )
        tested_sampler = sampler("tpe", sparse, seed=1)
        proposed = []
        while batch := tested_sampler.ask(5):
            for schedule in batch:
                tested_sampler.tell(schedule, ok(1e-6 * (1 + schedule.integer("a"))))
            proposed += batch
        assert sorted(s.integer("a") for s in proposed) == list(range(12))

    def test_optuna_has_the_reported_trials(self) -> None:
        spy = Spy(seed=1)
        optuna_sampler = OptunaSampler(TOY, 0, spy)
        reported = TOY.sample(10, 2)
        for schedule in reported:
            optuna_sampler.tell(schedule, outcome(schedule))
        (pending,) = optuna_sampler.ask(1)
        optuna_sampler.tell(pending, ok(seconds(pending)))
        optuna_sampler.ask(1)
        complete = [t for t in spy.seen if t.state is optuna.trial.TrialState.COMPLETE]
        pruned = [t for t in spy.seen if t.state is optuna.trial.TrialState.PRUNED]
        worked = [s for s in [*reported, pending] if outcome(s).ok or s == pending]
        assert [t.value for t in complete] == [math.log(seconds(s)) for s in worked]
        assert len(pruned) == 11 - len(worked)
        assert all(t.value is None for t in pruned), "a failure has no value"

    def test_optuna_sees_the_template_and_only_its_parameters(self) -> None:
        spy = Spy(seed=1)
        optuna_sampler = OptunaSampler(BOTH, 0, spy)
        for schedule in [*BOTH.sample(6, 2), *optuna_sampler.ask(6)]:
            optuna_sampler.tell(schedule, ok(seconds(schedule)))
        optuna_sampler.ask(1)
        parameters_of = {m.name: {"template", *(f"{m.name}.{p.name}" for p in m.parameters)} for m in (TOY, FLAT)}
        complete = [t for t in spy.seen if t.state is optuna.trial.TrialState.COMPLETE]
        assert len(complete) == 12
        assert all(set(t.params) == parameters_of[t.params["template"]] for t in complete)
        assert {t.params["template"] for t in complete} == {"toy", "flat"}
