"""Schema 6: what was timed beside the winner of a re-measurement, which tells the machine from the kernel."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "6"
down_revision = "5"


def upgrade() -> None:
    op.add_column("trials", sa.Column("control", sa.Text))  # JSON
