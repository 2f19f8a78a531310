"""Cross-validation of a model by up to four splits, which differ in what is held out.

- ``schedules``: a fifth of the rows. Tests predictions for other schedules of problems that were tuned before.
- ``problems``: whole problems on all devices. Tests predictions for new sizes and types, which a warm start needs.
- ``families``: all problems of a shape family (``observations.shape_family``). Tests predictions for a new kind of
shape.
- ``devices``: all measurements of a device. Tests predictions for a new GPU.

Every row is predicted once, by a model that is trained on the other parts of the split. The figures are computed for
each problem on each device, and averaged. Problems with fewer than five rows are omitted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from cost_models.trees.boosted import BoostedModel, BoostedTreeSettings, Matrix
from cost_models.trees.evaluation import rank_correlation, regret
from search_spaces.arrays import BoolArray, FloatArray

SPLITS = ("schedules", "problems", "families", "devices")
FOLDS = 5
FEWEST_ROWS = 5
_FEWEST_LEARNED = 2  # minimum number of training rows outside of the held-out part
NEAR = 2.0  # calibration uses only rows up to this multiple of the best time, because a search decides among these


@dataclass(frozen=True)
class HeldOut:
    """Figures of one part of a split, averaged over problems.

    Attributes:
        name: Name of the part; "" for the whole split.
        groups: Number of problems.
        rows: Number of rows of all problems.
        regret_K: Slowdown of the best among the K schedules that are predicted fastest, compared to the best schedule.
        within_K: Fraction of rows whose time is within K standard deviations of the prediction (for a normal
            distribution 0.68 and 0.95). Only rows whose time is at most twice the best time are counted. A constant
            factor per problem is ignored, since rankings do not depend on this factor.
    """

    split: str
    name: str
    groups: int
    rows: int
    spearman: float
    regret_1: float
    regret_5: float
    regret_10: float
    within_1: float
    within_2: float

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Return the figures whose ``to_json()`` was ``data``.

        Raises:
            ValueError: The data are malformed.
        """
        kinds = {f.name: {"str": str, "int": int, "float": float}[str(f.type)] for f in dataclasses.fields(cls)}
        if not isinstance(data, Mapping) or set(data) != set(kinds):
            raise ValueError("the held-out figures were written by another version")
        for name, kind in kinds.items():
            if type(data[name]) is not kind and not (kind is float and type(data[name]) is int):
                raise ValueError(f"the held-out figure {name} is malformed")
        return cls(**data)


@dataclass(frozen=True)
class Rows:
    """Rows to split: features ``matrix`` [n, d] with their ``names``, and times ``seconds`` [n].

    ``Rows`` also has each row's group (a problem on a device), problem, shape family and device.
    """

    names: tuple[str, ...]
    matrix: Matrix
    seconds: FloatArray
    groups: npt.NDArray[np.int64]
    problems: npt.NDArray[np.str_]
    families: npt.NDArray[np.str_]
    devices: npt.NDArray[np.str_]


def cross_validated(
    rows: Rows, settings: BoostedTreeSettings, corrects: str | None
) -> tuple[tuple[HeldOut, ...], float]:
    """Cross-validate a model by every split that the data allow.

    Args:
        rows: Rows to split.
        settings: Settings of the trees.
        corrects: Name of the column that the trees correct; None to predict without an estimate.

    Returns:
        The figures and the model's noise. The figures of a split are those of each of its parts, followed by those of
        the whole split. The spread of the members explains a part of the error of log time. The noise is the standard
        deviation of the remaining part. It is computed from the split ``problems``, or from ``schedules`` if there are
        too few problems.
    """
    figures: list[HeldOut] = []
    noise = 0.0
    for split in SPLITS:
        units = rows.problems if split == "schedules" else getattr(rows, split)
        if split != "schedules" and len(np.unique(units)) < 2:
            continue
        folds = _folds(rows, split, settings.seed)
        # skip a part if too few rows remain for training
        if len(folds) - int(np.bincount(folds).max()) < _FEWEST_LEARNED:
            continue
        predicted, spread = _out_of_fold(rows, folds, settings, corrects)
        residual = _residual(rows, predicted)
        near = rows.seconds <= NEAR * _best(rows)
        noises = {int(fold): _noise(residual, spread, near & (folds != fold)) for fold in np.unique(folds)}
        deviation = np.sqrt(spread**2 + np.array([noises[int(fold)] for fold in folds]) ** 2)
        scores = np.abs(residual) / np.maximum(deviation, 1e-9)
        if split in ("schedules", "problems"):
            noise = _noise(residual, spread, near)
        if len(np.unique(units)) > 1:
            for unit in np.unique(units):
                figures += _figures(rows, predicted, scores, near, units == unit, split, str(unit))
        figures += _figures(rows, predicted, scores, near, np.ones(len(units), dtype=np.bool_), split, "")
    return tuple(figures), noise


def _folds(rows: Rows, split: str, seed: int) -> npt.NDArray[np.int64]:
    """Assign each row to a fold of the split. Rows of a unit get the same fold; for ``schedules`` a unit is one row."""
    rng = np.random.default_rng(seed)
    if split == "schedules":
        return rng.permutation(len(rows.seconds)) % FOLDS
    units, codes = np.unique(getattr(rows, split), return_inverse=True)
    parts: npt.NDArray[np.int64] = (rng.permutation(len(units)) % FOLDS)[codes]
    return parts


def _out_of_fold(
    rows: Rows, folds: npt.NDArray[np.int64], settings: BoostedTreeSettings, corrects: str | None
) -> tuple[FloatArray, FloatArray]:
    predicted, spread = np.zeros(len(folds)), np.zeros(len(folds))
    for fold in np.unique(folds):
        test = folds == fold
        model = BoostedModel.fit(
            rows.matrix[~test],
            rows.seconds[~test],
            rows.groups[~test],
            names=rows.names,
            settings=settings,
            corrects=corrects,
        )
        predicted[test], spread[test] = model.predict(rows.matrix[test]), model.spread(rows.matrix[test])
    return predicted, spread


def _best(rows: Rows) -> FloatArray:
    best = np.full(int(rows.groups.max()) + 1, np.inf)
    np.minimum.at(best, rows.groups, rows.seconds)
    of_row: FloatArray = best[rows.groups]
    return of_row


def _residual(rows: Rows, predicted: FloatArray) -> FloatArray:
    """Return log(time / prediction), after subtracting the mean of each group."""
    off, weights = np.log(rows.seconds) - predicted, _best(rows) / rows.seconds
    shared = np.bincount(rows.groups, off * weights) / np.bincount(rows.groups, weights)
    residual: FloatArray = off - shared[rows.groups]
    return residual


def _noise(residual: FloatArray, spread: FloatArray, use: BoolArray) -> float:
    if not use.any():
        return 0.0
    return float(np.sqrt(max(0.0, float((residual[use] ** 2 - spread[use] ** 2).mean()))))


def _figures(
    rows: Rows, predicted: FloatArray, scores: FloatArray, near: BoolArray, part: BoolArray, split: str, name: str
) -> list[HeldOut]:
    members = [np.flatnonzero(part & (rows.groups == group)) for group in np.unique(rows.groups[part])]
    members = [i for i in members if len(i) >= FEWEST_ROWS]
    if not members:
        return []
    judged = np.concatenate(members)
    inside = scores[judged][near[judged]]

    def mean(values: Sequence[float]) -> float:
        return float(np.mean(values))

    return [
        HeldOut(
            split=split,
            name=name,
            groups=len(members),
            rows=len(judged),
            spearman=mean([rank_correlation(predicted[i], rows.seconds[i]) for i in members]),
            regret_1=mean([regret(predicted[i], rows.seconds[i], 1) for i in members]),
            regret_5=mean([regret(predicted[i], rows.seconds[i], 5) for i in members]),
            regret_10=mean([regret(predicted[i], rows.seconds[i], 10) for i in members]),
            within_1=float((inside <= 1.0).mean()),
            within_2=float((inside <= 2.0).mean()),
        )
    ]
