"""Counting of legal configurations, and access to them by rank.

Start at ``elimination.py``. ``planning.py`` chooses the order of elimination, ``constraints.py`` and ``tables.py`` are
the relations, and ``count_tree.py`` is the result. This room knows nothing of schedules, templates or moves of a
search.
"""
