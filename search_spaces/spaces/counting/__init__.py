"""How many configurations are legal, and which has a given rank? Start at ``elimination.py``.

``planning.py`` chooses the order, ``constraints.py`` and ``tables.py`` are the relations, ``count_tree.py`` the result.
Knows nothing of schedules, templates or moves of a search.
"""
