"""Databases of older schemas, brought up to date in the transaction that finds them.

Schema 2 had one kernel per operator, in a column called "family"; schema 3 has operators and kernel templates.
Reductions and normalizations now share a template, and some parameters have other names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from measurements.record import canonical_json
from measurements.store_schema import META, SCHEMA_VERSION, TRIALS, unreadable
from search_spaces.spaces.schedule import Schedule

_ROW_REDUCTIONS = ("reduce", "softmax", "rmsnorm", "layernorm")
_RENAMED = {"row_reduction": {"kept_subgroups": "parallel_subgroups", "keep": "row_staging"}}


def migrate(connection: Connection, name: str) -> None:
    """Bring the database ``name`` up to ``SCHEMA_VERSION``, inside a write transaction; a current one stays as it is.

    Raises StoreError for a trial that cannot be read.
    """
    version = connection.execute(sa.select(META.c.value).where(META.c.key == "schema_version")).scalar_one()
    for older in range(int(version), SCHEMA_VERSION):
        _STEPS[older](connection, name)
    connection.execute(META.update().where(META.c.key == "schema_version").values(value=str(SCHEMA_VERSION)))


def _to_3(connection: Connection, name: str) -> None:
    connection.execute(sa.text("ALTER TABLE trials RENAME COLUMN family TO operator"))
    for column in ("template", "template_version"):
        connection.execute(sa.text(f"ALTER TABLE trials ADD COLUMN {column} TEXT NOT NULL DEFAULT ''"))
    rows = connection.execute(sa.select(TRIALS.c.id, TRIALS.c.operator, TRIALS.c.problem, TRIALS.c.schedule)).all()
    changed = [_row_of_3(row.id, row.operator, row.problem, row.schedule, name) for row in rows]
    if changed:
        update = TRIALS.update().where(TRIALS.c.id == sa.bindparam("row"))
        connection.execute(update, changed)


def _row_of_3(row: int, family: str, problem: str, schedule: str, name: str) -> dict[str, Any]:
    template = "row_reduction" if family in _ROW_REDUCTIONS else family
    renamed = _RENAMED.get(template, {})
    try:
        fields, values = json.loads(problem), json.loads(schedule)
        if not isinstance(fields, Mapping) or not isinstance(values, Mapping):
            raise ValueError("its problem or its schedule is not an object")
        made = Schedule.from_json(template, {renamed.get(str(key), str(key)): value for key, value in values.items()})
        fields = {"operator" if key == "family" else key: value for key, value in fields.items()}
    except (ValueError, TypeError, RecursionError) as error:
        raise unreadable(name, row, str(error)) from error
    return {
        "row": row,
        "template": template,
        "problem": canonical_json(fields),
        "schedule": json.dumps(made.to_json(), separators=(",", ":")),
        "schedule_key": made.key(),
    }


_STEPS: Mapping[int, Callable[[Connection, str], None]] = {2: _to_3}
