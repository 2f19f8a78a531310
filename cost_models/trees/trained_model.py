"""Trained model as a file, with training data and held-out figures. The file contains only data, which are validated.

The file is JSON: ``format`` and ``format_version``, ``feature_version``, ``autosched_version``, ``provenance`` of the
times, and ``operators``. Each operator has its trees, columns, kernel templates with versions, held-out figures, and
observations. Because the observations are included, a model can be retrained with new times or features without the
original databases.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from cost_models.features import FEATURE_VERSION, FeatureMismatch, FeatureTable, align
from cost_models.trees.boosted import BoostedModel, ModelMismatch
from cost_models.trees.held_out import HeldOut
from cost_models.trees.observations import Observations
from search_spaces.arrays import FloatArray
from search_spaces.operators.problem import Problem

FORMAT = "autosched cost model"
FORMAT_VERSION = 1
CORRECTED = "model.seconds"  # feature with an estimate of the time, whose error the trees predict and correct
MOST_BYTES = 1 << 28  # maximum size of a model file, in bytes
_MOST_NOISE = 10.0
_AGAIN = "retrain it from its own observations with train --update"


@dataclass(frozen=True)
class OperatorModel:
    """Model of one operator.

    ``templates`` has the kernel templates of the training data, with the version that each had. ``noise`` is the
    standard deviation of log time that the spread of the members does not explain.
    """

    operator: str
    boosted: BoostedModel
    noise: float
    templates: tuple[tuple[str, str], ...]
    held_out: tuple[HeldOut, ...]
    observations: tuple[Observations, ...]

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of the GPUs of the training data."""
        return tuple(sorted({one.device.name for one in self.observations}))

    @property
    def rows(self) -> int:
        """Number of observations of the training data."""
        return sum(map(len, self.observations))

    def predict(self, table: FeatureTable) -> FloatArray:
        """Return the predicted log seconds of each row, [n].

        Raises:
            ModelMismatch: The number of features differs from the model's.
        """
        return self.boosted.predict(self._aligned(table))

    def deviation(self, table: FeatureTable) -> FloatArray:
        """Return the standard deviation of the error of ``predict``, [n], within one problem.

        Raises:
            ModelMismatch: The number of features differs from the model's.
        """
        deviation: FloatArray = np.sqrt(self.boosted.spread(self._aligned(table)) ** 2 + self.noise**2)
        return deviation

    def contributions(self, table: FeatureTable) -> FloatArray:
        """Return the contributions of features, like ``BoostedModel.contributions``."""
        return self.boosted.contributions(self._aligned(table))

    def _aligned(self, table: FeatureTable) -> Any:
        try:
            return align(table, self.boosted.names)
        except FeatureMismatch as error:
            raise ModelMismatch(f"the model does not match the features: {error}") from error

    def to_json(self) -> dict[str, Any]:
        """Return the model as JSON."""
        return {
            "operator": self.operator,
            "rows": self.rows,
            "devices": list(self.devices),
            "templates": dict(self.templates),
            "noise": self.noise,
            "held_out": [figures.to_json() for figures in self.held_out],
            "observations": [one.to_json() for one in self.observations],
            "boosted": self.boosted.to_json(),
        }

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Return the model whose ``to_json()`` was ``data``.

        Raises:
            ValueError: The data are malformed. The message is one line.
        """
        if not isinstance(data, Mapping):
            raise ValueError("the model of an operator must be a JSON object")
        operator, noise, templates = data.get("operator"), data.get("noise"), data.get("templates")
        if not isinstance(operator, str):
            raise ValueError("an operator has no name")
        if isinstance(noise, bool) or not isinstance(noise, (int, float)) or not 0 <= noise <= _MOST_NOISE:
            raise ValueError(f"the noise of {operator}'s model must be a standard deviation from 0 to {_MOST_NOISE:g}")
        if not isinstance(templates, Mapping) or not all(isinstance(v, str) for v in templates.values()):
            raise ValueError(f"the templates of {operator}'s model must be an object of names and versions")
        lists = {name: data.get(name) for name in ("held_out", "observations")}
        if not all(isinstance(values, list) for values in lists.values()) or not lists["observations"]:
            raise ValueError("it has no observations or no held-out figures")
        boosted = data.get("boosted")
        if not isinstance(boosted, Mapping):
            raise ValueError(f"the trees of {operator} are missing")
        model = cls(
            operator=operator,
            boosted=BoostedModel.from_json(boosted),
            noise=float(noise),
            templates=tuple((str(name), version) for name, version in templates.items()),
            held_out=tuple(map(HeldOut.from_json, lists["held_out"] or ())),
            observations=tuple(map(Observations.from_json, lists["observations"] or ())),
        )
        if any(one.problem.operator != operator for one in model.observations):
            raise ValueError(f"observations in the model of {operator} belong to another operator")
        return model


@dataclass(frozen=True)
class TrainedModel:
    """One model per operator. ``provenance`` of all training times is "measured" or "estimated"."""

    operators: tuple[OperatorModel, ...]
    provenance: str
    autosched_version: str

    def __post_init__(self) -> None:
        names = [part.operator for part in self.operators]
        if not names or len(set(names)) < len(names):
            raise ValueError("a trained model needs at least one operator, and each operator only once")
        if self.provenance not in ("measured", "estimated"):
            raise ValueError(f"invalid provenance {self.provenance!r:.40}: use measured or estimated")

    @property
    def observations(self) -> tuple[Observations, ...]:
        """Training data of all operators."""
        return tuple(one for part in self.operators for one in part.observations)

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the model's JSON."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    def of(self, problem: Problem) -> OperatorModel:
        """Return the model for the operator of a problem.

        Raises:
            ModelMismatch: No model was trained for the operator.
        """
        for part in self.operators:
            if part.operator == problem.operator:
                return part
        known = ", ".join(part.operator for part in self.operators)
        raise ModelMismatch(
            f"the model was trained for {known}, not for {problem.operator}: train a model with times "
            "of "
            f"{problem.operator}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the model as JSON, with the version of its format."""
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "feature_version": FEATURE_VERSION,
            "autosched_version": self.autosched_version,
            "provenance": self.provenance,
            "operators": [part.to_json() for part in self.operators],
        }

    @classmethod
    def from_json(cls, data: Any, *, any_features: bool = False) -> Self:
        """Validate ``data``, a result of ``to_json()``, and return the model.

        Args:
            data: JSON values.
            any_features: If True, accept a model with features of another version, in order to retrain it.

        Raises:
            ModelMismatch: The data cannot be used. The message is one line.
        """
        _refuse_other_format(data)
        if not any_features and data.get("feature_version") != FEATURE_VERSION:
            raise ModelMismatch(
                f"the model was trained on features of version {data.get('feature_version')!r:.20}, and this autosched "
                f"computes version {FEATURE_VERSION}: {_AGAIN}"
            )
        parts, version = data.get("operators"), data.get("autosched_version")
        try:
            if not isinstance(parts, list) or not isinstance(version, str):
                raise ValueError("the list of operators is missing")
            return cls(tuple(map(OperatorModel.from_json, parts)), str(data.get("provenance")), version)
        except ValueError as error:
            why = " ".join(str(error).split())
            raise ModelMismatch(f"the file is damaged ({why}): train the model again") from error

    def save(self, path: str | Path) -> None:
        """Write the model to a JSON file atomically.

        Raises:
            OSError: The file cannot be written.
        """
        target = Path(path)
        temporary = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            temporary.write_text(json.dumps(self.to_json(), separators=(",", ":")) + "\n", encoding="utf-8")
            temporary.replace(target)
        except OSError as error:
            error.filename = str(target)  # the error should name the target file, not the temporary file
            raise
        finally:
            temporary.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | Path, *, any_features: bool = False) -> Self:
        """Read a model file.

        Args:
            path: Path of the file.
            any_features: See ``from_json``.

        Raises:
            ModelMismatch: The model cannot be used. The message names the file.
            OSError: The file cannot be read.
        """
        file = Path(path)
        try:
            if file.is_fifo():
                raise ModelMismatch("the path is a pipe: use a regular file")
            with file.open("rb") as opened:
                # read a limited size, because a device file has no size and may be endless
                content = opened.read(MOST_BYTES + 1)
            if len(content) > MOST_BYTES:
                raise ModelMismatch(f"the file has more than {MOST_BYTES:,} bytes")
            return cls.from_json(json.loads(content), any_features=any_features)
        except ModelMismatch as error:
            raise ModelMismatch(f"the cost model {path} cannot be used: {error}") from error
        except (ValueError, RecursionError) as error:
            raise ModelMismatch(f"the cost model {path} cannot be used: the file is not JSON") from error


def _refuse_other_format(data: Any) -> None:
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        raise ModelMismatch("the file is not a cost model of autosched: create a model with autosched train")
    if data.get("format_version") != FORMAT_VERSION:
        raise ModelMismatch(
            f"the file has format version {data.get('format_version')!r:.20}, but this autosched reads version "
            f"{FORMAT_VERSION}: train the model again"
        )
