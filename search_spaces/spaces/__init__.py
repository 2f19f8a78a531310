"""What may vary, and which combinations are legal?

Start at ``space.py``: parameters, attributes and rules make a space that is counted and sampled exactly, never
listed. ``counting/`` counts, ``legality.py`` explains refusals, ``neighbourhood.py`` has the moves of a search.
Spaces know neither devices nor problems.
"""
