"""A trial: one schedule of a problem on a device, with its measurement, versions and verification.

The fields of a trial are text and numbers, so a trial can be listed even if this version does not know its operator.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from measurements.files.text import printable
from measurements.trials.facts import ProblemFacts
from measurements.trials.measurement import MachineCode, Measurement, Provenance, Resources, Status, Timing
from measurements.trials.policy import NONE
from measurements.trials.problem_key import operator_of, problem_of
from measurements.trials.runner_info import RunnerInfo
from search_spaces.operators.problem import Problem
from search_spaces.short_repr import short_repr
from search_spaces.spaces.schedule import Schedule

_NAMES = ("device", "template_version", "space_version", "toolchain", "driver", "autosched_version", "sampler")
_Kinds = type | tuple[type, ...]
# "library": the vendor's library, if it computes the problem; "copy": otherwise, a plain copy of the operands
CONTROLS = ("library", "copy")


@dataclass(frozen=True)
class Budget:
    """Limits of the tuning run that stored a trial: number of trials, and seconds of search (None for no limit).

    The limits show how thorough the search was. Raises ValueError if a limit is invalid.
    """

    trials: int
    seconds: float | None = None

    def __post_init__(self) -> None:
        if type(self.trials) is not int or self.trials < 1:
            raise ValueError(f"a budget needs at least one trial, got {self.trials!r}")
        if self.seconds is not None and not (isinstance(self.seconds, (int, float)) and 0 <= self.seconds < math.inf):
            raise ValueError(f"the seconds of a budget must be a number of at least 0, not {self.seconds!r}")

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read a budget from JSON. Raises ValueError if a field is unknown or missing."""
        if set(data) != {"trials", "seconds"}:
            raise ValueError(
                f"a budget has the fields trials and seconds, not {', '.join(map(str, data)) or 'nothing'}"
            )
        return cls(**data)


@dataclass(frozen=True)
class Control:
    """Time of a program without a schedule, measured in alternation with the trial's kernel.

    ``name`` is "library" for the vendor's library, with its ``version``, or "copy" for a plain copy of the operands.

    Raises:
        ValueError: The name or the time is invalid.
    """

    name: str
    timing: Timing
    version: str = ""

    def __post_init__(self) -> None:
        if self.name not in CONTROLS:
            raise ValueError(f"the name of a control must be one of {', '.join(CONTROLS)}, not {self.name!r:.60}")
        printable(self.version)
        _check_times(self.timing)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read a control from JSON. Raises ValueError if a field is unknown or missing."""
        if not isinstance(data, Mapping) or set(data) != {"name", "timing", "version"}:
            raise ValueError("a control has the fields name, timing and version")
        try:
            _check(data, {"name": str, "timing": dict, "version": str})
            _check(data["timing"], _TIMING)
            return cls(data["name"], Timing(**data["timing"]), data["version"])
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"invalid control: {type(error).__name__} {error}") from error


def _check_times(timing: Timing) -> None:
    seconds = (timing.median, timing.p25, timing.p75)
    if not all(0 < s < math.inf for s in seconds):
        raise ValueError(f"a time must be a positive finite number of seconds, got {seconds}")
    if not timing.p25 <= timing.median <= timing.p75:
        raise ValueError(f"a median must lie between its quartiles, got p25, median, p75 = {seconds}")


@dataclass(frozen=True)
class Trial:
    """One tried schedule, with its problem, device, versions and result.

    Attributes:
        problem_key: ``Problem.key()``, canonical JSON.
        schedule: The schedule.
        device: Name of the device, which look-ups compare exactly.
        fingerprint: JSON text with everything known about the device and the timing.
        template_version: Version of the schedule's kernel template; "" in trials older than templates.
        space_version: Version of the template's space.
        kernel_digest: Digest of the kernel; None if no source could be generated.
        measurement: Result of the trial. An error of NaN is stored as infinity.
        toolchain: Compiler and version, such as "nvrtc 13.0.88"; "" if there is none.
        driver: Version of the driver, such as "580.65"; "" if there is none.
        autosched_version: Version of autosched that stored the trial.
        created: Time of the trial, in UTC.
        sampler: Source of the schedule: a sampler, or nvMatmulHeuristics.
        seed: Random seed of the search.
        rank: Rank in a paired re-measurement, 1 for the winner; None for other trials.
        budget: Limits of the tuning run.
        verification: Canonical JSON text on the kernel's verification; None in trials older than this field.
        control: A program timed next to the winner of a re-measurement, to distinguish a changed machine from a changed
            kernel.
        facts: Facts about a problem of a user's kernel file.
        id: Id of the row; None before the trial is stored.

    Raises:
        ValueError: A name cannot be printed, a time is not a positive finite number, or ``created`` has no time zone.
    """

    problem_key: str
    schedule: Schedule
    device: str
    fingerprint: str
    template_version: str
    space_version: str
    kernel_digest: str | None
    measurement: Measurement
    toolchain: str
    driver: str
    autosched_version: str
    created: datetime
    sampler: str
    seed: int
    rank: int | None = None
    budget: Budget | None = None
    verification: str | None = None
    control: Control | None = None
    facts: ProblemFacts | None = None
    id: int | None = None

    __repr__ = short_repr

    def __str__(self) -> str:
        """Describe time, provenance and schedule in one line."""
        time = self.status.value if self.seconds is None else f"{self.seconds * 1e6:.4g} us ({self.provenance.value})"
        return f"{time} by {self.schedule.key()}"

    def __post_init__(self) -> None:
        m = self.measurement
        timing, error = m.timing, m.error
        for other in (m.compile_seconds, m.clock_mhz, m.watts):
            if other is not None and not math.isfinite(other):
                raise ValueError(f"durations, clock rates and powers must be finite numbers, not {other}")
        if timing is not None:
            _check_times(timing)
        for field in _NAMES:
            try:
                printable(getattr(self, field))
            except ValueError as problem:
                raise ValueError(f"{field} {problem}") from None
        for parameter, value in (("template", self.schedule.template), *self.schedule.items):
            printable(parameter)
            if isinstance(value, str):
                printable(value)
        if self.created.tzinfo is None:
            raise ValueError(f"created must have a time zone, got {self.created.isoformat()}: use datetime.now(UTC)")
        object.__setattr__(self, "created", self.created.astimezone(UTC))
        if error is not None and math.isnan(error):
            object.__setattr__(self, "measurement", dataclasses.replace(self.measurement, error=math.inf))

    @property
    def problem(self) -> Problem:
        """The problem. Raises ValueError if this version does not know its operator or format."""
        return problem_of(self.problem_key)

    @property
    def operator(self) -> str:
        """Name of the problem's operator; "" if the problem has the format of another version."""
        return operator_of(self.problem_key)

    @property
    def runner_info(self) -> RunnerInfo:
        """Runner's description of the machine and of the timing."""
        return RunnerInfo.of(self.fingerprint)

    @property
    def policy(self) -> str:
        """Text of the timing policy (``Policy``); NONE for times that were not measured.

        Raises ValueError if the fingerprint has no valid policy.
        """
        return str(self.runner_info.policy) if self.provenance is Provenance.MEASURED else NONE

    @property
    def status(self) -> Status:
        """Status of the measurement."""
        return self.measurement.status

    @property
    def provenance(self) -> Provenance:
        """Provenance of the time."""
        return self.measurement.provenance

    @property
    def ok(self) -> bool:
        """True if the trial has a time."""
        return self.measurement.ok

    @property
    def seconds(self) -> float | None:
        """Median time in seconds; None if the trial failed."""
        return None if self.measurement.timing is None else self.measurement.timing.median

    def to_json(self) -> dict[str, Any]:
        """Return all fields as JSON values. An infinite ``error`` is the string "inf", because JSON has no infinity."""
        m = self.measurement
        return {
            "id": self.id,
            "problem": json.loads(self.problem_key),
            "template": self.schedule.template,
            "template_version": self.template_version,
            "schedule": self.schedule.to_json(),
            "device": self.device,
            "fingerprint": json.loads(self.fingerprint),
            "space_version": self.space_version,
            "kernel_digest": self.kernel_digest,
            "provenance": m.provenance.value,
            "status": m.status.value,
            "reason": m.reason,
            "timing": None if m.timing is None else dataclasses.asdict(m.timing),
            "error": m.error if m.error is None or math.isfinite(m.error) else "inf",
            "resources": None if m.resources is None else dataclasses.asdict(m.resources),
            "compile_seconds": m.compile_seconds,
            "clock_mhz": m.clock_mhz,
            "watts": m.watts,
            "rank": self.rank,
            "toolchain": self.toolchain,
            "driver": self.driver,
            "autosched_version": self.autosched_version,
            "created": self.created.isoformat(),
            "sampler": self.sampler,
            "seed": self.seed,
            "code": None if m.code is None else dataclasses.asdict(m.code),
            "budget": None if self.budget is None else dataclasses.asdict(self.budget),
            "verification": None if self.verification is None else json.loads(self.verification),
            "control": None if self.control is None else dataclasses.asdict(self.control),
            "facts": None if self.facts is None else dataclasses.asdict(self.facts),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read a trial from a result of ``to_json``.

        ``code``, ``budget``, ``verification``, ``control``, ``watts`` and ``facts`` may be missing.

        Raises:
            ValueError: A field is missing or malformed.
        """
        if not isinstance(data, Mapping):
            raise ValueError(f"invalid JSON of a trial: {data!r:.60}")
        data = {**dict.fromkeys(_MAY_BE_MISSING), **data}
        try:
            _check(data, _KINDS)
            # raises ValueError for an unpaired surrogate, which databases cannot store
            json.dumps(data["problem"], ensure_ascii=False).encode()
            for part, kinds in (("timing", _TIMING), ("resources", _RESOURCES), ("code", _CODE)):
                if data[part] is not None:
                    _check(data[part], kinds)
            return cls(
                problem_key=canonical_json(data["problem"]),
                schedule=Schedule.from_json(data["template"], data["schedule"]),
                device=data["device"],
                fingerprint=canonical_json(data["fingerprint"]),
                template_version=data["template_version"],
                space_version=data["space_version"],
                kernel_digest=data["kernel_digest"],
                measurement=Measurement(
                    status=Status(data["status"]),
                    provenance=Provenance(data["provenance"]),
                    reason=data["reason"],
                    timing=None if data["timing"] is None else Timing(**data["timing"]),
                    error=None if data["error"] is None else float(data["error"]),
                    resources=None if data["resources"] is None else Resources(**data["resources"]),
                    compile_seconds=data["compile_seconds"],
                    clock_mhz=data["clock_mhz"],
                    watts=data["watts"],
                    code=None if data["code"] is None else MachineCode(**data["code"]),
                ),
                toolchain=data["toolchain"],
                driver=data["driver"],
                autosched_version=data["autosched_version"],
                created=datetime.fromisoformat(data["created"]),
                sampler=data["sampler"],
                seed=data["seed"],
                rank=data["rank"],
                budget=None if data["budget"] is None else Budget.from_json(data["budget"]),
                verification=None if data["verification"] is None else canonical_json(data["verification"]),
                control=None if data["control"] is None else Control.from_json(data["control"]),
                facts=None if data["facts"] is None else ProblemFacts.from_json(data["facts"]),
                id=data.get("id"),
            )
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"invalid JSON of a trial: {type(error).__name__} {error}") from error


MOST_LEVELS = 40  # maximum nesting of objects and lists in a trial

_NUMBER = (int, float)
_MAYBE_NUMBER = (int, float, type(None))
_TIMING: Mapping[str, _Kinds] = {"median": _NUMBER, "p25": _NUMBER, "p75": _NUMBER, "count": int}
_RESOURCES: Mapping[str, _Kinds] = {field.name: int for field in dataclasses.fields(Resources)}
_CODE: Mapping[str, _Kinds] = {"cubin_digest": str, "sass_digest": str, "sass_bytes": int}
_MAY_BE_MISSING = ("code", "budget", "verification", "control", "watts", "facts")  # older recordings lack this field
_KINDS: Mapping[str, _Kinds] = {
    **dict.fromkeys(("problem", "schedule", "fingerprint"), dict),
    **dict.fromkeys(("template", "template_version", "device", "space_version", "provenance", "status"), str),
    **dict.fromkeys(("reason", "toolchain", "driver", "autosched_version", "created", "sampler"), str),
    **dict.fromkeys(("compile_seconds", "clock_mhz"), _MAYBE_NUMBER),
    **dict.fromkeys(("timing", "resources", *_MAY_BE_MISSING), (dict, type(None))),
    "watts": _MAYBE_NUMBER,
    "kernel_digest": (str, type(None)),
    "error": (*_MAYBE_NUMBER, str),
    "rank": (int, type(None)),
    "seed": int,
}


def _check(data: Mapping[str, Any], kinds: Mapping[str, _Kinds]) -> None:
    """Raise KeyError, TypeError, OverflowError or ValueError if a database could not store a value."""
    for name, kind in kinds.items():
        value = data[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise TypeError(f"{name} is {value!r:.60}")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise OverflowError(f"{name} is too large")
        if isinstance(value, str):
            value.encode()  # raises ValueError for an unpaired surrogate, which databases cannot store


def refuse_deep(value: Any) -> None:
    """Raise an error for JSON that is nested too deeply for recursive functions.

    Raises:
        ValueError: The value is nested more than ``MOST_LEVELS`` deep.
    """
    level = [value]
    for _ in range(MOST_LEVELS):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise ValueError(f"the data are nested more than {MOST_LEVELS} deep")


def canonical_json(value: Any) -> str:
    """Return the canonical JSON text of a value, as in ``Problem.key()``. Equal values have equal texts.

    Raises:
        ValueError: The value is nested more than ``MOST_LEVELS`` deep.
    """
    refuse_deep(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
