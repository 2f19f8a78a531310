"""Schema 4: what was proven of a trial, the budget it was found under and its machine code; and ``guards``, what CI
holds an entry to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "4"
down_revision = "3"


def upgrade() -> None:
    for column in ("cubin_digest", "sass_digest"):
        op.add_column("trials", sa.Column(column, sa.Text))
    op.add_column("trials", sa.Column("sass_bytes", sa.Integer))
    for column in ("budget", "proof"):
        op.add_column("trials", sa.Column(column, sa.Text))
    op.create_table(
        "guards",
        sa.Column("problem_digest", sa.String(64), primary_key=True),
        sa.Column("device", sa.Text, primary_key=True),
        sa.Column("max_slowdown", sa.Float(53)),
        sa.Column("floor_seconds", sa.Float(53)),
        sa.Column("noise", sa.Float(53)),
        sa.Column("notes", sa.Text, nullable=False),
    )
