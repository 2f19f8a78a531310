"""Exact counting of legal configurations, and conversion of a rank to the configuration.

Start at ``elimination.py``. ``planning.py`` chooses the order of elimination, ``constraints.py`` and ``tables.py``
contain the relations, and ``count_tree.py`` the result. This package must not import schedules, the space that uses it,
or the moves of a search.
"""
