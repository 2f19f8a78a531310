"""Run by alembic: migrate over the connection that ``measurements.store.migrate`` hands in, in its transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
