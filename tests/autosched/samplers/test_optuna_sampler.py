"""``StudySampler`` uses the sampler bayes in any Optuna study."""

import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

import autosched
from autosched.samplers.optuna import study_sampler
from autosched.samplers.optuna.axes import axis
from autosched.samplers.optuna.study_sampler import StudySampler
from cost_models import gaussian_process

optuna.logging.set_verbosity(optuna.logging.ERROR)
TILES = [8, 16, 32, 64, 128, 256]


def seconds(params: Mapping[str, Any]) -> float:
    """Return a time whose minimum is 1, at tile 64, 4 warps, layout xor and rate 0.3."""
    away = abs(TILES.index(params["tile"]) - 3) + abs(params["warps"] - 4) / 2
    return float(1 + 0.4 * away + (params["layout"] != "xor") + abs(params["rate"] - 0.3))


def seconds_of(trial: optuna.Trial) -> float:
    params = {
        "tile": trial.suggest_categorical("tile", TILES),
        "warps": trial.suggest_int("warps", 1, 16),
        "layout": trial.suggest_categorical("layout", ["row", "xor", "pad", "column"]),
        "rate": trial.suggest_float("rate", 0.01, 1.0, log=True),
    }
    if params["tile"] == 256 and params["warps"] > 8:
        return float("nan")
    return seconds(params)


def objective(trial: optuna.Trial) -> float:
    time = seconds_of(trial)
    if time != time:
        raise optuna.TrialPruned
    return time


def best_of(sampler: optuna.samplers.BaseSampler, trials: int = 30) -> float:
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=trials)
    return study.best_value


def test_the_sampler_finds_better_values_than_random() -> None:
    best_values = [best_of(StudySampler(seed=seed)) for seed in range(2)]
    random = [best_of(optuna.samplers.RandomSampler(seed=seed)) for seed in range(2)]
    assert sum(best_values) < sum(random) - 0.3 and max(best_values) < 1.6


def test_the_same_seed_gives_the_same_trials() -> None:
    def params() -> list[dict[str, Any]]:
        study = optuna.create_study(sampler=autosched.StudySampler(seed=3))
        study.optimize(objective, n_trials=12)
        return [t.params for t in study.trials]

    assert params() == params()


def test_a_study_resumes_from_a_storage() -> None:
    storage = optuna.storages.InMemoryStorage()
    optuna.create_study(storage=storage, study_name="s", sampler=StudySampler(seed=1)).optimize(objective, n_trials=8)
    study = optuna.load_study(storage=storage, study_name="s", sampler=StudySampler(seed=2))
    study.optimize(objective, n_trials=6)
    assert len(study.trials) == 14


def test_trials_that_run_are_not_proposed_again() -> None:
    study = optuna.create_study(sampler=StudySampler(seed=0))
    study.optimize(objective, n_trials=10)
    chosen = []
    for _ in range(4):
        trial = study.ask()
        seconds_of(trial)
        chosen.append(tuple(trial.params.values()))
    assert len(set(chosen)) == 4


def test_proposals_are_legal() -> None:
    def legal(params: Mapping[str, Any]) -> bool:
        return bool(params["tile"] * params["warps"] <= 128)

    study = optuna.create_study(sampler=StudySampler(seed=0, legal=legal))
    study.optimize(objective, n_trials=15)
    assert all(legal(t.params) for t in study.trials[1:])  # unknown parameters in the first trial


def test_the_legality_check_receives_parameters_with_one_value() -> None:
    def legal(params: Mapping[str, Any]) -> bool:
        return bool(params["vector"] * params["tile"] <= 64 and params["unroll"] == 1 and params["scale"] == 0.5)

    study = optuna.create_study(sampler=StudySampler(seed=0, legal=legal))
    for _ in range(12):
        trial = study.ask()
        tile, vector = trial.suggest_categorical("tile", TILES), trial.suggest_categorical("vector", [4])
        trial.suggest_int("unroll", 1, 1)
        trial.suggest_float("scale", 0.5, 0.5)
        study.tell(trial, 1.0 / (tile * vector))
    assert all(t.params["tile"] <= 16 for t in study.trials[1:])


def test_legal_proposals_are_found_in_a_sparse_space() -> None:
    def legal(params: Mapping[str, Any]) -> bool:
        return bool(params["a"] == params["b"] == params["c"] // 2)  # 20 of 8,000 combinations are legal

    study = optuna.create_study(sampler=StudySampler(seed=0, legal=legal))
    for _ in range(20):
        trial = study.ask()
        a = trial.suggest_int("a", 0, 19)
        trial.suggest_int("b", 0, 19)
        trial.suggest_int("c", 0, 19)
        study.tell(trial, 1.0 + abs(a - 7))
    assert sum(legal(t.params) for t in study.trials[1:]) >= 18


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_negative_objectives_and_failures(direction: str) -> None:
    sign = 1 if direction == "maximize" else -1
    study = optuna.create_study(direction=direction, sampler=StudySampler(seed=0))

    def parabola(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", -4, 4)
        if x < -3:
            raise RuntimeError("too far left")
        return -sign * (x - 1) ** 2

    study.optimize(parabola, n_trials=20, catch=RuntimeError)
    assert abs(study.best_params["x"] - 1) < 0.3


@pytest.mark.parametrize("how", ["raises", "pruned", "nan", "constraint"])
def test_failures_are_learned_separately_from_values(how: str) -> None:
    """Half of the values of x fail. The best valid value, next to the failing half, must not be penalised."""
    if how == "constraint" and not hasattr(optuna.Trial, "set_constraint"):
        pytest.skip("constraints of trials need Optuna 5 or newer")
    study = optuna.create_study(sampler=StudySampler(seed=0))

    def falling(trial: optuna.Trial) -> float:
        x = trial.suggest_int("x", 0, 400)
        if x > 200:
            if how == "raises":
                raise RuntimeError("too far right")
            if how == "pruned":
                raise optuna.TrialPruned
            if how == "nan":
                return math.nan
            trial.set_constraint("right", x - 200.0)
            return 1.0  # better than every valid value
        return 500.0 - x

    study.optimize(falling, n_trials=25, catch=RuntimeError)
    tried = [t.params["x"] for t in study.trials]
    assert max(x for x in tried if x <= 200) >= 197
    assert sum(x > 200 for x in tried[5:]) <= 12


def test_several_objectives_are_rejected() -> None:
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=StudySampler(seed=0))
    with pytest.raises(ValueError, match="several objectives"):
        study.optimize(lambda t: (t.suggest_float("x", 0, 1), 1.0), n_trials=2)


def test_no_trial_is_repeated_with_a_subsampled_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_sampler, "_MOST", 16)
    study = optuna.create_study(sampler=StudySampler(seed=0))

    def objective(trial: optuna.Trial) -> float:
        return 1.0 + abs(trial.suggest_int("x", 0, 9) - 4) + abs(trial.suggest_int("y", 0, 9) - 7)

    study.optimize(objective, n_trials=50)
    modelled = [tuple(t.params.values()) for t in study.trials[5:]]
    assert len(set(modelled)) == len(modelled)


def test_choices_that_are_equal_numbers_have_no_order() -> None:
    study = optuna.create_study(sampler=StudySampler(seed=0))
    study.optimize(lambda t: 1.0 + t.suggest_categorical("a", [2, 2.0]) + t.suggest_int("x", 0, 9), n_trials=8)
    assert len(study.trials) == 8


class TestAnyParameters:
    @pytest.mark.filterwarnings("ignore:Choices for a categorical distribution should be")
    @pytest.mark.parametrize(
        "choices",
        [
            ([1, 2], [3, 4], [5, 6]),
            ({"a": 1}, {"a": 2}, None),
            (math.nan, 1.0, 2.0),
            (None, True, "x", 3),
            (0.0, 1.0, math.inf),
            (-8, -4, 0, 10**300),
            (0, 10**300),
            (2**70, 2**70 + 1),
            (0, 1e-30),
        ],
        ids=lambda choices: ", ".join(str(choice)[:9] for choice in choices),
    )
    def test_choices_may_be_anything(self, choices: tuple[Any, ...]) -> None:
        study = optuna.create_study(sampler=StudySampler(seed=0))

        def objective(trial: optuna.Trial) -> float:
            chosen = trial.suggest_categorical("a", choices)
            position = next(i for i, c in enumerate(choices) if c is chosen or c == chosen)
            return 1.0 + position + abs(trial.suggest_int("x", 0, 9) - 4)

        study.optimize(objective, n_trials=20)
        assert study.best_value <= 2.0

    def test_nan_from_a_storage_is_recognised(self, tmp_path: Path) -> None:
        storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path / 's.db'}")
        study = optuna.create_study(storage=storage, sampler=StudySampler(seed=0))
        study.optimize(lambda t: 1.0 if t.suggest_categorical("a", [math.nan, 1.0]) == 1.0 else 2.0, n_trials=8)
        assert study.best_value == 1.0
        storage.remove_session()
        storage.engine.dispose()  # an open connection would be reported in a later test

    def test_thousands_of_choices(self) -> None:
        """A parameter with thousands of values stays fast, since its scale is computed once per proposal."""
        sizes = list(range(1, 4001))
        study = optuna.create_study(sampler=StudySampler(seed=0))
        study.optimize(lambda t: 1.0 + abs(math.log2(t.suggest_categorical("size", sizes)) - 9), n_trials=25)
        assert 400 <= study.best_params["size"] <= 660

    def test_ranges_of_any_size(self) -> None:
        study = optuna.create_study(sampler=StudySampler(seed=0))

        def objective(trial: optuna.Trial) -> float:
            tiny = trial.suggest_float("tiny", 1e-300, 1e300, log=True)
            wide = trial.suggest_float("wide", -8e307, 8e307)
            number = trial.suggest_int("number", 2**60, 2**60 + 2**20)
            logged = trial.suggest_int("logged", 1, 2**62, log=True)
            assert 1e-300 <= tiny <= 1e300 and 2**60 <= number <= 2**60 + 2**20 and 1 <= logged <= 2**62
            return 1.0 + abs(math.log10(tiny) + 20) / 100 + abs(wide) / 1e308 + abs(math.log2(logged) - 30) / 60

        study.optimize(objective, n_trials=30)
        assert study.best_value < 1.5

    def test_every_integer_of_a_far_range_is_proposed(self) -> None:
        far = axis(IntDistribution(2**60, 2**60 + 6, step=3))
        rng = np.random.default_rng(0)
        assert {far.value(far.random(rng)) for _ in range(50)} == {2**60, 2**60 + 3, 2**60 + 6}
        assert {far.value(far.near(2**60 + 3, rng)) for _ in range(50)} == {2**60, 2**60 + 3, 2**60 + 6}
        assert [far.coordinate(2**60 + n) for n in (0, 3, 6)] == [0.0, 0.5, 1.0]
        assert far.code(2**61) == 2**60 + 6 and far.code(2**60 + 4) == 2**60 + 3
        assert axis(IntDistribution(2**60, 2**60 + 2, log=True)).coordinate(2**60 + 1) == 0.0
        assert axis(FloatDistribution(0.0, 5e-324)).coordinate(5e-324) == 0.0

    def test_all_integers_are_drawn_equally_often(self) -> None:
        die, rng = axis(IntDistribution(1, 6)), np.random.default_rng(0)
        counts = np.bincount([int(die.random(rng)) for _ in range(6000)], minlength=7)[1:]
        assert counts.min() > 850

    def test_enqueued_values_may_be_outside_the_domain(self) -> None:
        study = optuna.create_study(sampler=StudySampler(seed=0))
        for x in (1e-9, 1e9):
            study.enqueue_trial({"x": x, "n": 7})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna warns about values outside of the range
            study.optimize(
                lambda t: abs(t.suggest_float("x", 0.01, 10, log=True) - 1) + t.suggest_int("n", 0, 8, step=4),
                n_trials=15,
            )
        assert all(0.01 <= t.params["x"] <= 10 and t.params["n"] in (0, 4, 8) for t in study.trials[2:])

    @settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.data())
    def test_a_normalised_value_is_within_its_distribution(self, data: st.DataObject) -> None:
        low = data.draw(st.integers(-(2**40), 2**40))
        high = low + data.draw(st.integers(0, 2**40))
        steps, step = data.draw(st.integers(0, 2**30)), data.draw(st.integers(1, 100))
        floats = sorted(data.draw(st.tuples(*[st.floats(1e-300, 1e300)] * 2)))
        distribution = data.draw(
            st.sampled_from(
                [
                    IntDistribution(low, low + steps * step, step=step),
                    IntDistribution(abs(low) + 1, abs(low) + 1 + high - low, log=True),
                    FloatDistribution(*floats, log=data.draw(st.booleans())),
                    FloatDistribution(0.0, 0.25 * step, step=0.25),
                    CategoricalDistribution(data.draw(st.lists(st.integers(-3, 9), min_size=1))),
                ]
            )
        )
        if distribution.single():
            return
        one, rng = axis(distribution), np.random.default_rng(data.draw(st.integers(0, 99)))
        code = one.random(rng)
        for _ in range(5):
            value = one.value(code)
            assert distribution._contains(distribution.to_internal_repr(value))
            assert one.value(one.code(value)) == value
            assert math.isfinite(one.coordinate(code))
            code = one.near(code, rng)


def test_a_space_without_legal_candidates_warns_once() -> None:
    study = optuna.create_study(sampler=StudySampler(seed=0, legal=lambda params: False))
    with pytest.warns(UserWarning, match=r"none of 6,144 random candidates is legal") as record:
        study.optimize(lambda t: t.suggest_float("x", 0, 1), n_trials=8)
    assert len(study.trials) == 8 and len(record) == 1


def test_late_failures_are_learned_quickly() -> None:
    study = optuna.create_study(sampler=StudySampler(seed=0))

    def falling(trial: optuna.Trial) -> float:
        x = trial.suggest_int("x", 0, 400)
        if x > 200:
            raise RuntimeError("too far right")
        return 500.0 - x

    for x in range(0, 200, 4):
        study.enqueue_trial({"x": x})
    study.optimize(falling, n_trials=56, catch=RuntimeError)
    late = [t.params["x"] for t in study.trials[50:]]
    assert sum(x > 300 for x in late) <= 3  # few proposals are in the failing half, where all values fail


def test_length_scales_are_refitted_with_a_subsampled_model(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = []
    fit = gaussian_process.hyperparameters

    def counting(rows: Any, *args: Any) -> Any:
        fitted.append(rows.shape[1])
        return fit(rows, *args)

    monkeypatch.setattr(study_sampler, "_MOST", 16)
    monkeypatch.setattr(gaussian_process, "hyperparameters", counting)
    study = optuna.create_study(sampler=StudySampler(seed=0))
    study.optimize(lambda t: 1 + (t.suggest_float("x", 0, 1) - 0.3) ** 2, n_trials=60)
    assert fitted.count(16) >= 5


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_objectives_of_any_size(direction: str) -> None:
    """The difference between the worst and the best objective exceeds the largest float."""
    sign = 1 if direction == "minimize" else -1
    study = optuna.create_study(direction=direction, sampler=StudySampler(seed=0))
    study.enqueue_trial({"x": -1.0})
    study.optimize(lambda t: sign * 1.7e308 * (2 * abs(t.suggest_float("x", -1, 1) - 0.5) / 1.5 - 1), n_trials=30)
    assert abs(study.best_params["x"] - 0.5) < 0.05


@pytest.mark.parametrize("state", [optuna.trial.TrialState.FAIL, optuna.trial.TrialState.RUNNING])
def test_trials_with_other_choices_are_excluded(state: optuna.trial.TrialState) -> None:
    """``Study.add_trial`` accepts trials with other choices. Completed trials determine the common parameters."""

    def objective(trial: optuna.Trial) -> float:
        return float(trial.suggest_categorical("c", ["a", "b"]) == "a") + trial.suggest_float("x", 0, 1)

    study = optuna.create_study(sampler=StudySampler(seed=0))
    study.optimize(objective, n_trials=6)
    x, c = FloatDistribution(0, 1), CategoricalDistribution(["a", "z"])
    study.add_trial(optuna.trial.create_trial(state=state, params={"x": 0.5, "c": "z"}, distributions={"x": x, "c": c}))
    study.optimize(objective, n_trials=4)
    assert study.best_value < 0.3
