"""Store trials in a database.

Start at ``store.py``, which stores trials in SQLite or PostgreSQL. ``schema.py`` defines the tables, ``best_index.py``
finds the best trial of each problem, and ``merge.py`` merges databases. Only databases with the current schema version
are accepted; others are rejected and left unchanged. This package must not import the compiler, runners or the
emulator.
"""
