"""Estimated times of schedules before any of them is compiled or measured.

``Estimates`` is the interface between models and searches: samplers, ``default_choice`` and NVIDIA's heuristics obtain
estimated times through this class, independently of the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import numpy as np

from cost_models.features import FeatureTable, Matrix, features, model_log_seconds
from search_spaces.arrays import FloatArray
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem
from search_spaces.search_task import SearchTask
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace
from search_spaces.templates.template import TemplateSet

REMEMBERED = 1 << 16  # maximum number of cached schedules; a row of features takes some 400 bytes

LogSeconds = Callable[[Sequence[Schedule]], FloatArray]
Features = Callable[[Sequence[Schedule]], Matrix]


def estimate(problem: Problem, templates: TemplateSet, device: Device, schedules: Sequence[Schedule]) -> FloatArray:
    """Estimate schedules by the analytic model.

    Args:
        problem: Problem to compute.
        templates: Kernel templates of the schedules, each with cost counts.
        device: GPU for which times are estimated.
        schedules: Schedules of the templates' spaces.

    Returns:
        The logarithm of each schedule's time in seconds, [n]; infinite if a schedule does not fit on the device.
    """
    try:
        return model_log_seconds(templates, problem, schedules, device)
    except ValueError:  # at least one schedule does not fit: estimate each half separately
        if len(schedules) == 1:
            return np.array([math.inf])
        half = len(schedules) // 2
        parts = (schedules[:half], schedules[half:])
        return np.concatenate([estimate(problem, templates, device, part) for part in parts])


class Estimates:
    """Features and estimated times of schedules. Results are cached.

    Args:
        encode: Function that computes one row of features per schedule, float32 [n, d]. NaN is a missing feature.
        predict: Function that computes the logarithm of each schedule's seconds, [n]; infinite for an expected failure.
            Default: no times are estimated.
        most: Maximum number of cached schedules. The cache is emptied if more schedules would be added.

    Attributes:
        has_times: True if a model estimates times.
        known: Estimated log seconds of every cached schedule, in the order of requests.
    """

    def __init__(self, encode: Features, predict: LogSeconds | None = None, *, most: float = REMEMBERED) -> None:
        self._encode = encode
        self._predict = predict
        self._most = most
        self._known: dict[Schedule, float] = {}
        self._rows: dict[Schedule, Matrix] = {}
        self.has_times = predict is not None

    @classmethod
    def encoded(cls, space: SearchSpace) -> Self:
        """Return estimates that have features but no times. A schedule's features are its encoding in ``space``."""
        return cls(space.encode)

    @property
    def known(self) -> Mapping[Schedule, float]:
        """Estimates that were computed so far: log seconds by schedule."""
        return self._known

    def features(self, schedules: Sequence[Schedule]) -> Matrix:
        """Return the features of each schedule for a learned model, float32 [n, d]."""
        missing = self._missing(schedules, self._rows)
        if missing or not schedules:
            rows = self._encode(missing)
            if not schedules:
                return rows
            self._rows.update(zip(missing, rows, strict=True))
        return np.stack([self._rows[schedule] for schedule in schedules])

    def log_seconds(self, schedules: Sequence[Schedule]) -> FloatArray:
        """Return the logarithm of each schedule's estimated seconds, [n]; infinite for an expected failure.

        Raises:
            ValueError: There is no model that estimates times (``has_times`` is False).
        """
        if self._predict is None:
            raise ValueError("there is no model that estimates times: check has_times first")
        missing = self._missing(schedules, self._known)
        if missing:
            self._known.update(zip(missing, self._predict(missing).tolist(), strict=True))
        return np.array([self._known[schedule] for schedule in schedules], dtype=np.float64)

    def _missing(
        self, schedules: Sequence[Schedule], memory: dict[Schedule, float] | dict[Schedule, Matrix]
    ) -> list[Schedule]:
        """Return the schedules that are not in ``memory``. Empties ``memory`` first if it would grow too large."""
        missing = [schedule for schedule in dict.fromkeys(schedules) if schedule not in memory]
        if len(memory) + len(missing) <= self._most:
            return missing
        memory.clear()
        return list(dict.fromkeys(schedules))


class AnalyticEstimates(Estimates):
    """Features as in ``features.py``, and times by the analytic model. The times are also one of the features.

    Args:
        problem: Problem to compute.
        templates: Kernel templates of the schedules, each with cost counts.
        device: GPU for which times are estimated.
    """

    def __init__(self, problem: Problem, templates: TemplateSet, device: Device) -> None:
        self._names = features(templates, problem, (), device).names

        def rows(schedules: Sequence[Schedule]) -> Matrix:
            """Return one row of features per schedule; zeros for a schedule that does not fit on the device."""
            rows_ = np.zeros((len(schedules), len(self._names)), dtype=np.float32)
            fits = np.isfinite(self.log_seconds(schedules))
            if fits.any():
                fitting = [schedule for schedule, fit in zip(schedules, fits, strict=True) if fit]
                rows_[fits] = features(templates, problem, fitting, device).values
            return rows_

        super().__init__(rows, lambda schedules: estimate(problem, templates, device, schedules))

    def table(self, schedules: Sequence[Schedule]) -> FeatureTable:
        """Return the features of schedules with the names of the features. All schedules must fit on the device."""
        return FeatureTable(self._names, self.features(schedules))

    def corrected(self, predict: Callable[[FeatureTable], FloatArray]) -> Estimates:
        """Return estimates with the same features, and with times by another model.

        Args:
            predict: Function that computes log seconds [n] from the features of schedules that fit on the device.
        """

        def log_seconds(schedules: Sequence[Schedule]) -> FloatArray:
            seconds = np.full(len(schedules), math.inf)
            fits = np.isfinite(self.log_seconds(schedules))
            seconds[fits] = predict(self.table([s for s, fit in zip(schedules, fits, strict=True) if fit]))
            return seconds

        return Estimates(self.features, log_seconds)


def estimates_of(task: SearchTask) -> Estimates:
    """Return the estimates that a search has before its first trial.

    Returns:
        Estimates by the analytic model if every template has cost counts; otherwise estimates without times.
    """
    if all(template.counts is not None for template in task.templates):
        return AnalyticEstimates(task.problem, task.templates, task.device)
    return Estimates.encoded(task.space)
