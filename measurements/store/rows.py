"""Convert trials to rows of the database, and back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from measurements.files.text import harmless, printable
from measurements.store.schema import TRIALS, digest_of, unreadable
from measurements.trials.facts import ProblemFacts
from measurements.trials.measurement import MachineCode, Measurement, Provenance, Resources, Status, Timing
from measurements.trials.runner_info import RunnerInfo
from measurements.trials.trial import MOST_LEVELS, Budget, Control, Trial, canonical_json, refuse_deep
from search_spaces.spaces.parameters import Value
from search_spaces.spaces.schedule import Schedule

_RESOURCES = tuple(Resources.__dataclass_fields__)
_CODE = tuple(MachineCode.__dataclass_fields__)
_TIMES = ("median", "p25", "p75", "repeats")
_SHOWN = 60  # maximum characters of an unreadable cell in messages
_SHARED = (  # columns with the same value in most trials of a problem
    *("problem", "device", "fingerprint", "template", "template_version", "space_version", "provenance", "status"),
    *("reason", "toolchain", "driver", "autosched_version", "sampler", "seed", "budget"),
)
_OWN = (
    *("id", "kernel_digest", "schedule", *_TIMES, "error", "compile_seconds", "clock_mhz", "created", "final_rank"),
    *("verification", "control", "watts", "facts", *_RESOURCES, *_CODE),
)
COLUMNS = tuple(TRIALS.c[name] for name in (*_SHARED, *_OWN))  # columns needed to read a trial
_Part = TypeVar("_Part")


def to_row(trial: Trial) -> dict[str, Any]:
    """Return the values of a trial by column, without its id."""
    m = trial.measurement
    timing, resources, schedule_key = m.timing, m.resources, trial.schedule.key()
    return {
        "operator": trial.operator,
        "problem": trial.problem_key,
        "device": trial.device,
        "fingerprint": trial.fingerprint,
        "template": trial.schedule.template,
        "template_version": trial.template_version,
        "space_version": trial.space_version,
        "kernel_digest": trial.kernel_digest,
        "schedule": json.dumps(trial.schedule.to_json(), separators=(",", ":")),
        "schedule_key": schedule_key,
        "provenance": m.provenance.value,
        "status": m.status.value,
        "reason": m.reason,
        "median": None if timing is None else timing.median,
        "p25": None if timing is None else timing.p25,
        "p75": None if timing is None else timing.p75,
        "repeats": None if timing is None else timing.count,
        "error": m.error,
        **{name: None if resources is None else getattr(resources, name) for name in _RESOURCES},
        "compile_seconds": m.compile_seconds,
        "clock_mhz": m.clock_mhz,
        "watts": m.watts,
        "toolchain": trial.toolchain,
        "driver": trial.driver,
        "autosched_version": trial.autosched_version,
        "created": trial.created.isoformat(timespec="microseconds"),
        "sampler": trial.sampler,
        "seed": trial.seed,
        "final_rank": trial.rank,
        **{name: None if m.code is None else getattr(m.code, name) for name in _CODE},
        "budget": None if trial.budget is None else canonical_json(dataclasses.asdict(trial.budget)),
        "verification": trial.verification,
        "control": None if trial.control is None else canonical_json(dataclasses.asdict(trial.control)),
        "facts": None if trial.facts is None else canonical_json(dataclasses.asdict(trial.facts)),
        "policy": trial.policy,
        "problem_digest": digest_of(trial.problem_key),
        "schedule_digest": digest_of(schedule_key),
    }


_DISTINGUISHING = (
    *("problem_digest", "device", "provenance", "schedule_digest", "kernel_digest", "created", "status", "median"),
    "final_rank",
)


def unknown(connection: Connection, rows: Sequence[dict[str, Any]], since: int) -> list[dict[str, Any]]:
    """Return ``rows``, but omit each row that equals a stored trial whose id is above ``since``."""
    columns = [TRIALS.c[name] for name in _DISTINGUISHING]
    stored = set(map(tuple, connection.execute(sa.select(*columns).where(TRIALS.c.id > since))))
    return [row for row in rows if tuple(row[name] for name in _DISTINGUISHING) not in stored]


def from_row(row: Mapping[Any, Any], database: str) -> Trial:
    """Convert a row with the columns COLUMNS to a trial. ``database`` names the database in messages.

    Raises a StoreError that names the trial and the invalid cell.
    """
    cells = read_cells(row, COLUMNS, database)
    timed = cells["median"] is not None
    try:
        return Trial(
            problem_key=cells["problem"],
            schedule=Schedule.from_json(cells["template"], cells["schedule"]),
            device=cells["device"],
            fingerprint=cells["fingerprint"],
            template_version=cells["template_version"],
            space_version=cells["space_version"],
            kernel_digest=cells["kernel_digest"],
            measurement=Measurement(
                status=cells["status"],
                provenance=cells["provenance"],
                reason=cells["reason"],
                timing=Timing(cells["median"], cells["p25"], cells["p75"], cells["repeats"]) if timed else None,
                error=cells["error"],
                resources=_whole(Resources, cells, _RESOURCES),
                compile_seconds=cells["compile_seconds"],
                clock_mhz=cells["clock_mhz"],
                code=_whole(MachineCode, cells, _CODE),
                watts=cells["watts"],
            ),
            toolchain=cells["toolchain"],
            driver=cells["driver"],
            autosched_version=cells["autosched_version"],
            created=cells["created"],
            sampler=cells["sampler"],
            seed=cells["seed"],
            rank=cells["final_rank"],
            budget=cells["budget"],
            verification=cells["verification"],
            control=cells["control"],
            facts=cells["facts"],
            id=cells["id"],
        )
    except (
        ValueError,
        TypeError,
    ) as error:  # for example a median without quartiles
        raise unreadable(database, cells["id"], str(error)) from error


def _whole(kind: type[_Part], cells: Mapping[str, Any], names: Sequence[str]) -> _Part | None:
    """Combine cells into an object of class ``kind``; None if all are empty. Raises ValueError if only some are."""
    cells_present = {name: cells[name] for name in names if cells[name] is not None}
    if cells_present and len(cells_present) != len(names):
        raise ValueError(f"the {kind.__name__} of the trial is incomplete: only {', '.join(cells_present)}")
    return kind(**cells_present) if cells_present else None


def read_cells(row: Mapping[Any, Any], columns: Iterable[sa.Column[Any]], database: str) -> dict[str, Any]:
    """Return the cells of ``columns``, after checking their types, which SQLite does not check.

    Raises StoreError that names the trial and the cell, if a value has a type or range that autosched never stores.
    """
    cells = {}
    for column in columns:
        key = str(column.key)
        try:
            cells[key] = _read(column, row[key])
        except (ValueError, TypeError, RecursionError, OverflowError) as error:
            shown = repr(row[key])
            shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
            raise unreadable(database, row["id"], f"{key} is {shown}") from error
    if cells.get("status") is Status.OK:
        missing = [key for key in _TIMES if key in cells and cells[key] is None]
        if missing:
            raise unreadable(database, row["id"], f"the status is ok, but the trial has no {' and no '.join(missing)}")
    return cells


def _read(column: sa.Column[Any], value: Any) -> Any:
    if value is None and column.nullable:
        return None
    kind = column.type.python_type
    if not isinstance(value, (int, float) if kind is float else kind):
        raise TypeError
    return _READERS.get(column.key, _as_it_is)(value)


def _as_it_is(value: Any) -> Any:
    return value


def _json_object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if text.count("{") + text.count("[") > MOST_LEVELS:
        refuse_deep(value)
    if not isinstance(value, dict):
        raise TypeError
    return value


def _in_utc(when: datetime) -> datetime:
    if when.tzinfo is None:
        raise ValueError
    return when.astimezone(UTC)


def _checked_object(text: str) -> str:
    _json_object(text)
    return text


def _checked_fingerprint(text: str) -> str:
    _json_object(text)
    _ = RunnerInfo.of(text).policy
    return text


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "problem": _checked_object,
    "fingerprint": _checked_fingerprint,
    "schedule": _json_object,
    "device": printable,
    "provenance": Provenance,
    "status": Status,
    "budget": lambda text: Budget.from_json(_json_object(text)),
    "verification": _checked_object,
    "control": lambda text: Control.from_json(_json_object(text)),
    "facts": lambda text: ProblemFacts.from_json(_json_object(text)),
    "reason": harmless,
    "created": lambda text: _in_utc(datetime.fromisoformat(text)),
}


class RowReader:
    """Reader of many rows.

    Rows are converted as by ``from_row``, but values that many trials share are parsed only once.

    A problem may have 96,000 trials. These trials differ in schedule, times and digests, but share almost all other
    values. ``name`` names the database in messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        # the first trial for each combination of shared cells; later trials reuse its parsed values
        self._first: dict[tuple[Any, ...], Trial] = {}
        self._kinds: set[tuple[Any, ...]] = set()  # combinations of status and cell types that were checked before
        self._pairs: dict[tuple[str, Value], tuple[str, Value]] = {}

    def trial(self, row: sa.Row[Any]) -> Trial:
        """Convert a row to a trial. Raises StoreError as ``from_row`` does."""
        shared, own = row[: len(_SHARED)], row[len(_SHARED) :]
        first = self._first.get(shared)
        if first is not None:
            kinds = (first.status, *map(type, own))
            if kinds in self._kinds:
                with suppress(ValueError, TypeError, RecursionError, OverflowError):
                    return self._like(first, own)
        trial = from_row(row._mapping, self._name)
        first = self._first.setdefault(shared, trial)
        self._kinds.add((first.status, *map(type, own)))
        return trial

    def _like(self, first: Trial, own: tuple[Any, ...]) -> Trial:
        (
            row,
            digest,
            schedule,
            median,
            p25,
            p75,
            repeats,
            error,
            compiled,
            clock,
            created,
            rank,
            verification,
            *more,
        ) = own
        control, watts, facts, *sizes = more
        resources, code = sizes[: len(_RESOURCES)], sizes[len(_RESOURCES) :]
        if verification is not None:
            _json_object(verification)
        return Trial(
            problem_key=first.problem_key,
            schedule=self._schedule(first.schedule.template, schedule),
            device=first.device,
            fingerprint=first.fingerprint,
            template_version=first.template_version,
            space_version=first.space_version,
            kernel_digest=digest,
            measurement=Measurement(
                status=first.status,
                provenance=first.provenance,
                reason=first.measurement.reason,
                timing=None if median is None else Timing(median, p25, p75, repeats),
                error=error,
                resources=None if resources[0] is None else Resources(*resources),
                compile_seconds=compiled,
                clock_mhz=clock,
                code=None if code[0] is None else MachineCode(*code),
                watts=watts,
            ),
            toolchain=first.toolchain,
            driver=first.driver,
            autosched_version=first.autosched_version,
            created=_in_utc(datetime.fromisoformat(created)),
            sampler=first.sampler,
            seed=first.seed,
            rank=rank,
            budget=first.budget,
            verification=verification,
            control=None if control is None else Control.from_json(_json_object(control)),
            facts=None if facts is None else ProblemFacts.from_json(_json_object(facts)),
            id=row,
        )

    def _schedule(self, template: str, text: str) -> Schedule:
        schedule = Schedule.from_json(template, _json_object(text))
        return Schedule(template, tuple(self._pairs.setdefault(pair, pair) for pair in schedule.items))
