"""Schema 2, the oldest that can be brought up to date: trials of one kernel per operator, and ``meta``."""

revision = "2"
down_revision = None


def upgrade() -> None:
    """Nothing: the autosched of then made these tables."""
