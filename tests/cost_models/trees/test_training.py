"""Offline training over several problems learns, is reproducible, and evaluates the model on held-out problems."""

import dataclasses
import math
from functools import cache

import numpy as np
import pytest
from observed import QUICK, observations

from cost_models.trees.evaluation import rank_correlation
from cost_models.trees.observations import Observations, merged, shape_family
from cost_models.trees.trained_model import OperatorModel
from cost_models.trees.training import table, train
from search_spaces.operators.copy import Copy
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.row_reduction import Softmax
from search_spaces.operators.transpose import Transpose

PROBLEMS = (Copy(2048, 2048), Copy(4096, 1000), Copy(512, 700), Copy(9000, 300))
NEW = Copy(3000, 5000)


@cache
def observed() -> tuple[Observations, ...]:
    return tuple(observations(p, name, rows=24) for name in ("h200", "a100") for p in PROBLEMS)


@cache
def trained() -> OperatorModel:
    (model,) = train(observed(), QUICK)
    return model


def test_a_new_problem_is_predicted_from_other_problems() -> None:
    new = observations(NEW, rows=60)
    features = table(new)
    predicted = trained().predict(features)
    learned = rank_correlation(predicted, new.seconds)
    assert learned > 0.9
    assert learned > rank_correlation(features["model.seconds"], new.seconds)  # better than the analytic model
    off = [abs(p - math.log(s)) for p, s in zip(predicted, new.seconds, strict=True)]
    assert sorted(off)[len(off) // 2] < 0.2  # predictions are logarithms of seconds, not only ranks


def test_training_is_independent_of_the_order_of_problems() -> None:
    few = [observations(p, rows=8) for p in PROBLEMS[:2]]
    (first,) = train(few, QUICK)
    (second,) = train(tuple(reversed(few)), QUICK)
    assert first == second


def test_a_model_is_evaluated_by_schedules_problems_families_and_devices() -> None:
    wholes = {figures.split: figures for figures in trained().held_out if not figures.name}
    assert list(wholes) == ["schedules", "problems", "families", "devices"]
    assert all(figures.rows == 192 and figures.groups == 8 for figures in wholes.values())
    names = {split: {f.name for f in trained().held_out if f.split == split and f.name} for split in wholes}
    assert names["problems"] == names["schedules"] == {p.key() for p in PROBLEMS}
    assert names["families"] == {"copy, balanced", "copy, long rows"}
    assert names["devices"] == {"a100", "h200"}
    for figures in trained().held_out:
        assert 0 <= figures.regret_10 <= figures.regret_5 <= figures.regret_1
        assert 0 <= figures.within_1 <= figures.within_2 <= 1
    assert wholes["problems"].spearman > 0.85
    assert wholes["problems"].regret_10 < 0.05
    assert 0.5 < wholes["problems"].within_1 < 0.9  # 0.68 of a normal distribution lies within one standard deviation
    assert wholes["problems"].within_2 > 0.85


def test_noise_is_learned_as_deviation() -> None:
    """For times with more noise, the predicted deviation is larger."""
    rng = np.random.default_rng(0)
    noisy = tuple(
        dataclasses.replace(one, seconds=tuple(s * float(np.exp(0.3 * rng.standard_normal())) for s in one.seconds))
        for one in observed()[:4]
    )
    (model,) = train(noisy, QUICK)
    new = table(observations(NEW))
    assert model.noise > 0.15
    assert (model.deviation(new) > 0.15).all()
    assert trained().deviation(new).mean() < 0.6 * model.deviation(new).mean()


def test_operators_are_trained_separately() -> None:
    models = train([observations(PROBLEMS[0], rows=12), observations(Softmax(256, 1000), rows=12)], QUICK)
    assert [model.operator for model in models] == ["copy", "softmax"]
    assert [model.rows for model in models] == [12, 12]


def test_too_little_to_learn_from_is_rejected() -> None:
    with pytest.raises(ValueError, match="copy has 6 usable times, but training needs 10"):
        train([observations(NEW, rows=6)], QUICK)
    with pytest.raises(ValueError, match="no trials to train on"):
        train([], QUICK)


def test_newer_times_replace_older_ones() -> None:
    old = observations(NEW, rows=12)
    newer = dataclasses.replace(old, schedules=old.schedules[:2], seconds=(1e-3, 2e-3))
    (one,) = merged([old, newer])
    assert len(one) == 12
    assert dict(zip(one.schedules, one.seconds, strict=True))[old.schedules[0]] == 1e-3
    assert merged([one, newer]) == (one,)


def test_observations_make_a_round_trip_and_are_checked() -> None:
    one = observations(NEW, rows=12)
    assert merged([Observations.from_json(one.to_json())]) == merged([one])
    for change in ({"device": "none"}, {"problem": {}}, {"tables": [{}]}, {"tables": []}, {"device": 3}):
        with pytest.raises(ValueError, match=r"."):
            Observations.from_json({**one.to_json(), **change})
    with pytest.raises(ValueError, match="positive number"):
        dataclasses.replace(one, seconds=(0.0,) * 12)
    with pytest.raises(ValueError, match="twice"):
        Observations(one.problem, one.device, one.schedules[:1] * 2, (1.0, 1.0))


def test_schedules_of_no_template_are_excluded() -> None:
    one = observations(NEW, rows=12)
    spoiled = one.schedules[0].replace(unroll=3)
    now, gone = dataclasses.replace(one, schedules=(spoiled, *one.schedules[1:])).usable()
    assert now is not None
    assert (len(now), gone) == (11, 1)


@pytest.mark.parametrize(
    ("problem", "family"),
    [
        (Matmul(4096, 4096, 4096, batch=8), "matmul, balanced"),
        (Matmul(16, 4096, 4096), "matmul, short m"),
        (Matmul(4096, 4096, 64), "matmul, short k"),
        (Matmul(512, 8192, 1024), "matmul, long n"),
        (Matmul(64, 8192, 1024), "matmul, long n and short m"),
        (Softmax(100000, 32), "softmax, long rows"),
        (Transpose(1000, 2000), "transpose, balanced"),
        (Matvec(1, 4096, 4096), "matvec, short m"),
    ],
)
def test_a_shape_has_a_family(problem: Matmul, family: str) -> None:
    assert shape_family(problem) == family


def test_a_single_row_of_another_device_or_shape_is_tolerated() -> None:
    for other in (observations(PROBLEMS[0], "a100", rows=1), observations(PROBLEMS[1], rows=1)):
        (model,) = train([observations(PROBLEMS[0], rows=12), other], QUICK)
        assert {figures.split for figures in model.held_out} == {"schedules"}
