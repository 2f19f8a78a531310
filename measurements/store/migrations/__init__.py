"""The alembic migrations of a record store, one script per schema, from the first schema that was published on."""
