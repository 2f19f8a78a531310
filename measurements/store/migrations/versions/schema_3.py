"""Schema 3: operators and kernel templates.

Schema 2 had one kernel per operator, in a column called "family". Reductions and normalizations now share a template,
and some parameters have other names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

from measurements.records.record import canonical_json
from measurements.store.migrate import UnreadableTrial
from search_spaces.spaces.schedule import Schedule

revision = "3"
down_revision = "2"

_ROW_REDUCTIONS = ("reduce", "softmax", "rmsnorm", "layernorm")
_RENAMED = {"row_reduction": {"kept_subgroups": "parallel_subgroups", "keep": "row_staging"}}
_TRIALS = sa.table(
    "trials",
    *(sa.column(name) for name in ("id", "operator", "template", "problem", "schedule", "schedule_key")),
)


def upgrade() -> None:
    """Raise StoreError for a trial that cannot be read."""
    op.execute("ALTER TABLE trials RENAME COLUMN family TO operator")  # alembic would copy the table in SQLite
    for column in ("template", "template_version"):
        op.add_column("trials", sa.Column(column, sa.Text, nullable=False, server_default=""))
    connection, c = op.get_bind(), _TRIALS.c
    rows = connection.execute(sa.select(c.id, c.operator, c.problem, c.schedule)).all()
    changed = [_row(row.id, row.operator, row.problem, row.schedule) for row in rows]
    if changed:
        values = ("template", "problem", "schedule", "schedule_key")
        update = _TRIALS.update().where(c.id == sa.bindparam("row"))
        connection.execute(update.values({name: sa.bindparam(f"new_{name}") for name in values}), changed)


def _row(row: int, family: str, problem: str, schedule: str) -> dict[str, Any]:
    template = "row_reduction" if family in _ROW_REDUCTIONS else family
    renamed = _RENAMED.get(template, {})
    try:
        fields, values = json.loads(problem), json.loads(schedule)
        if not isinstance(fields, Mapping) or not isinstance(values, Mapping):
            raise ValueError("its problem or its schedule is not an object")
        made = Schedule.from_json(template, {renamed.get(str(key), str(key)): value for key, value in values.items()})
        fields = {"operator" if key == "family" else key: value for key, value in fields.items()}
    except (ValueError, TypeError, RecursionError) as error:
        raise UnreadableTrial(row, str(error)) from error
    return {
        "row": row,
        "new_template": template,
        "new_problem": canonical_json(fields),
        "new_schedule": json.dumps(made.to_json(), separators=(",", ":")),
        "new_schedule_key": made.key(),
    }
