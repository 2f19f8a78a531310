"""Options of a search, as one immutable object that is validated on construction."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from autosched.samplers import DEFAULT, MODEL, check
from autosched.tuning.backends.options import BackendOptions
from autosched.tuning.effort import effort
from autosched.tuning.objectives import Objectives
from autosched.tuning.plan import TRIALS, VERIFICATION_SECONDS, SearchPlan
from autosched.tuning.result import Observer
from autosched.tuning.trial_table import Direction
from measurements.files.data_folder import default_database
from measurements.trials.trial import Trial
from search_spaces.gathered import gathered
from search_spaces.launches.control_file import ControlFile
from search_spaces.operators.problem import whole_number
from search_spaces.short_repr import short_repr
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.sum_order import SumOrder

MODEL_TRIALS = 48  # default number of trials if a search directly minimizes the time model
# default of min_gain if a search directly minimizes the time model: smaller differences of estimates are meaningless
MODEL_GAIN = 1e-3


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Options that searches of generated kernels and of Triton kernels share.

    Attributes:
        trials: Number of further schedules to try. Default: 64.
        database: Path or SQLAlchemy URL. Default: AUTOSCHED_DB, else ``autosched/best.db`` in the user's data folder.
        sampler: Name of the sampler. Default: "bayes".
        seed: Random seed.
        workers: Number of compilers. Default: one per core.
        verify: If True, each new best schedule is verified in the emulator before it is accepted, and the final best is
            verified in full. Applies to backends that do not run kernels on a GPU.
        progress: Observer to which every trial is reported. True reports to stderr: on a terminal or in a notebook, one
            line is redrawn; elsewhere, a new line is printed every 10 seconds. False or None shows nothing.
        seconds: Time limit of the search in seconds. Trials in flight are completed. The final paired timing or
            verification takes additional time. Default: no limit.
        verification_seconds: Time limit of the full verification, in seconds; 0 skips it. Default:
            VERIFICATION_SECONDS.

    Raises:
        ValueError: An option is invalid.
    """

    trials: int | None = None
    database: str | Path | None = None
    sampler: str | None = None
    seed: int = 0
    workers: int | None = None
    verify: bool = True
    progress: Observer | bool | None = None
    seconds: float | None = None
    verification_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.trials is not None:
            object.__setattr__(self, "trials", whole_number("trials", self.trials, 1))
        if self.seconds is not None and (not _is_number(self.seconds) or not 0 < self.seconds < math.inf):
            raise ValueError(f"seconds (time limit of the search) must be more than 0, got {self.seconds!r}")
        if self.verification_seconds is not None and (
            not _is_number(self.verification_seconds) or not self.verification_seconds >= 0
        ):
            raise ValueError(f"verification_seconds must be at least 0, got {self.verification_seconds!r}")
        check(DEFAULT if self.sampler is None else self.sampler, self.seed)
        observer = self.progress
        known = observer is None or isinstance(observer, bool | Observer)
        if isinstance(observer, type) or not known:
            raise ValueError(
                f"invalid progress {observer!r}: use True, None, or an object with the methods started and trial"
            )

    @property
    def database_or_default(self) -> str | Path:
        """Path or URL of the database."""
        return default_database() if self.database is None else self.database

    def plan(self) -> SearchPlan:
        """Return the limits of the search."""
        return SearchPlan(
            trials=TRIALS if self.trials is None else self.trials,
            sampler=self.sampler or DEFAULT,
            seconds=math.inf if self.seconds is None else self.seconds,
            verification_seconds=VERIFICATION_SECONDS
            if self.verification_seconds is None
            else self.verification_seconds,
        )


@dataclass(frozen=True, kw_only=True)
class TuneOptions(BackendOptions, SearchOptions):
    """Options of ``autosched.tune``, in addition to the options of every search and of the backend.

    If ``trials`` is omitted and a time model estimates all times (for example without a GPU), the model ranks the
    schedules before any is compiled. The schedules that the model ranks best are then compiled, until the model expects
    no other schedule to be faster.

    Attributes:
        progress: As in ``SearchOptions``. Default: True.
        model: File of ``autosched train``. Its trained model predicts which schedules to try first, and estimates times
            if there is no GPU. Default: train a model on times of other problems in the database.
        min_gain: The search ends after UNPROMISING (8) consecutive proposals, each of which is expected to shorten the
            best time by less than this fraction.
        effort: Preset of ``trials``, ``min_gain`` and ``verification_seconds``; if these options are passed, they
            override the preset. "model" tries only the schedule that the time model chooses. "quick" ends when the
            expected gain is below 2%. "full" searches much longer.
        objective: Quantity to minimise or maximise instead of the time: a column of a trial's row, or a metric of the
            problem. Examples: "registers", "GFLOP/s:max", "joules" (on a GPU). For several objectives, ``result.front``
            is the Pareto front.
        same_bits_as: Reference for the order of sums. Every schedule must sum in the same order, so that results are
            bitwise equal. The reference is a ``SumOrder``, a ``Schedule`` of this problem, a ``Trial``, or a database.
            For a database, the reference is the best trial of this problem or, if there is none, of the problem with
            another batch size. ``DB#12`` is trial 12 of DB. Default: any order.
        batch_invariant: If True, a row of the result has the same bits in every batch: the order of its sums does not
            depend on the batch size, on other rows, or on the position of the row.
        compiler_controls: If True, the last tenth of the trials tries ptxas settings on the fastest schedules: register
            caps, optimisation levels, and ``control_files``. Needs the compiler of CUDA 13.3 or newer.
        control_files: Control files of ptxas to try; implies ``compiler_controls``.

    Raises:
        ValueError: An option is invalid.
    """

    progress: Observer | bool | None = True
    model: str | Path | None = None
    min_gain: float | None = None
    effort: str | None = None
    objective: str | Sequence[str] | Mapping[str, Direction] | None = None
    same_bits_as: SumOrder | Schedule | Trial | str | Path | None = None
    batch_invariant: bool = False
    compiler_controls: bool = False
    control_files: Sequence[str | Path] = ()

    __repr__ = short_repr

    def __post_init__(self) -> None:
        SearchOptions.__post_init__(self)
        BackendOptions.__post_init__(self)
        if self.min_gain is not None and (not _is_number(self.min_gain) or not 0 <= self.min_gain < 1):
            raise ValueError(
                f"invalid min_gain {self.min_gain!r}: use a fraction of the best time, at least 0 and below 1"
            )
        if self.effort is not None:
            effort(self.effort)
        _ = self.objectives  # raises ValueError if an objective is invalid
        if isinstance(self.control_files, (str, Path)):
            object.__setattr__(self, "control_files", (self.control_files,))
        if self.control_files:
            object.__setattr__(self, "compiler_controls", True)
        _ = self.read_control_files  # raises ValueError if a file cannot be read
        if not isinstance(self.same_bits_as, SumOrder | Schedule | Trial | str | Path | None):
            raise ValueError(f"same_bits_as must be a schedule, a trial or a database, got {self.same_bits_as!r:.60}")

    @property
    def rules_bits(self) -> bool:
        """True if the options restrict the order of sums."""
        return self.same_bits_as is not None or self.batch_invariant

    @classmethod
    def gathered(cls, options: Self | None, keywords: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        """Build options from the keyword arguments of a call.

        Args:
            options: Options whose fields the keywords replace. Default: new ones.
            keywords: Keyword arguments. Names that are not fields of the options are allowed.

        Returns:
            The options, and the keyword arguments that are not fields.

        Raises:
            TypeError: ``options`` has another type.
            ValueError: An option is invalid.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        fields = {name: value for name, value in keywords.items() if name in names}
        extra = {name: value for name, value in keywords.items() if name not in names}
        return gathered(cls, "options", options, fields), extra

    @cached_property
    def read_control_files(self) -> tuple[ControlFile, ...]:
        """Read the control files. Raises ValueError if a file cannot be read."""
        return tuple(map(ControlFile.read, self.control_files))

    @cached_property
    def objectives(self) -> Objectives:
        """Objectives of the search."""
        return Objectives.of(self.objective)

    @property
    def power(self) -> bool:
        """True if the GPU's power is also measured."""
        return self.objectives.needs_power

    def plan(self, *, model_alone: bool = False) -> SearchPlan:
        """Return the limits of the search.

        Args:
            model_alone: True if a model estimates all times, so that the model itself can be searched.

        Returns:
            The limits.
        """
        plan = super().plan()
        chosen_effort = None if self.effort is None else effort(self.effort)
        trials, min_gain, verification_seconds = self.trials, self.min_gain, self.verification_seconds
        if chosen_effort is not None:
            trials = chosen_effort.trials if trials is None else trials
            min_gain = chosen_effort.min_gain if min_gain is None else min_gain
            verification_seconds = (
                chosen_effort.verification_seconds if verification_seconds is None else verification_seconds
            )
        unplanned = self.trials is None and self.sampler is None and self.effort in (None, "quick")
        if unplanned and model_alone and self.objectives.is_time:
            plan = dataclasses.replace(plan, trials=MODEL_TRIALS, min_gain=MODEL_GAIN, sampler=MODEL, search_model=True)
        return dataclasses.replace(
            plan,
            trials=plan.trials if trials is None else trials,
            min_gain=plan.min_gain if min_gain is None else min_gain,
            verification_seconds=plan.verification_seconds if verification_seconds is None else verification_seconds,
            model_first=chosen_effort is not None and chosen_effort.model_first and not plan.search_model,
        )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
