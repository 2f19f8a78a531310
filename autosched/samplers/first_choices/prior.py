"""What the analytic model and the documented features tell a sampler about untried schedules."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autosched.samplers.base import EncodingPrior, Matrix, Prior
from cost_models.features import FeatureTable, features
from search_spaces.arrays import FloatArray
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace
from search_spaces.templates.template import TemplateSet

_REMEMBERED = 1 << 16  # schedules; a row is some 400 bytes


class AnalyticPrior:
    """The features of one problem on one device, and the analytic model's time, which is among them.

    Rows are cached, because a search asks for the good ones again and again.
    """

    def __init__(self, templates: TemplateSet, problem: Problem, device: Device) -> None:
        self._templates = templates
        self._problem = problem
        self._device = device
        self._rows: dict[Schedule, tuple[Matrix, float]] = {}
        self._names = features(self._templates, problem, (), device).names

    def features(self, schedules: Sequence[Schedule]) -> Matrix:
        """float32 [n, d]; zeros for a schedule that does not fit on the device."""
        self._compute(schedules)
        rows = [self._rows[s][0] for s in schedules]
        return np.stack(rows) if rows else np.zeros((0, len(self._names)), dtype=np.float32)

    def table(self, schedules: Sequence[Schedule]) -> FeatureTable:
        """Return the features of schedules that fit on the device, with their names."""
        return FeatureTable(self._names, self.features(schedules))

    def log_seconds(self, schedules: Sequence[Schedule]) -> FloatArray:
        """[n]; infinite for a schedule that does not fit on the device."""
        self._compute(schedules)
        return np.array([self._rows[s][1] for s in schedules], dtype=np.float64)

    def _compute(self, schedules: Sequence[Schedule]) -> None:
        missing = [s for s in dict.fromkeys(schedules) if s not in self._rows]
        if not missing:
            return
        if len(self._rows) + len(missing) > _REMEMBERED:
            self._rows.clear()
            missing = list(dict.fromkeys(schedules))
        try:
            self._remember(missing, features(self._templates, self._problem, missing, self._device))
        except ValueError:  # one of them does not fit: find out which
            for schedule in missing:
                try:
                    self._remember([schedule], features(self._templates, self._problem, [schedule], self._device))
                except ValueError:
                    self._rows[schedule] = np.zeros(len(self._names), dtype=np.float32), math.inf

    def _remember(self, schedules: Sequence[Schedule], table: FeatureTable) -> None:
        seconds = table["model.seconds"].astype(np.float64) * math.log(2.0)
        for schedule, row, guess in zip(schedules, table.values, seconds.tolist(), strict=True):
            self._rows[schedule] = row, guess


def prior_of(templates: TemplateSet, problem: Problem, device: Device, space: SearchSpace) -> Prior:
    """Return what is known before the first trial.

    Args:
        templates: Those that are searched.
        problem: What is computed.
        device: The GPU.
        space: The space of all ``templates``, for the encoding.

    Returns:
        The analytic model where every template states its costs, else nothing but the encoding of the space.
    """
    if all(template.counts is not None for template in templates):
        return AnalyticPrior(templates, problem, device)
    return EncodingPrior(space)
