"""Gradient-boosted trees that learn times from measurements (XGBoost).

The target is ``log(seconds / best seconds of the problem)``, the negative logarithm of TVM's target (``min_cost /
cost``). This target makes problems of all sizes comparable: an error by a given factor counts the same for short and
long times. Rows have the weight ``best / seconds``, because a search decides among fast schedules, so their predictions
must be the most accurate. Alternatives were compared on recorded spaces of three kernels, with 48 and 128 random
measurements (means of 8 draws). Each alternative selected the ten schedules with the smallest predicted times. In all
six cases, the best of these ten was faster with weights than without. In all six cases, the remaining schedules were
ordered better than with TVM's target.

If a column contains an estimate of the time (by the analytic model), the target can be ``log(seconds / estimate)``
instead. The trees then correct the estimate, and the model predicts seconds. Models were trained on 2,963 recorded
Triton matmuls of two GPUs, and evaluated on 2,398 other matmuls in four sets (``benchmarks/results/zero_shot.md``). On
each set, this second target ordered schedules better than the first target, and its first choice was closer to the best
schedule.

The number of trees is chosen by the error on held-out rows, not by the training error. The model is then trained again
on all rows.

Importing XGBoost takes a second, so only the functions that need XGBoost import it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from cost_models.trees.evaluation import group_codes
from cost_models.trees.forest import Forest
from search_spaces.arrays import FloatArray

Matrix = npt.NDArray[np.float32]

_FEWEST_HELD_OUT = 8  # minimum number of held-out rows; with fewer, the number of trees is fixed
_FIXED_ROUNDS = 100
_MOST_LOG = 1e3  # bounds of a time in seconds
_MOST_MEMBERS, _MOST_THREADS = 100, 1024


class ModelMismatch(ValueError):
    """This version cannot use the model, or rows have other features than the model. The message is one line."""


@dataclass(frozen=True)
class BoostedTreeSettings:
    """Settings of boosted trees.

    ``held_out`` is the fraction of rows (or of groups, if there are five or more) that is held out for early stopping.
    Training stops after ``patience`` trees without improvement, or after ``rounds`` trees. ``members`` is the number of
    models with different seeds, whose predictions are averaged; their spread measures the uncertainty.
    """

    rounds: int = 300
    patience: int = 30
    eta: float = 0.1
    max_depth: int = 6
    min_child_weight: float = 1.0
    subsample: float = 0.8
    colsample: float = 0.8
    held_out: float = 0.2
    members: int = 1
    seed: int = 0
    threads: int = 1

    def __post_init__(self) -> None:
        for name in ("rounds", "patience", "max_depth", "members", "threads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("eta", "subsample", "colsample"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} must be greater than 0 and at most 1, not {getattr(self, name)}")
        if not 0 < self.held_out < 1:
            raise ValueError(f"held_out must be between 0 and 1, not {self.held_out}")
        if not 0 <= self.seed < 2**31 - 2**16:
            raise ValueError(f"seed must be from 0 to 2^31 - 2^16 - 1, not {self.seed}")
        if self.members > _MOST_MEMBERS or self.threads > _MOST_THREADS:
            raise ValueError(
                f"too many members or threads: use at most {_MOST_MEMBERS} members and {_MOST_THREADS} threads"
            )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the settings that ``data`` contains as fields.

        Raises:
            ValueError: A field is missing, unknown or malformed.
        """
        fields = {field.name: type(field.default) for field in dataclasses.fields(cls)}
        if set(data) != set(fields):
            raise ValueError("the settings were written by another version")
        for name, kind in fields.items():
            value = data[name]
            if type(value) is not kind and not (kind is float and type(value) is int):
                raise ValueError(f"the setting {name} is not a number")
        return cls(**data)


@dataclass(frozen=True)
class BoostedModel:
    """Trained model: the average of several forests (``members``).

    ``level`` is added to the output of the trees. ``level`` is the mean, over the training problems, of the log of the
    best time in seconds. If the trees correct the column ``corrects`` (log2 of seconds), ``level`` is the mean of
    log(time / estimate).

    Raises:
        ModelMismatch: A member has other features than ``names``.
    """

    names: tuple[str, ...]
    settings: BoostedTreeSettings
    level: float
    members: tuple[Forest, ...]
    corrects: str | None = None

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise ModelMismatch("two features of the model have the same name")
        if not self.members or any(member.features != len(self.names) for member in self.members):
            raise ModelMismatch(
                f"the model names {len(self.names)} features, but its trees have a different number of features"
            )
        if not abs(self.level) <= _MOST_LOG:
            raise ModelMismatch("the model's level is not a number")
        if self.corrects is not None and self.corrects not in self.names:
            raise ModelMismatch(f"the model corrects {self.corrects}, but has no such feature")

    @classmethod
    def fit(
        cls,
        X: npt.ArrayLike,
        seconds: npt.ArrayLike,
        groups: Sequence[Any] | npt.NDArray[Any] | None = None,
        *,
        names: Sequence[str] | None = None,
        settings: BoostedTreeSettings | None = None,
        corrects: str | None = None,
    ) -> Self:
        """Train on measured times. The same rows in the same order and the same settings give the same model.

        Args:
            X: Features, float [n, d] with n >= 2. NaN is a missing value: each split learns to which child missing
                values go.
            seconds: Positive times, [n].
            groups: Name of each row's problem, [n]; None if all rows belong to one problem.
            names: Unique names of the d features; None for "x0", "x1" and so on.
            settings: Settings of the trees; None for the defaults.
            corrects: Name of the column with estimated log2 seconds that the trees correct; None to predict without an
                estimate.

        Raises:
            ValueError: Infinite values, times that are not positive, or shapes that do not match.
        """
        settings = settings or BoostedTreeSettings()
        matrix = _matrix(X)
        named = tuple(names) if names is not None else tuple(f"x{i}" for i in range(matrix.shape[1]))
        if len(named) != matrix.shape[1] or len(set(named)) != len(named):
            raise ValueError(f"invalid names: give {matrix.shape[1]} different names, one for each feature")
        times = np.asarray(seconds, dtype=np.float64)
        if times.shape != (len(matrix),) or len(matrix) < 2:
            raise ValueError(
                f"training needs at least two rows and one time per row, not times of shape {times.shape} for "
                f"{len(matrix)} rows"
            )
        if not (np.isfinite(times) & (times > 0)).all():
            raise ValueError("times must be positive and finite: omit failed trials")
        codes = group_codes(groups, len(matrix))
        best = np.full(int(codes.max()) + 1, np.inf)
        np.minimum.at(best, codes, times)
        weights = best[codes] / times
        weights = weights / weights.mean()
        if corrects is None:
            labels, level = np.log(times) - np.log(best)[codes], float(np.log(best).mean())
        else:
            if corrects not in named:
                raise ValueError(f"{corrects} is not one of the features")
            over = np.log(times) - _guess(matrix, named, corrects)
            level = float(np.average(over, weights=weights))
            labels = over - level

        import xgboost

        members = []
        for member in range(settings.members):
            seed = settings.seed + member
            rounds = _rounds(matrix, labels, weights, codes, settings, seed)
            booster = xgboost.train(_parameters(settings, seed), _data(matrix, labels, weights, settings), rounds)
            members.append(Forest.of(booster))
        return cls(named, settings, level, tuple(members), corrects)

    def predict(self, X: npt.ArrayLike) -> FloatArray:
        """Return the predicted log seconds [n] of the rows of X [n, d].

        Models of one problem and models that correct an estimate predict absolute times. For other models only
        differences within a problem are meaningful, because their ``level`` is a mean over the training problems.

        Raises:
            ModelMismatch: The number of features differs.
            ValueError: A value is infinite.
        """
        mean: FloatArray = self._members(X).mean(axis=0) + self.level
        return mean if self.corrects is None else mean + _guess(_matrix(X), self.names, self.corrects)

    def spread(self, X: npt.ArrayLike) -> FloatArray:
        """Return the standard deviation of the members' predictions, [n]; all 0 for a single member."""
        spread: FloatArray = self._members(X).std(axis=0)
        return spread

    def gain(self) -> FloatArray:
        """Return each feature's fraction of the total loss reduction by splits, [d]; all 0 without splits."""
        total = np.zeros(len(self.names))
        for member in self.members:
            inner = member.left >= 0
            np.add.at(total, member.feature[inner], member.gain[inner])
        return total / total.sum() if total.sum() > 0 else total

    def contributions(self, X: npt.ArrayLike) -> FloatArray:
        """Return the contribution of each feature to the prediction for each row of X, float [n, d].

        These are SHAP values in natural logarithms of time (Lundberg et al., Nature Machine Intelligence 2020, as
        computed by XGBoost's ``pred_contribs``). A row's contributions and a constant add up to ``predict``. If the
        trees correct an estimate, the estimate contributes its difference from the mean estimate of all rows.

        Raises:
            ModelMismatch: The number of features differs.
            ValueError: A value is infinite.
        """
        import xgboost

        matrix = self._checked(X)
        rows = xgboost.DMatrix(matrix, nthread=self.settings.threads)
        shares = [b.predict(rows, pred_contribs=True)[:, :-1].astype(np.float64) for b in self._boosters]
        mean: FloatArray = np.mean(shares, axis=0)
        if self.corrects is not None:
            guess = _guess(matrix, self.names, self.corrects)
            mean[:, self.names.index(self.corrects)] += guess - guess.mean()
        return mean

    def _members(self, X: npt.ArrayLike) -> FloatArray:
        matrix = self._checked(X)
        if len(matrix) == 0:
            return np.zeros((len(self._boosters), 0))
        return np.stack([b.inplace_predict(matrix).astype(np.float64) for b in self._boosters])

    def _checked(self, X: npt.ArrayLike) -> Matrix:
        matrix = _matrix(X)
        if matrix.shape[1] != len(self.names):
            raise ModelMismatch(f"the model has {len(self.names)} features, but the rows have {matrix.shape[1]}")
        return matrix

    @cached_property
    def _boosters(self) -> tuple[Any, ...]:
        return tuple(member.booster(self.settings.threads) for member in self.members)

    def to_json(self) -> dict[str, Any]:
        """Return the model as JSON values."""
        return {
            "names": list(self.names),
            "settings": dataclasses.asdict(self.settings),
            "level": self.level,
            "corrects": self.corrects,
            "members": [member.to_json() for member in self.members],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the model whose ``to_json()`` was ``data``.

        Raises:
            ValueError: The data are malformed. The message is one line.
        """
        names, settings, members = (data.get(n) for n in ("names", "settings", "members"))
        level, corrects = data.get("level"), data.get("corrects")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ModelMismatch("the names of the features are not a list of strings")
        if not isinstance(settings, Mapping) or not isinstance(members, list):
            raise ModelMismatch("the settings or the trees of the model are missing")
        if isinstance(level, bool) or not isinstance(level, (int, float)) or not abs(level) <= _MOST_LOG:
            raise ModelMismatch("the model's level is not a number")
        if corrects is not None and not isinstance(corrects, str):
            raise ModelMismatch("the name of the corrected feature is not a string")
        trees = tuple(map(Forest.from_json, members))
        return cls(tuple(names), BoostedTreeSettings.from_json(settings), float(level), trees, corrects)


def _matrix(X: npt.ArrayLike) -> Matrix:
    with np.errstate(over="ignore"):  # values that overflow float32 become infinite and are rejected below
        matrix = np.ascontiguousarray(X, dtype=np.float32)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise ValueError(f"features must be a two-dimensional array, not of shape {matrix.shape}")
    if np.isinf(matrix).any():
        raise ValueError(
            "a feature is infinite or too large for float32: use finite numbers, or NaN for a missing feature"
        )
    return matrix


def _guess(matrix: Matrix, names: Sequence[str], column: str) -> FloatArray:
    """Return the estimates to which the trees add corrections, as natural logarithms of seconds, [n]."""
    guess: FloatArray = matrix[:, names.index(column)].astype(np.float64) * np.log(2.0)
    return guess


def _parameters(settings: BoostedTreeSettings, seed: int) -> dict[str, Any]:
    return {
        "objective": "reg:squarederror",
        "tree_method": "hist",
        "eta": settings.eta,
        "max_depth": settings.max_depth,
        "min_child_weight": settings.min_child_weight,
        "subsample": settings.subsample,
        "colsample_bytree": settings.colsample,
        "seed": seed,
        "nthread": settings.threads,
        "verbosity": 0,
    }


def _data(matrix: Matrix, labels: FloatArray, weights: FloatArray, settings: BoostedTreeSettings) -> Any:
    import xgboost

    return xgboost.DMatrix(matrix, label=labels, weight=weights, nthread=settings.threads)


def _rounds(
    matrix: Matrix,
    labels: FloatArray,
    weights: FloatArray,
    codes: npt.NDArray[np.int64],
    settings: BoostedTreeSettings,
    seed: int,
) -> int:
    """Return the number of trees at which the error on held-out rows is smallest."""
    import xgboost

    validation = held_out_rows(codes, settings.held_out, seed)
    if int(validation.sum()) < _FEWEST_HELD_OUT or validation.all():
        return min(settings.rounds, _FIXED_ROUNDS)
    booster = xgboost.train(
        _parameters(settings, seed),
        _data(matrix[~validation], labels[~validation], weights[~validation], settings),
        settings.rounds,
        evals=[(_data(matrix[validation], labels[validation], weights[validation], settings), "held_out")],
        early_stopping_rounds=settings.patience,
        verbose_eval=False,
    )
    return int(booster.best_iteration) + 1


def held_out_rows(codes: npt.NDArray[np.int64], part: float, seed: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the held-out rows. ``part`` is the approximate fraction of rows to hold out.

    With five or more groups, whole groups are held out, to measure the error of predictions for new problems.
    """
    rng = np.random.default_rng(seed)
    groups = int(codes.max()) + 1
    if groups >= 5:
        chosen = rng.permutation(groups)[: max(1, round(part * groups))]
        return np.isin(codes, chosen)
    mask = np.zeros(len(codes), dtype=np.bool_)
    mask[rng.permutation(len(codes))[: round(part * len(codes))]] = True
    return mask
