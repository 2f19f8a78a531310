"""Schema 8: how a time was taken is a part of what it is ranked with.

``entries`` is made anew, because its key has a further column, and filled after the last migration.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "8"
down_revision = "7"

_TRIALS = sa.table("trials", *(sa.column(name) for name in ("fingerprint", "provenance", "policy")))


def upgrade() -> None:
    op.add_column("trials", sa.Column("policy", sa.Text, nullable=False, server_default=""))
    connection, c = op.get_bind(), _TRIALS.c
    measured = c.provenance == "measured"
    for fingerprint in connection.execute(sa.select(c.fingerprint).distinct().where(measured)).scalars().all():
        of_this = _TRIALS.update().where(measured, c.fingerprint == fingerprint)
        connection.execute(of_this.values(policy=f"{_cache(fingerprint)} graph free"))
    op.drop_table("entries")
    op.create_table(
        "entries",
        sa.Column("problem_digest", sa.String(64), primary_key=True),
        sa.Column("device", sa.Text, primary_key=True),
        sa.Column("provenance", sa.Text, primary_key=True),
        sa.Column("policy", sa.Text, primary_key=True),
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


def _cache(fingerprint: object) -> str:
    """Return the policy of a trial of before, which said no more of its timing. What cannot be read is told when
    the trial is."""
    try:
        said = json.loads(str(fingerprint))
    except ValueError:
        return "cold"
    return "warm" if isinstance(said, dict) and said.get("cache") == "warm" else "cold"
