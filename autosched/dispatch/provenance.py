"""Provenance of a kernel: the trial or model that selected it, and warnings such as stale times."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from measurements.trials.problem_key import fields_of
from search_spaces.short_repr import short_repr
from search_spaces.spaces.schedule import Schedule


class NoSchedule(LookupError):
    """No kernel can be used for this problem on this device. The message is one sentence with the remedy."""


class Kind(StrEnum):
    """The reason why a kernel was chosen."""

    EXACT = "exact"  # tuned for exactly this problem and device
    NEAREST = "nearest"  # tuned for another size, or for another device of the same family
    MODEL = "model"  # chosen by the time model, because no tuned kernel could be used
    LIBRARY = "library"  # the vendor's library was the fastest when the problem was tuned


@dataclass(frozen=True)
class Origin:
    """The trial from which a kernel's schedule was taken.

    ``database`` is the database that contains the trial, or autosched's recordings. ``time`` is the provenance of
    ``seconds``: measured, replayed or estimated. ``created`` is in ISO 8601. ``trial`` is the trial's id in the
    database, for display only: problem, device and schedule identify a trial.
    """

    database: str
    trial: int | None
    problem: str
    device: str
    time: str
    seconds: float
    created: str
    autosched_version: str
    toolchain: str
    driver: str


@dataclass(frozen=True)
class KernelProvenance:
    """Source of a kernel.

    Attributes:
        kind: Why the kernel was chosen.
        problem: The requested problem.
        device: The requested device.
        database: The user's database; "" if there is none. ``origin.database`` contains the trial.
        schedule: Schedule of the kernel.
        origin: Trial of the schedule; None if the model chose the kernel.
        distance: Distance between the requested and the recorded problem, in doublings (``problem_distance``). If the
            model chose the kernel, ``distance`` and ``differences`` refer to the nearest trial.
        differences: Requested and recorded values that differ.
        stale: Changes since the trial was timed.
        refused: Reasons why better or nearer trials were skipped.
        predicted_seconds: Predicted time of this kernel; None if not computed.
        default_seconds: Predicted time of the model's choice; None if not computed.
    """

    kind: Kind
    problem: str
    device: str
    database: str
    schedule: Schedule
    origin: Origin | None = None
    distance: float = 0.0
    differences: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    predicted_seconds: float | None = None
    default_seconds: float | None = None

    __repr__ = short_repr

    @property
    def tuned(self) -> bool:
        """True if exactly this problem was tuned on exactly this device."""
        return self.origin is not None and not self.differences

    @property
    def own(self) -> bool:
        """True if the kernel is ``tuned`` and its trial is in the user's database."""
        return self.tuned and self.origin is not None and self.origin.database == self.database

    @property
    def warning(self) -> str:
        """Warning for users of the kernel, in one line; "" if there is no reason for a warning."""
        fields = fields_of(self.problem)
        sizes = " ".join(f"{k}={v}" for k, v in fields.items() if type(v) is int and v != 1)
        subject = f"{fields['operator']} {sizes} on {self.device}"
        parts = []
        if not self.tuned:
            used = {
                Kind.NEAREST: "the nearest tuned schedule is used",
                Kind.LIBRARY: "the vendor's library is used, which was the fastest for the nearest tuned problem",
            }.get(self.kind, "the time model's choice is used")
            parts.append(f"{self.database or 'autosched without a database'} has no usable trial of {subject}: {used}")
            if self.differences:
                parts.append(f"nearest trial: {', '.join(self.differences)}")
        if self.refused:
            parts.append(f"not used: {'; '.join(self.refused)}")
        if self.stale:
            of = f"{subject} of {self.origin.database} " if self.tuned and self.origin is not None else ""
            parts.append(f"{of}changed since it was timed: {', '.join(self.stale)}")
        return f"{'; '.join(parts)}; tune this problem" if parts else ""

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON, for ``from_json``."""
        return {**dataclasses.asdict(self), "schedule": [self.schedule.template, self.schedule.to_json()]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the provenance that ``to_json`` has written.

        Raises KeyError, TypeError and ValueError for anything else.
        """
        template, items = data["schedule"]
        return cls(
            **{
                **data,
                "kind": Kind(data["kind"]),
                "schedule": Schedule.from_json(template, items),
                "origin": None if data["origin"] is None else Origin(**data["origin"]),
                **{name: tuple(data[name]) for name in ("differences", "stale", "refused")},
            }
        )
