"""Importance of features for the predictions of a trained model, computed by XGBoost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cost_models.features import align
from cost_models.trees.boosted import ModelMismatch
from cost_models.trees.evaluation import rank_correlation
from cost_models.trees.trained_model import OperatorModel
from cost_models.trees.training import table

_CLEAR = 0.5  # minimum rank correlation between a feature and its effect to call larger values "slower" or "faster"


@dataclass(frozen=True)
class Importance:
    """Importance of a feature.

    Attributes:
        name: Name of the feature.
        gain: Fraction of the total loss reduction that is due to splits on this feature.
        moves: Mean absolute SHAP value over the training rows, after subtracting each problem's mean. This is the
            effect of the feature on the differences in log time between schedules of a problem.
        larger: Effect of larger values of the feature: "slower", "faster", or "" if it is not clear.
    """

    name: str
    gain: float
    moves: float
    larger: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON."""
        return {"name": self.name, "gain": self.gain, "moves": self.moves, "larger": self.larger}


def explain(model: OperatorModel) -> tuple[Importance, ...]:
    """Return the importance of each feature, the largest effect first, over training schedules that are still valid.

    Raises:
        ModelMismatch: No training schedule is still valid, or the model has other features.
    """
    shares, values = [], []
    for one in model.observations:
        now, _ = one.usable()
        if now is None:
            continue
        features = table(now)
        of_rows = model.contributions(features)
        shares.append(of_rows - of_rows.mean(axis=0))
        aligned = align(features, model.boosted.names).astype(np.float64)
        with np.errstate(invalid="ignore"):
            values.append(aligned - aligned.mean(axis=0))
    if not shares:
        raise ModelMismatch(
            f"the model's training data has no {model.operator} schedule that is valid in this version: train the "
            "model again"
        )
    share, value = np.concatenate(shares), np.concatenate(values)
    gains, moves = model.boosted.gain(), np.abs(share).mean(axis=0)
    contributions = []
    for column, name in enumerate(model.boosted.names):
        finite = np.isfinite(value[:, column])
        agrees = 0.0
        if moves[column] > 0 and finite.any():
            # compare ranks only where values are positive
            shifted = share[finite, column] - share[finite, column].min() + 1.0
            agrees = rank_correlation(value[finite, column], shifted)
        larger = "slower" if agrees > _CLEAR else "faster" if agrees < -_CLEAR else ""
        contributions.append(Importance(name, float(gains[column]), float(moves[column]), larger))
    return tuple(sorted(contributions, key=lambda i: (-i.moves, -i.gain, i.name)))
