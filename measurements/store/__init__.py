"""How are trials stored in a database?

Start at ``store.py``, which stores trials in SQLite or PostgreSQL. ``schema.py`` has the tables, ``best_index.py``
the best trial of each problem, ``merge.py`` joins databases. There is one schema; databases of another are refused
and left unchanged. This room must not import the compiler, runners or the emulator.
"""
