"""Count accesses, instructions and other costs of launches.

Start at ``cost_counts.py``, which holds the counts of one schedule. ``data_movement.py`` and ``bank_conflicts.py``
count memory accesses. ``cost_models`` converts counts to times, and must not be imported here.
"""
