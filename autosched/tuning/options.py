"""What ``tune`` may be told, checked once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from autosched.samplers import DEFAULT, check
from autosched.tuning.backends import Gpus
from autosched.tuning.objectives import Objectives
from autosched.tuning.result import Observer
from autosched.tuning.winner import winner_proof
from measurements.files.data_folder import default_database
from measurements.records.policy import Policy
from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import whole_number
from search_spaces.templates.template import KernelTemplate

TRIALS = 64  # by default: some minutes on a GPU
MODEL_TRIALS = 48  # at most, where a model makes the times and is searched itself
MODEL_GAIN = 1e-3  # default of min_gain there: models do not tell times apart that differ by less


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """What every search may be told, of our kernels and of Triton's; ``tune`` describes each. Raises ValueError for one
    that cannot be used."""

    trials: int = TRIALS
    database: str | Path | None = None
    sampler: str = DEFAULT
    seed: int = 0
    workers: int | None = None
    verify: bool = True
    progress: Observer | None = None
    seconds: float | None = None
    proof_seconds: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "trials", whole_number("trials", self.trials, 1))
        if self.seconds is not None and (not _is_number(self.seconds) or not 0 < self.seconds < math.inf):
            raise ValueError(f"seconds are what the search may take, more than 0, not {self.seconds!r}")
        if self.proof_seconds is not None and (not _is_number(self.proof_seconds) or not self.proof_seconds >= 0):
            raise ValueError(f"proof_seconds are seconds, 0 or more, not {self.proof_seconds!r}")
        check(self.sampler, self.seed)
        observer = self.progress
        if observer is not None and (isinstance(observer, type) or not isinstance(observer, Observer)):
            raise ValueError(f"progress must be an object with methods started and trial, or None, not {observer!r}")

    @property
    def database_or_default(self) -> str | Path:
        return default_database() if self.database is None else self.database

    @property
    def search_limit(self) -> float:
        """Seconds after which nothing is proposed."""
        return math.inf if self.seconds is None else self.seconds

    @property
    def proof_limit(self) -> float:
        """Seconds that the full proof of the best may take; 0 leaves it out."""
        return winner_proof.PROOF_SECONDS if self.proof_seconds is None else self.proof_seconds


@dataclass(frozen=True, kw_only=True)
class TuneOptions(SearchOptions):
    """The options of ``tune``; with ``model_first`` the time model's choice is the first trial, with ``search_model``
    the model that makes the times is searched itself."""

    device: str | Device | None = None
    backend: str = "auto"
    policy: Policy = field(default_factory=Policy)
    gpus: Gpus | None = None
    templates: Iterable[str | KernelTemplate] | None = None
    model: str | Path | None = None
    min_gain: float = 0.0
    model_first: bool = False
    search_model: bool = False
    objectives: Objectives = field(default_factory=Objectives)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _is_number(self.min_gain) or not 0 <= self.min_gain < 1:
            raise ValueError(f"min_gain is a part of the best time, from 0 to less than 1, not {self.min_gain!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
