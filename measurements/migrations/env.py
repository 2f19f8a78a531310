"""Run by alembic: migrate over the connection that ``measurements.store_migrations`` hands in, in its transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
