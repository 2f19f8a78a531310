"""Offline training of one model per operator from many problems' times, with its accuracy on held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cost_models.features import FeatureTable, align, common_names, features
from cost_models.trees.boosted import BoostedModel, BoostedTreeSettings
from cost_models.trees.held_out import HeldOut, Rows, cross_validated
from cost_models.trees.observations import Observations, merged, shape_family
from cost_models.trees.trained_model import CORRECTED, OperatorModel

FEWEST = 10  # minimum number of recorded times per operator
TRAINING = BoostedTreeSettings(rounds=300, members=3)


def train(
    observations: Sequence[Observations], settings: BoostedTreeSettings | None = None
) -> tuple[OperatorModel, ...]:
    """Train a model for each operator, and compute its held-out figures.

    The same times and settings give the same models, whatever the order of the times.

    Args:
        observations: Training data. All schedules must be usable (``Observations.usable``).
        settings: Settings of the trees.

    Returns:
        The models, by name of the operator.

    Raises:
        ValueError: There are no observations, or fewer than ten rows for an operator.
    """
    return _by_operator(observations, settings or TRAINING, judged=True)


def fitted(
    observations: Sequence[Observations], settings: BoostedTreeSettings | None = None
) -> tuple[OperatorModel, ...]:
    """Train like ``train``, but without computing held-out figures and noise, which is much faster."""
    return _by_operator(observations, settings or TRAINING, judged=False)


def _by_operator(
    observations: Sequence[Observations], settings: BoostedTreeSettings, judged: bool
) -> tuple[OperatorModel, ...]:
    by_operator: dict[str, list[Observations]] = {}
    for one in merged(observations):
        by_operator.setdefault(one.problem.operator, []).append(one)
    if not by_operator:
        raise ValueError("no trials to train on: give at least one trial with a time")
    return tuple(_operator_model(name, by_operator[name], settings, judged) for name in sorted(by_operator))


def _operator_model(
    operator: str, observations: Sequence[Observations], settings: BoostedTreeSettings, judged: bool
) -> OperatorModel:
    total = sum(map(len, observations))
    if total < FEWEST:
        raise ValueError(f"{operator} has {total} usable times, but training needs {FEWEST}: tune more problems")
    rows = _rows(observations)
    held_out: tuple[HeldOut, ...] = ()
    noise = 0.0
    if judged:
        held_out, noise = cross_validated(rows, replace(settings, seed=settings.seed + 1), CORRECTED)
    boosted = BoostedModel.fit(
        rows.matrix, rows.seconds, rows.groups, names=rows.names, settings=settings, corrects=CORRECTED
    )
    versions = {t.name: t.version for one in observations for t in one.templates()}
    used = sorted({schedule.template for one in observations for schedule in one.schedules})
    return OperatorModel(
        operator=operator,
        boosted=boosted,
        noise=noise,
        templates=tuple((name, versions[name]) for name in used),
        held_out=held_out,
        observations=tuple(observations),
    )


def table(one: Observations) -> FeatureTable:
    """Return the features of the schedules, with columns for all templates of the problem, as in a search."""
    return features(one.templates(), one.problem, one.schedules, one.device)


def _rows(observations: Sequence[Observations]) -> Rows:
    tables = [table(one) for one in observations]
    names = common_names(tables)

    def of_each(values: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.str_]]:
        return np.array([value for value, one in zip(values, observations, strict=True) for _ in one.seconds])

    return Rows(
        names=names,
        matrix=np.concatenate([align(t, names) for t in tables]),
        seconds=np.concatenate([np.array(one.seconds, dtype=np.float64) for one in observations]),
        groups=np.repeat(np.arange(len(observations)), [len(one) for one in observations]),
        problems=of_each([one.problem.key() for one in observations]),
        families=of_each([shape_family(one.problem) for one in observations]),
        devices=of_each([one.device.name for one in observations]),
    )
