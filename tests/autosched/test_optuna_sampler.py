"""``StudySampler``: the sampler bayes in any Optuna study."""

import math
from collections.abc import Mapping
from typing import Any

import optuna
import pytest

import autosched
from autosched import optuna_sampler
from autosched.optuna_sampler import StudySampler

optuna.logging.set_verbosity(optuna.logging.ERROR)
TILES = [8, 16, 32, 64, 128, 256]


def seconds(params: Mapping[str, Any]) -> float:
    """1 at tile 64, 4 warps, layout xor, rate 0.3."""
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
    found = seconds_of(trial)
    if found != found:
        raise optuna.TrialPruned
    return found


def best_of(sampler: optuna.samplers.BaseSampler, trials: int = 30) -> float:
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=trials)
    return study.best_value


def test_finds_better_values_than_random() -> None:
    ours = [best_of(StudySampler(seed=seed)) for seed in range(2)]
    random = [best_of(optuna.samplers.RandomSampler(seed=seed)) for seed in range(2)]
    assert sum(ours) < sum(random) - 0.3 and max(ours) < 1.6


def test_the_same_seed_gives_the_same_trials() -> None:
    def params() -> list[dict[str, Any]]:
        study = optuna.create_study(sampler=autosched.StudySampler(seed=3))
        study.optimize(objective, n_trials=12)
        return [t.params for t in study.trials]

    assert params() == params()


def test_goes_on_from_a_storage() -> None:
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


def test_proposes_what_is_legal() -> None:
    def legal(params: Mapping[str, Any]) -> bool:
        return bool(params["tile"] * params["warps"] <= 128)

    study = optuna.create_study(sampler=StudySampler(seed=0, legal=legal))
    study.optimize(objective, n_trials=15)
    assert all(legal(t.params) for t in study.trials[1:])  # of the first, nobody knows the parameters


def test_legal_is_told_of_parameters_with_one_value() -> None:
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


def test_finds_what_is_legal_where_little_is() -> None:
    def legal(params: Mapping[str, Any]) -> bool:
        return bool(params["a"] == params["b"] == params["c"] // 2)  # 20 of 8,000 combinations

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
def test_failures_are_learned_apart_from_values(how: str) -> None:
    """Half of a line fails, and the best value is at its border: what failed does not count against its neighbours."""
    if how == "constraint" and not hasattr(optuna.Trial, "set_constraint"):
        pytest.skip("Optuna has constraints of trials since version 5")
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
            return 1.0  # a value better than any that counts
        return 500.0 - x

    study.optimize(falling, n_trials=25, catch=RuntimeError)
    tried = [t.params["x"] for t in study.trials]
    assert max(x for x in tried if x <= 200) >= 197
    assert sum(x > 200 for x in tried[5:]) <= 12


def test_refuses_several_objectives() -> None:
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=StudySampler(seed=0))
    with pytest.raises(ValueError, match="one objective"):
        study.optimize(lambda t: (t.suggest_float("x", 0, 1), 1.0), n_trials=2)


def test_no_trial_is_repeated_where_the_model_looks_at_some_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optuna_sampler, "_MOST", 16)
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
