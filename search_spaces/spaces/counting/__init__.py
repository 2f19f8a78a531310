"""Exact counting of legal configurations, and conversion of a rank to the configuration.

Start at ``elimination.py``. ``planning.py`` chooses the order in which variables are eliminated. ``constraints.py``
converts rules to relations (tables of allowed combinations), ``tables.py`` joins them, and ``count_tree.py`` contains
the resulting counts. This package must not import schedules, the space that uses it, or the moves of a search.
"""
