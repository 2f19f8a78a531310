"""Schema 7: the power that a GPU draws while it runs a kernel."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "7"
down_revision = "6"


def upgrade() -> None:
    op.add_column("trials", sa.Column("watts", sa.Float(53)))
