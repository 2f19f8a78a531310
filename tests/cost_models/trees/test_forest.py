"""Trees stored as columns predict exactly what XGBoost predicts. Invalid trees are rejected."""

import copy
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from cost_models.trees.forest import DamagedForest, Forest


def booster(rounds: int = 8, base_score: float = 0.3) -> tuple[Any, npt.NDArray[np.float32]]:
    import xgboost

    rng = np.random.default_rng(0)
    x = rng.random((200, 5)).astype(np.float32)
    x[::3, 2] = np.nan
    y = 2 * x[:, 0] + np.nan_to_num(x[:, 2], nan=3.0) * x[:, 1]
    parameters = {"tree_method": "hist", "max_depth": 4, "nthread": 1, "base_score": base_score}
    return xgboost.train(parameters, xgboost.DMatrix(x, label=y), rounds), x


def test_the_trees_agree_with_xgboost() -> None:
    import xgboost

    trained, x = booster()
    forest = Forest.of(trained)
    again = forest.booster(1)
    np.testing.assert_array_equal(again.inplace_predict(x), trained.inplace_predict(x))
    rows = xgboost.DMatrix(x)
    np.testing.assert_array_equal(again.predict(rows, pred_contribs=True), trained.predict(rows, pred_contribs=True))
    assert again.get_score(importance_type="gain") == trained.get_score(importance_type="gain")
    assert Forest.of(again) == forest
    assert Forest.from_json(forest.to_json()) == forest
    assert Forest.of(booster(7)[0]) != forest


def _set(name: str, position: int, value: Any) -> Any:
    def change(data: dict[str, Any]) -> None:
        data[name][position] = value

    return change


def _cycle(data: dict[str, Any]) -> None:
    inner = [i for i, child in enumerate(data["left"][: data["sizes"][0]]) if child > 0]
    data["left"][inner[-1]] = 0


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (_set("left", 0, 10**6), "outside its tree"),
        (_set("left", 0, -7), "negative position"),
        (_set("left", 0, 3), "no parent, or several"),
        (_set("left", 0, -1), "no parent, or several"),
        (_cycle, "before its parent"),
        (_set("feature", 0, 5), "out of range"),
        (_set("feature", 0, -1), "out of range"),
        (_set("missing_left", 0, 2), "neither 0 nor 1"),
        (_set("value", 0, float("nan")), "not finite"),
        (_set("value", 0, 1e300), "not finite"),
        (_set("value", -1, 1e9), "leaf is out of range"),
        (_set("cover", 0, 0.0), "cover is out of range"),
        (_set("sizes", 0, 0), "no nodes, or too many"),
        (_set("sizes", 0, 1), "do not add up"),
        (_set("left", 0, "1"), "left is not a list of numbers"),
        (_set("left", 0, 1.5), "left is not a list of numbers"),
        (_set("left", 0, 10**40), "left is not a list of numbers"),
        (_set("value", 0, [1]), "value is not a list of numbers"),
        (lambda data: data.pop("gain"), "gain is not a list"),
        (lambda data: data["gain"].pop(), "differ in length"),
        (lambda data: data.update(features=0), "number of features: 0"),
        (lambda data: data.update(features=2.0), "number of features is not an integer"),
        (lambda data: data.update(base="1"), "base is not a number"),
        (lambda data: data.update(base=float("inf")), "base is not a number"),
        (lambda data: data.update(left=[]), "left is not a list"),
    ],
)
def test_invalid_trees_are_rejected(change: Any, complaint: str) -> None:
    data = copy.deepcopy(Forest.of(booster()[0]).to_json())
    change(data)
    with pytest.raises(DamagedForest, match=complaint):
        Forest.from_json(data)
