"""Tables of a trial store, and checks that a database has them."""

from __future__ import annotations

import hashlib
import math
import re
import warnings
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from measurements.files.text import one_line
from measurements.store.errors import StoreError
from measurements.trials.measurement import Resources

SCHEMA_VERSION = 9  # databases of other versions are rejected: docs/decisions/0016
APPLICATION = "autosched"
_LOCK = int.from_bytes(b"autosch")  # arbitrary number that identifies autosched's advisory lock on a server

_RESOURCES = tuple(Resources.__dataclass_fields__)


_METADATA = sa.MetaData()
META = sa.Table(
    "meta",
    _METADATA,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
_WRONG = sa.text("status = 'wrong_result'")
_TRIALS_WRONG = sa.Index("trials_wrong", "problem_digest", sqlite_where=_WRONG)
TRIALS = sa.Table(
    "trials",
    _METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("operator", sa.Text, nullable=False),
    sa.Column("problem", sa.Text, nullable=False),  # canonical JSON, as returned by Problem.key()
    sa.Column("device", sa.Text, nullable=False),
    sa.Column("fingerprint", sa.Text, nullable=False),  # JSON
    sa.Column("template", sa.Text, nullable=False),
    sa.Column("template_version", sa.Text, nullable=False),
    sa.Column("space_version", sa.Text, nullable=False),
    sa.Column("kernel_digest", sa.Text),
    sa.Column("schedule", sa.Text, nullable=False),  # JSON whose items are in the order of the parameters
    sa.Column("schedule_key", sa.Text, nullable=False),  # canonical JSON
    sa.Column("provenance", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("median", sa.Float(53)),  # the median, p25 and p75 are in seconds
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
    sa.Column("final_rank", sa.Integer),  # rank in a paired re-measurement; NULL for other trials
    sa.Column("cubin_digest", sa.Text),
    sa.Column("sass_digest", sa.Text),
    sa.Column("sass_bytes", sa.Integer),
    sa.Column("budget", sa.Text),  # the columns budget and verification contain JSON
    sa.Column("verification", sa.Text),
    sa.Column("control", sa.Text),
    sa.Column("watts", sa.Float(53)),
    sa.Column("facts", sa.Text),  # JSON of ProblemFacts, for a problem from a user's kernel file
    sa.Column("policy", sa.Text, nullable=False, server_default=""),
    sa.Column("problem_digest", sa.String(64), nullable=False),
    sa.Column("schedule_digest", sa.String(64), nullable=False),
    sa.CheckConstraint("(status = 'ok') = (median IS NOT NULL)", name="time_exactly_when_ok"),
    sa.CheckConstraint("median > 0 AND p25 > 0 AND p75 > 0", name="time_is_positive"),
    sa.CheckConstraint(
        "(p25 IS NULL) = (median IS NULL) AND (p75 IS NULL) = (median IS NULL) "
        "AND (repeats IS NULL) = (median IS NULL)",
        name="time_is_whole",
    ),
    sa.Index("trials_in_order", "problem_digest", "device", "provenance", "id"),
    sa.Index("trials_by_schedule", "problem_digest", "device", "provenance", "schedule_digest"),
    _TRIALS_WRONG,
    sqlite_autoincrement=True,
)


ENTRIES = sa.Table(
    "entries",
    _METADATA,
    sa.Column("problem_digest", sa.String(64), primary_key=True),
    sa.Column("device", sa.Text, primary_key=True),
    sa.Column("provenance", sa.Text, primary_key=True),
    sa.Column("policy", sa.Text, primary_key=True),
    sa.Column("operator", sa.Text, nullable=False),
    sa.Column("problem", sa.Text, nullable=False),
    # trials: number of different schedules; ok: number of schedules that were timed successfully
    sa.Column("trials", sa.Integer, nullable=False),
    sa.Column("ok", sa.Integer, nullable=False),
    sa.Column("first_id", sa.Integer, nullable=False),
    sa.Column("newest_id", sa.Integer, nullable=False),
    sa.Column("ranked_id", sa.Integer),  # id of the newest trial at the time of the ranking
    sa.Column("winner_id", sa.Integer),
    sa.Column("median", sa.Float(53)),  # median, p25, p75 and repeats: pooled times of the winner
    sa.Column("p25", sa.Float(53)),
    sa.Column("p75", sa.Float(53)),
    sa.Column("repeats", sa.Integer),
    sa.Index("entries_by_device", "device"),
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
)


@dataclass(frozen=True)
class Guard:
    """Limits that CI applies to the best schedule of one problem on one device.

    ``max_slowdown`` is the allowed slowdown as a fraction (0.03 is 3%). Differences below ``floor_seconds`` are
    negligible. ``noise`` is the fraction by which runs of an unchanged kernel differed. None stands for a default
    limit. ``notes`` are free text. Raises ValueError if a number is negative or not finite.
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
                raise ValueError(f"{name} of a guard must be a finite number of at least 0, got {value!r}")
        if not isinstance(self.notes, str):
            raise ValueError(f"the notes of a guard must be text, got {self.notes!r}")


def create_tables(connection: Connection) -> None:
    """Create the tables in a database that lacks them."""
    # set here, not in the definition of the index, because that would import the PostgreSQL dialect in every process
    if connection.dialect.name == "postgresql":
        _TRIALS_WRONG.dialect_options["postgresql"]["where"] = _WRONG
    _METADATA.create_all(connection)
    rows = {"application": APPLICATION, "schema_version": str(SCHEMA_VERSION)}
    connection.execute(META.insert(), [{"key": k, "value": v} for k, v in rows.items()])


def wait_for_others(connection: Connection) -> None:
    """Wait until no other process creates tables on a server.

    For SQLite there is nothing to wait for: write transactions are exclusive.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))


def has_none(connection: Connection) -> bool:
    """Return True if no table in the database has the name of one of autosched's tables."""
    return not set(sa.inspect(connection).get_table_names()) & set(_METADATA.tables)


def refuse_other(connection: Connection, name: str) -> None:
    """Raise StoreError if autosched did not create the database, or its schema version differs. Nothing is written."""
    inspector = sa.inspect(connection)
    existing = set(inspector.get_table_names())
    if not _has(inspector, existing, META):
        raise _foreign(name, existing)
    rows = {row.key: row.value for row in connection.execute(sa.select(META.c.key, META.c.value))}
    version = str(rows.get("schema_version"))
    if rows.get("application") != APPLICATION or not re.fullmatch("[0-9]{1,9}", version):
        raise _foreign(name, existing)
    if int(version) > SCHEMA_VERSION:
        raise StoreError(
            f"the database {name} has schema {version} of a newer autosched, but this version uses "
            f"{SCHEMA_VERSION}: upgrade autosched, or choose another path"
        )
    if int(version) < SCHEMA_VERSION:
        raise StoreError(
            f"the database {name} has schema {version} of an older autosched, but this version uses "
            f"{SCHEMA_VERSION}: tune into a new database, or keep using the version that created it"
        )
    if not all(_has(inspector, existing, table) for table in _METADATA.tables.values()):
        raise StoreError(
            f"the database {name} lacks tables or columns of schema {version}: another version of autosched wrote it, "
            "or it was changed; tune into a new database, or keep using the version that created it"
        )
    strange = _strange(connection)
    if strange:
        raise StoreError(
            f"the database {name} has objects that autosched never creates ({one_line(', '.join(strange[:3]))}), "
            "which could change stored trials: use another database, or, on a machine that you trust, copy its trials "
            "with autosched export"
        )


def _strange(connection: Connection) -> list[str]:
    """Return the names of unknown triggers, views, tables and computed columns, which could run code during queries.

    On a server, other users may own such objects, so only objects on autosched's tables are returned.
    """
    ours = sorted(_METADATA.tables)
    if connection.dialect.name == "sqlite":
        objects = connection.exec_driver_sql("SELECT type, name, tbl_name, sql FROM sqlite_master").all()
        strange = []
        for kind, name, table, sql in objects:
            text = " ".join(str(sql or "").split()).lower()
            known_table = table in ours or str(table).startswith("sqlite_")
            known_index = kind != "index" or sql is None or name in _INDEXES
            if kind not in ("table", "index") or text.startswith("create virtual") or not (known_table and known_index):
                strange.append(f"{kind} {name}")
        for table in ours:
            columns = connection.exec_driver_sql(f"PRAGMA table_xinfo({table})").all()
            strange += [f"computed column {column[1]}" for column in columns if column[6]]
        return strange
    if connection.dialect.name == "postgresql":
        triggers = sa.text(
            "SELECT t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
            "WHERE NOT t.tgisinternal AND c.relname IN :ours AND pg_table_is_visible(c.oid)"
        ).bindparams(sa.bindparam("ours", expanding=True))
        rules = sa.text("SELECT rulename FROM pg_rules WHERE tablename IN :ours").bindparams(
            sa.bindparam("ours", expanding=True)
        )
        names = {"ours": ours}
        return [
            *(f"trigger {row[0]}" for row in connection.execute(triggers, names)),
            *(f"rule {row[0]}" for row in connection.execute(rules, names)),
        ]
    return []


_INDEXES = {index.name for table in _METADATA.tables.values() for index in table.indexes}


def _has(inspector: sa.Inspector, existing: set[str], table: sa.Table) -> bool:
    """Return True if a table exists with all of its columns."""
    return table.name in existing and {column.name for column in table.columns} <= _columns(inspector, table.name)


def _columns(inspector: sa.Inspector, table: str) -> set[str]:
    with warnings.catch_warnings():
        # SQLAlchemy warns about column types that it does not know, but only names are needed
        warnings.simplefilter("ignore", sa.exc.SAWarning)
        return {column["name"] for column in inspector.get_columns(table)}


def _foreign(name: str, tables: set[str]) -> StoreError:
    shown = sorted(tables - {"sqlite_sequence"})
    listed = ", ".join(shown[:3]) + (", ..." if len(shown) > 3 else "") if shown else "none"
    return StoreError(f"{name} is not a database of autosched (tables: {listed}): choose another path")


def digest_of(text: str) -> str:
    """Return the SHA-256 digest of a key (``Problem.key()`` or ``Schedule.key()``), for use in database indexes."""
    return hashlib.sha256(text.encode()).hexdigest()


def unreadable(name: str, trial: int | None, why: str) -> StoreError:
    """Return the error for a trial that this version cannot read."""
    return StoreError(
        f"trial {trial} of the database {name} cannot be read ({why}): it was damaged, or another version of "
        "autosched wrote it; restore a copy, or tune into a new database"
    )
