"""The tables of a record store, how a record becomes a row and back, and whether a database is one of ours."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from measurements.measurement import MachineCode, Measurement, Provenance, Resources, Status, Timing
from measurements.record import Budget, Record, canonical_json
from search_spaces.spaces.schedule import Schedule

SCHEMA_VERSION = 5
OLDEST_SCHEMA = 2  # that ``store_migrations`` can upgrade
APPLICATION = "autosched"
SINCE = "since"  # in the info of a table or a column: the schema that brought it

_RESOURCES = tuple(Resources.__dataclass_fields__)
_CODE = tuple(MachineCode.__dataclass_fields__)
_TIMES = ("median", "p25", "p75", "repeats")
_SHOWN = 60  # characters of a cell that cannot be read

_Part = TypeVar("_Part")

_METADATA = sa.MetaData()
META = sa.Table(
    "meta",
    _METADATA,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
_WRONG = sa.text("status = 'wrong_result'")
TRIALS = sa.Table(
    "trials",
    _METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("operator", sa.Text, nullable=False),
    sa.Column("problem", sa.Text, nullable=False),  # canonical JSON, which is also the key
    sa.Column("device", sa.Text, nullable=False),
    sa.Column("fingerprint", sa.Text, nullable=False),  # JSON
    sa.Column("template", sa.Text, nullable=False, info={SINCE: 3}),
    sa.Column("template_version", sa.Text, nullable=False, info={SINCE: 3}),
    sa.Column("space_version", sa.Text, nullable=False),
    sa.Column("kernel_digest", sa.Text),
    sa.Column("schedule", sa.Text, nullable=False),  # JSON in the order of the parameters
    sa.Column("schedule_key", sa.Text, nullable=False),  # canonical JSON
    sa.Column("provenance", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("median", sa.Float(53)),  # seconds, as the quartiles
    sa.Column("p25", sa.Float(53)),
    sa.Column("p75", sa.Float(53)),
    sa.Column("repeats", sa.Integer),
    sa.Column("error", sa.Float(53)),
    *(sa.Column(name, sa.Integer) for name in _RESOURCES),
    sa.Column("compile_seconds", sa.Float(53)),
    sa.Column("clock_mhz", sa.Float(53)),
    sa.Column("toolchain", sa.Text, nullable=False),
    sa.Column("driver", sa.Text, nullable=False),
    sa.Column("autosched_version", sa.Text, nullable=False),
    sa.Column("created", sa.Text, nullable=False),  # ISO 8601, UTC
    sa.Column("sampler", sa.Text, nullable=False),
    sa.Column("seed", sa.BigInteger, nullable=False),
    sa.Column("final_rank", sa.Integer),  # in a paired re-measurement, else NULL
    sa.Column("cubin_digest", sa.Text, info={SINCE: 4}),
    sa.Column("sass_digest", sa.Text, info={SINCE: 4}),
    sa.Column("sass_bytes", sa.Integer, info={SINCE: 4}),
    sa.Column("budget", sa.Text, info={SINCE: 4}),  # JSON, as the next
    sa.Column("proof", sa.Text, info={SINCE: 4}),
    sa.Column("problem_digest", sa.String(64), nullable=False, info={SINCE: 5}),
    sa.Column("schedule_digest", sa.String(64), nullable=False, info={SINCE: 5}),
    sa.CheckConstraint("(status = 'ok') = (median IS NOT NULL)", name="time_exactly_when_ok"),
    sa.CheckConstraint("median > 0 AND p25 > 0 AND p75 > 0", name="time_is_positive"),
    sa.CheckConstraint(
        "(p25 IS NULL) = (median IS NULL) AND (p75 IS NULL) = (median IS NULL) "
        "AND (repeats IS NULL) = (median IS NULL)",
        name="time_is_whole",
    ),
    sa.Index("trials_in_order", "problem_digest", "device", "provenance", "id"),
    sa.Index("trials_by_schedule", "problem_digest", "device", "provenance", "schedule_digest"),
    sa.Index("trials_wrong", "problem_digest", sqlite_where=_WRONG, postgresql_where=_WRONG),
    sqlite_autoincrement=True,
)


ENTRIES = sa.Table(
    "entries",
    _METADATA,
    sa.Column("problem_digest", sa.String(64), primary_key=True),
    sa.Column("device", sa.Text, primary_key=True),
    sa.Column("provenance", sa.Text, primary_key=True),
    sa.Column("operator", sa.Text, nullable=False),
    sa.Column("problem", sa.Text, nullable=False),
    sa.Column("trials", sa.Integer, nullable=False),  # different schedules, as ok
    sa.Column("ok", sa.Integer, nullable=False),
    sa.Column("first_id", sa.Integer, nullable=False),
    sa.Column("newest_id", sa.Integer, nullable=False),
    sa.Column("ranked_id", sa.Integer),  # the newest trial when the winner was found
    sa.Column("winner_id", sa.Integer),
    sa.Column("median", sa.Float(53)),  # of the winner, pooled, as the next
    sa.Column("p25", sa.Float(53)),
    sa.Column("p75", sa.Float(53)),
    sa.Column("repeats", sa.Integer),
    sa.Index("entries_by_device", "device"),
    info={SINCE: 5},
)
GUARDS = sa.Table(
    "guards",
    _METADATA,
    sa.Column("problem_digest", sa.String(64), primary_key=True),
    sa.Column("device", sa.Text, primary_key=True),
    sa.Column("max_slowdown", sa.Float(53)),
    sa.Column("floor_seconds", sa.Float(53)),
    sa.Column("noise", sa.Float(53)),
    sa.Column("notes", sa.Text, nullable=False),
    info={SINCE: 4},
)


@dataclass(frozen=True)
class Guard:
    """What CI holds the best schedule of one problem on one device to, where that differs from what it is told.

    ``max_slowdown`` is the share by which it may become slower (0.03 is 3%), ``floor_seconds`` a difference that is too
    small to matter, ``noise`` the share by which unchanged runs of it were seen to differ; None says nothing. ``notes``
    are for people. Raises ValueError for a number that is negative or not finite.
    """

    max_slowdown: float | None = None
    floor_seconds: float | None = None
    noise: float | None = None
    notes: str = ""

    def __post_init__(self) -> None:
        for name in ("max_slowdown", "floor_seconds", "noise"):
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if value is not None and not (number and 0 <= value < math.inf):
                raise ValueError(f"{name} of a guard is a finite number of at least 0, not {value!r}")
        if not isinstance(self.notes, str):
            raise ValueError(f"the notes of a guard are text, not {self.notes!r}")


class StoreError(ValueError):
    """The database cannot be used. The message is one sentence that says what to do."""


def create(connection: Connection) -> None:
    """Create the tables in a database that has none of them."""
    _METADATA.create_all(connection)
    rows = {"application": APPLICATION, "schema_version": str(SCHEMA_VERSION)}
    connection.execute(META.insert(), [{"key": k, "value": v} for k, v in rows.items()])


def has_none(connection: Connection) -> bool:
    """Whether the database has no table with the name of one of ours."""
    return not set(sa.inspect(connection).get_table_names()) & set(_METADATA.tables)


def refuse_other(connection: Connection, name: str) -> int:
    """The schema of a database of ours, which may be an older one that ``store_migrations`` knows. Writes nothing.

    Raises StoreError for a database that autosched did not make, or made with a schema that is too new or too old.
    """
    inspector = sa.inspect(connection)
    there = set(inspector.get_table_names())
    if not _has(inspector, there, META, OLDEST_SCHEMA):
        raise _foreign(name, there)
    rows = {row.key: row.value for row in connection.execute(sa.select(META.c.key, META.c.value))}
    version = str(rows.get("schema_version"))
    if rows.get("application") != APPLICATION or not re.fullmatch("[0-9]{1,9}", version):
        raise _foreign(name, there)
    if int(version) > SCHEMA_VERSION:
        raise StoreError(
            f"the database {name} has schema {version} of a newer autosched, this one knows up to {SCHEMA_VERSION}: "
            "upgrade autosched, or choose another path"
        )
    if int(version) < OLDEST_SCHEMA:
        raise StoreError(
            f"the database {name} has schema {version} of an older autosched, this one writes {SCHEMA_VERSION}: "
            "tune into a new database, or keep using the autosched that made it"
        )
    if not all(_has(inspector, there, table, int(version)) for table in _METADATA.tables.values()):
        raise _foreign(name, there)
    return int(version)


def _has(inspector: sa.Inspector, there: set[str], table: sa.Table, schema: int) -> bool:
    """Whether a table is as that schema has it."""
    if table.info.get(SINCE, OLDEST_SCHEMA) > schema:
        return True
    wanted = {column.name for column in table.columns if column.info.get(SINCE, OLDEST_SCHEMA) <= schema}
    here = _columns(inspector, table.name) if table.name in there else set()
    if schema == OLDEST_SCHEMA and "family" in here:  # what is now called operator
        here.add("operator")
    return wanted <= here


def _columns(inspector: sa.Inspector, table: str) -> set[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sa.exc.SAWarning)  # types that SQLAlchemy does not know: names are enough
        return {column["name"] for column in inspector.get_columns(table)}


def _foreign(name: str, tables: set[str]) -> StoreError:
    shown = sorted(tables - {"sqlite_sequence"})
    listed = ", ".join(shown[:3]) + (", ..." if len(shown) > 3 else "") if shown else "none"
    return StoreError(f"{name} is not a database of autosched (tables: {listed}): choose another path")


def to_row(record: Record) -> dict[str, Any]:
    """The columns of a record, but for its id."""
    m = record.measurement
    timing, resources, schedule_key = m.timing, m.resources, record.schedule.key()
    return {
        "operator": str(json.loads(record.problem_key).get("operator", "")),
        "problem": record.problem_key,
        "device": record.device,
        "fingerprint": record.fingerprint,
        "template": record.schedule.template,
        "template_version": record.template_version,
        "space_version": record.space_version,
        "kernel_digest": record.kernel_digest,
        "schedule": json.dumps(record.schedule.to_json(), separators=(",", ":")),
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
        "toolchain": record.toolchain,
        "driver": record.driver,
        "autosched_version": record.autosched_version,
        "created": record.created.isoformat(timespec="microseconds"),
        "sampler": record.sampler,
        "seed": record.seed,
        "final_rank": record.rank,
        **{name: None if m.code is None else getattr(m.code, name) for name in _CODE},
        "budget": None if record.budget is None else canonical_json(dataclasses.asdict(record.budget)),
        "proof": record.proof,
        "problem_digest": digest_of(record.problem_key),
        "schedule_digest": digest_of(schedule_key),
    }


def digest_of(text: str) -> str:
    """The SHA-256 that problems and schedules are found by, of ``Problem.key()`` and ``Schedule.key()``."""
    return hashlib.sha256(text.encode()).hexdigest()


def from_row(row: Mapping[Any, Any], name: str) -> Record:
    """The record of a whole row of the database ``name``. Raises StoreError that names the trial and its bad cell."""
    cells = read_cells(row, TRIALS.columns, name)
    timed = cells["median"] is not None
    try:
        return Record(
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
            ),
            toolchain=cells["toolchain"],
            driver=cells["driver"],
            autosched_version=cells["autosched_version"],
            created=cells["created"],
            sampler=cells["sampler"],
            seed=cells["seed"],
            rank=cells["final_rank"],
            budget=cells["budget"],
            proof=cells["proof"],
            id=cells["id"],
        )
    except (ValueError, TypeError) as error:  # such as a median outside its quartiles, or a time without them
        raise unreadable(name, cells["id"], str(error)) from error


def _whole(kind: type[_Part], cells: Mapping[str, Any], names: Sequence[str]) -> _Part | None:
    """What several cells make together; None where all are empty. Raises ValueError where only some are."""
    there = {name: cells[name] for name in names if cells[name] is not None}
    if there and len(there) != len(names):
        raise ValueError(f"its {kind.__name__} is incomplete: only {', '.join(there)}")
    return kind(**there) if there else None


def read_cells(row: Mapping[Any, Any], columns: Iterable[sa.Column[Any]], name: str) -> dict[str, Any]:
    """The cells of ``columns`` as a record has them. SQLite itself lets any cell hold anything.

    Raises StoreError that names the trial and the cell, for one that autosched cannot have stored.
    """
    cells = {}
    for column in columns:
        key = str(column.key)
        try:
            cells[key] = _read(column, row[key])
        except (ValueError, TypeError, RecursionError, OverflowError) as error:
            shown = repr(row[key])
            shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}..."
            raise unreadable(name, row["id"], f"{key} is {shown}") from error
    if cells.get("status") is Status.OK:
        missing = [key for key in _TIMES if key in cells and cells[key] is None]
        if missing:
            raise unreadable(name, row["id"], f"it is ok, but has no {' and no '.join(missing)}")
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


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "problem": _checked_object,
    "fingerprint": _checked_object,
    "schedule": _json_object,
    "provenance": Provenance,
    "status": Status,
    "budget": lambda text: Budget.from_json(_json_object(text)),
    "proof": _checked_object,
    "created": lambda text: _in_utc(datetime.fromisoformat(text)),
}


def unreadable(name: str, trial: int | None, why: str) -> StoreError:
    """The error for a trial that this version cannot read."""
    return StoreError(
        f"trial {trial} of the database {name} cannot be read ({why}): it was damaged, or another version of "
        "autosched wrote it; restore a copy, or tune into a new database"
    )
