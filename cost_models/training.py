"""Offline training: many problems' measurements in, one model and its held-out quality out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from cost_models.boosted import BoostedModel, Settings, held_out_rows
from cost_models.evaluation import Quality, evaluate
from cost_models.features import FeatureTable, align, common_names


@dataclass(frozen=True)
class TrainingTable:
    """The measurements of one problem on one device: ``seconds`` [n] for the n rows of ``features``.

    ``group`` names the problem and the device; tables with the same group are one problem.
    """

    features: FeatureTable
    seconds: npt.NDArray[np.float64]
    group: str

    def __post_init__(self) -> None:
        if len(self.features) != len(self.seconds):
            raise ValueError(
                f"table {self.group!r} has {len(self.features)} rows of features and {len(self.seconds)} times"
            )


def train(tables: Sequence[TrainingTable], settings: Settings | None = None) -> tuple[BoostedModel, Quality]:
    """A model of all tables, and its quality on problems that a first model did not see.

    With five groups or more, a fifth of the groups is held out, with fewer a fifth of the rows; the first model learns
    from the rest and is judged on them, and the model that is returned learns from everything. Raises ValueError for
    fewer than ten rows, or for tables whose features do not belong to one operator.
    """
    settings = settings or Settings()
    rows = sum(len(t.features) for t in tables)
    if rows < 10:
        raise ValueError(f"training needs at least ten measurements, not {rows}: tune more, or give more databases")
    names = common_names([t.features for t in tables])
    matrix = np.concatenate([align(t.features, names) for t in tables])
    seconds = np.concatenate([t.seconds for t in tables])
    groups = np.array([t.group for t in tables for _ in t.seconds])
    codes = np.unique(groups, return_inverse=True)[1]
    test = held_out_rows(codes, settings.held_out, settings.seed + 1)
    # not the model's own seed, so that the two models stop on different held-out rows
    judged = BoostedModel.fit(
        matrix[~test], seconds[~test], groups[~test], names=names, settings=replace(settings, seed=settings.seed + 2)
    )
    quality = evaluate(judged.predict(matrix[test]), seconds[test], groups[test])
    return BoostedModel.fit(matrix, seconds, groups, names=names, settings=settings), quality
