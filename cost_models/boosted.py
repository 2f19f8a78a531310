"""Gradient-boosted trees that learn times from measurements (XGBoost).

The target is ``log(seconds / best seconds of the problem)``, the negative logarithm of the throughput relative to the
best that TVM learns (``min_cost / cost``): problems of any size become comparable, and a fixed ratio of times costs the
same everywhere. Rows weigh ``best / seconds``, so that the fast end, where a search decides, is learned best. On
recorded spaces of three kernels, learning from 48 and from 128 random measurements (means of 8 draws), this found
faster kernels among its ten best predictions than the unweighted logarithm did, and ordered the rest better than the
plain ratio did, in all six cases.

How many trees are grown is decided on rows that the trees have not seen, never on the training error; then the trees
are grown again from all rows.
"""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import xgboost

from cost_models.evaluation import group_codes
from cost_models.features import FEATURE_VERSION
from search_spaces.arrays import FloatArray

Matrix = npt.NDArray[np.float32]

FORMAT = "autosched boosted cost model"
FORMAT_VERSION = 1

_FEWEST_HELD_OUT = 8  # rows; a smaller held-out set says nothing, so the number of trees is fixed
_FIXED_ROUNDS = 100


class ModelMismatch(ValueError):
    """A model file that this version cannot use, or rows with other features than the model's. One line says which."""


@dataclass(frozen=True)
class Settings:
    """How trees are grown.

    ``held_out`` is the part of the rows (of the groups, from five on) that decides when to stop: after ``patience``
    trees without improvement, at ``rounds`` at the latest. ``members`` models that differ in their seed are averaged;
    the spread between them is a measure of doubt.
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
                raise ValueError(f"{name} must be over 0 and at most 1, not {getattr(self, name)}")
        if not 0 < self.held_out < 1:
            raise ValueError(f"held_out must be between 0 and 1, not {self.held_out}")
        if not 0 <= self.seed < 2**31 - 2**16:
            raise ValueError(f"seed must be from 0 to 2^31 - 2^16 - 1, not {self.seed}")


@dataclass(frozen=True)
class BoostedModel:
    """A fitted model. ``trees`` holds one XGBoost model in JSON per member, ``rounds`` the trees of each member.

    ``log_best`` is the mean over the training problems of the logarithm of their best time in seconds.
    """

    names: tuple[str, ...]
    settings: Settings
    rounds: tuple[int, ...]
    log_best: float
    trees: tuple[str, ...]
    feature_version: int = FEATURE_VERSION

    @classmethod
    def fit(
        cls,
        X: npt.ArrayLike,
        seconds: npt.ArrayLike,
        groups: Sequence[Any] | npt.NDArray[Any] | None = None,
        *,
        names: Sequence[str] | None = None,
        settings: Settings | None = None,
    ) -> Self:
        """Learn from X, float [n, d] with n >= 2, and measured seconds [n]; ``groups`` [n] names each row's problem.

        NaN is a missing value: a tree learns at each branch where rows without it go. The same rows in the same order
        and the same settings give the same model. Raises ValueError for infinite values, times that are not positive,
        or shapes that do not match.
        """
        settings = settings or Settings()
        matrix = _matrix(X)
        named = tuple(names) if names is not None else tuple(f"x{i}" for i in range(matrix.shape[1]))
        if len(named) != matrix.shape[1] or len(set(named)) != len(named):
            raise ValueError(f"names must hold {matrix.shape[1]} different names, one for each feature")
        times = np.asarray(seconds, dtype=np.float64)
        if times.shape != (len(matrix),) or len(matrix) < 2:
            raise ValueError(
                f"a model needs a time for each row and at least two rows, not {times.shape} for {len(matrix)}"
            )
        if not (np.isfinite(times) & (times > 0)).all():
            raise ValueError("times must be positive and finite: leave failed trials out")
        codes = group_codes(groups, len(matrix))
        best = np.full(int(codes.max()) + 1, np.inf)
        np.minimum.at(best, codes, times)
        labels = np.log(times / best[codes])
        weights = best[codes] / times
        weights = weights / weights.mean()

        trees, rounds = [], []
        for member in range(settings.members):
            seed = settings.seed + member
            rounds.append(_rounds(matrix, labels, weights, codes, settings, seed))
            booster = xgboost.train(_parameters(settings, seed), _data(matrix, labels, weights, settings), rounds[-1])
            trees.append(json.dumps(json.loads(bytes(booster.save_raw("json")))))  # as a file stores it
        return cls(named, settings, tuple(rounds), float(np.log(best).mean()), tuple(trees))

    def predict(self, X: npt.ArrayLike) -> FloatArray:
        """Logarithm of the seconds of each row of X, float [n, d] -> [n].

        A model of one problem predicts its times. For a problem that it was not trained on, only differences between
        rows of that problem mean something: the level is the mean of the training problems. Raises ModelMismatch for
        another number of features, ValueError for infinite values.
        """
        mean: FloatArray = self._members(X).mean(axis=0)
        return mean + self.log_best

    def spread(self, X: npt.ArrayLike) -> FloatArray:
        """Standard deviation between the members' predictions, [n]; all 0 for a model of one member."""
        spread: FloatArray = self._members(X).std(axis=0)
        return spread

    def _members(self, X: npt.ArrayLike) -> FloatArray:
        matrix = _matrix(X)
        if matrix.shape[1] != len(self.names):
            raise ModelMismatch(f"the model knows {len(self.names)} features, the rows have {matrix.shape[1]}")
        if len(matrix) == 0:
            return np.zeros((len(self._boosters), 0))
        return np.stack([b.inplace_predict(matrix).astype(np.float64) for b in self._boosters])

    @cached_property
    def _boosters(self) -> tuple[Any, ...]:
        boosters = []
        for text in self.trees:
            booster = xgboost.Booster({"nthread": self.settings.threads})
            booster.load_model(bytearray(text.encode()))
            boosters.append(booster)
        return tuple(boosters)

    def to_json(self) -> dict[str, Any]:
        """The whole model as JSON values; the trees are in XGBoost's own JSON."""
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "feature_version": self.feature_version,
            "names": list(self.names),
            "settings": dataclasses.asdict(self.settings),
            "rounds": list(self.rounds),
            "log_best": self.log_best,
            "trees": [json.loads(text) for text in self.trees],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The model whose ``to_json()`` was ``data``. Raises ModelMismatch for another format or feature version."""
        if data.get("format") != FORMAT:
            raise ModelMismatch("this is not a cost model of autosched: train one with cost_models.training.train")
        if data.get("format_version") != FORMAT_VERSION:
            raise ModelMismatch(
                f"the model has format version {data.get('format_version')}, this autosched reads {FORMAT_VERSION}: "
                "train it again"
            )
        if data.get("feature_version") != FEATURE_VERSION:
            raise ModelMismatch(
                f"the model was trained on features of version {data.get('feature_version')}, this autosched computes "
                f"version {FEATURE_VERSION}: train it again"
            )
        try:
            model = cls(
                names=tuple(str(name) for name in data["names"]),
                settings=Settings(**data["settings"]),
                rounds=tuple(int(n) for n in data["rounds"]),
                log_best=float(data["log_best"]),
                trees=tuple(json.dumps(tree) for tree in data["trees"]),
                feature_version=int(data["feature_version"]),
            )
            model.predict(np.zeros((1, len(model.names))))  # whether the trees are of these features
        except (KeyError, TypeError, ValueError) as error:  # XGBoost's own errors are ValueErrors of several lines
            why = str(error).strip().partition("\n")[0]
            raise ModelMismatch(f"the cost model is damaged ({why}): train it again") from error
        return model

    def save(self, path: str | Path) -> None:
        """Write the model as one JSON file; another process sees the old file or the whole new one."""
        target = Path(path)
        temporary = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            temporary.write_text(json.dumps(self.to_json()), encoding="utf-8")
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model file. Raises ModelMismatch for another kind or version, OSError if the file cannot be read."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ModelMismatch(f"{path} is not a cost model: it is not JSON") from error
        if not isinstance(data, dict):
            raise ModelMismatch(f"{path} is not a cost model: its JSON is not an object")
        return cls.from_json(data)


def _matrix(X: npt.ArrayLike) -> Matrix:
    with np.errstate(over="ignore"):  # values that overflow float32 are refused below
        matrix = np.ascontiguousarray(X, dtype=np.float32)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise ValueError(f"features must be a table of rows and columns, not of shape {matrix.shape}")
    if np.isinf(matrix).any():
        raise ValueError("features must be finite, or NaN where they are missing: one is infinite or beyond float32")
    return matrix


def _parameters(settings: Settings, seed: int) -> dict[str, Any]:
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


def _data(matrix: Matrix, labels: FloatArray, weights: FloatArray, settings: Settings) -> Any:
    return xgboost.DMatrix(matrix, label=labels, weight=weights, nthread=settings.threads)


def _rounds(
    matrix: Matrix,
    labels: FloatArray,
    weights: FloatArray,
    codes: npt.NDArray[np.int64],
    settings: Settings,
    seed: int,
) -> int:
    """How many trees to grow, decided on held-out rows."""
    held = held_out_rows(codes, settings.held_out, seed)
    if int(held.sum()) < _FEWEST_HELD_OUT or held.all():
        return min(settings.rounds, _FIXED_ROUNDS)
    booster = xgboost.train(
        _parameters(settings, seed),
        _data(matrix[~held], labels[~held], weights[~held], settings),
        settings.rounds,
        evals=[(_data(matrix[held], labels[held], weights[held], settings), "held_out")],
        early_stopping_rounds=settings.patience,
        verbose_eval=False,
    )
    return int(booster.best_iteration) + 1


def held_out_rows(codes: npt.NDArray[np.int64], part: float, seed: int) -> npt.NDArray[np.bool_]:
    """A mask of about ``part`` of the rows: whole groups from five groups on, as new problems are what counts then."""
    rng = np.random.default_rng(seed)
    groups = int(codes.max()) + 1
    if groups >= 5:
        chosen = rng.permutation(groups)[: max(1, round(part * groups))]
        return np.isin(codes, chosen)
    mask = np.zeros(len(codes), dtype=np.bool_)
    mask[rng.permutation(len(codes))[: round(part * len(codes))]] = True
    return mask
