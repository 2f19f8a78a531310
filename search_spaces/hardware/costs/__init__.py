"""Costs of accesses, instructions and launches, as counts.

Start at ``cost_counts.py``, the counts of one schedule. ``transactions.py`` and ``bank_conflicts.py`` count memory
accesses. ``cost_models`` converts counts to times; this package must not import it.
"""
