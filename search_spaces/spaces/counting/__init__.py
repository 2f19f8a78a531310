"""Exact counting of legal configurations, and the configuration of a given rank.

Start at ``elimination.py``. ``planning.py`` chooses the order of elimination, ``constraints.py`` and ``tables.py``
are the relations, and ``count_tree.py`` is the result. This package must not import schedules, the space that uses
it, or the moves of a search.
"""
