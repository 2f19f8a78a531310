"""Schema 5: ``entries``, one row per problem, device and provenance, with what is best of it; trials found by digests.

``entries`` is filled after the last migration, from the trials, by ``measurements.store.best_index``.
"""

from __future__ import annotations

import hashlib

import sqlalchemy as sa
from alembic import op

revision = "5"
down_revision = "4"

_BATCH = 10_000  # rows
_COLUMNS = ("id", "problem", "schedule_key", "problem_digest", "schedule_digest", "status")
_TRIALS = sa.table("trials", *(sa.column(name) for name in _COLUMNS))


def upgrade() -> None:
    for column in ("problem_digest", "schedule_digest"):
        op.add_column("trials", sa.Column(column, sa.String(64), nullable=False, server_default=""))
    _fill()
    op.drop_index("trials_by_problem", "trials")
    op.create_index("trials_in_order", "trials", ["problem_digest", "device", "provenance", "id"])
    op.create_index("trials_by_schedule", "trials", ["problem_digest", "device", "provenance", "schedule_digest"])
    wrong = sa.text("status = 'wrong_result'")
    op.create_index("trials_wrong", "trials", ["problem_digest"], sqlite_where=wrong, postgresql_where=wrong)
    op.create_table(
        "entries",
        sa.Column("problem_digest", sa.String(64), primary_key=True),
        sa.Column("device", sa.Text, primary_key=True),
        sa.Column("provenance", sa.Text, primary_key=True),
        sa.Column("operator", sa.Text, nullable=False),
        sa.Column("problem", sa.Text, nullable=False),
        sa.Column("trials", sa.Integer, nullable=False),
        sa.Column("ok", sa.Integer, nullable=False),
        sa.Column("first_id", sa.Integer, nullable=False),
        sa.Column("newest_id", sa.Integer, nullable=False),
        sa.Column("ranked_id", sa.Integer),
        sa.Column("winner_id", sa.Integer),
        sa.Column("median", sa.Float(53)),
        sa.Column("p25", sa.Float(53)),
        sa.Column("p75", sa.Float(53)),
        sa.Column("repeats", sa.Integer),
    )
    op.create_index("entries_by_device", "entries", ["device"])


def _fill() -> None:
    connection, c = op.get_bind(), _TRIALS.c
    last = 0
    while True:
        query = sa.select(c.id, c.problem, c.schedule_key).where(c.id > last).order_by(c.id).limit(_BATCH)
        rows = connection.execute(query).all()
        if not rows:
            return
        last = rows[-1].id
        digests = ("problem_digest", "schedule_digest")
        update = _TRIALS.update().where(c.id == sa.bindparam("row"))
        connection.execute(
            update.values({name: sa.bindparam(f"new_{name}") for name in digests}),
            [
                {
                    "row": row.id,
                    "new_problem_digest": hashlib.sha256(str(row.problem).encode()).hexdigest(),
                    "new_schedule_digest": hashlib.sha256(str(row.schedule_key).encode()).hexdigest(),
                }
                for row in rows
            ],
        )
