"""Databases of older schemas, brought up to date in one transaction, by alembic.

The number in ``meta`` is what every version of autosched reads. Alembic's own table is made at the first migration, and
is told that number before each.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from measurements.store import best_index, schema
from measurements.store.schema import META, SCHEMA_VERSION, unreadable

SCRIPTS = Path(__file__).resolve().parent / "migrations"


class UnreadableTrial(ValueError):
    """A trial that a migration cannot read."""

    def __init__(self, trial: int, why: str) -> None:
        super().__init__(trial, why)
        self.trial, self.why = trial, why


def migrate(connection: Connection, name: str) -> None:
    """Bring the database ``name`` up to ``SCHEMA_VERSION``, inside a write transaction; a current one stays as it is.

    Raises StoreError for a trial that cannot be read, with nothing changed once the transaction is rolled back.
    """
    from alembic import command  # only here: a current database is opened without it
    from alembic.config import Config

    schema.wait_for_others(connection)
    found = connection.execute(sa.select(META.c.value).where(META.c.key == "schema_version")).scalar_one()
    if int(found) == SCHEMA_VERSION:  # another process was faster
        return
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    try:
        command.stamp(config, str(found), purge=True)
        command.upgrade(config, str(SCHEMA_VERSION))
    except UnreadableTrial as error:
        raise unreadable(name, error.trial, error.why) from error
    best_index.rebuild(connection, name)
    connection.execute(META.update().where(META.c.key == "schema_version").values(value=str(SCHEMA_VERSION)))
