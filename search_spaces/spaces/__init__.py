"""Which combinations of parameters are legal?

Start at ``space.py``: parameters, attributes and rules make a space that is counted and sampled exactly, never
listed. ``counting/`` counts, ``legality.py`` explains refusals, ``neighbourhood.py`` has the moves of a search. This
room must not import devices, layouts or problems.
"""
