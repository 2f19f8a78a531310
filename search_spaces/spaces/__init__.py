"""Search spaces: the legal combinations of parameters.

Start at ``space.py``: parameters, attributes and rules make a space that is counted and sampled exactly, never
listed. ``counting/`` counts, ``legality.py`` explains rejections, ``neighbourhood.py`` has the moves of a search.
This package must not import devices, layouts or problems.
"""
