"""Storage of trials in SQLite or PostgreSQL.

Start at ``store.py``. ``schema.py`` has the tables, ``best_index.py`` the best trial of each problem, ``merge.py``
joins databases. There is one schema; databases of another are refused and left unchanged. This room knows nothing of
kernels.
"""
