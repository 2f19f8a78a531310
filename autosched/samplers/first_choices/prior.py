"""What the analytic model and the documented features tell a sampler about untried schedules."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autosched.samplers.base import EncodingPrior, Matrix, Prior
from cost_models.features import FeatureTable, features, model_log_seconds
from search_spaces.arrays import FloatArray
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace
from search_spaces.templates.template import TemplateSet

_REMEMBERED = 1 << 16  # schedules; a row is some 400 bytes


class AnalyticPrior:
    """The features of one problem on one device, and the analytic model's time, which is among them.

    Both are cached, because a search asks for the good ones again and again. Times take a fraction of what features do.
    """

    def __init__(self, templates: TemplateSet, problem: Problem, device: Device) -> None:
        self._templates = templates
        self._problem = problem
        self._device = device
        self._rows: dict[Schedule, Matrix] = {}
        self._guesses: dict[Schedule, float] = {}
        self._names = features(self._templates, problem, (), device).names

    def features(self, schedules: Sequence[Schedule]) -> Matrix:
        """float32 [n, d]; zeros for a schedule that does not fit on the device."""
        missing = [s for s in dict.fromkeys(schedules) if s not in self._rows]
        if len(self._rows) + len(missing) > _REMEMBERED:
            self._rows.clear()
            missing = list(dict.fromkeys(schedules))
        fits = np.isfinite(self.log_seconds(missing)).tolist()
        fitting = [schedule for schedule, fit in zip(missing, fits, strict=True) if fit]
        self._rows.update(dict.fromkeys(missing, np.zeros(len(self._names), dtype=np.float32)))
        if fitting:
            table = features(self._templates, self._problem, fitting, self._device)
            self._rows.update(zip(fitting, table.values, strict=True))
        rows = [self._rows[s] for s in schedules]
        return np.stack(rows) if rows else np.zeros((0, len(self._names)), dtype=np.float32)

    def table(self, schedules: Sequence[Schedule]) -> FeatureTable:
        """Return the features of schedules that fit on the device, with their names."""
        return FeatureTable(self._names, self.features(schedules))

    def log_seconds(self, schedules: Sequence[Schedule]) -> FloatArray:
        """[n]; infinite for a schedule that does not fit on the device."""
        missing = [s for s in dict.fromkeys(schedules) if s not in self._guesses]
        if len(self._guesses) + len(missing) > _REMEMBERED:
            self._guesses.clear()
            missing = list(dict.fromkeys(schedules))
        self._guesses.update(zip(missing, self._guessed(missing), strict=True))
        return np.array([self._guesses[s] for s in schedules], dtype=np.float64)

    def _guessed(self, schedules: Sequence[Schedule]) -> list[float]:
        try:
            return list(map(float, model_log_seconds(self._templates, self._problem, schedules, self._device)))
        except ValueError:  # one of them does not fit: find out which
            if len(schedules) == 1:
                return [math.inf]
            half = len(schedules) // 2
            return self._guessed(schedules[:half]) + self._guessed(schedules[half:])


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
