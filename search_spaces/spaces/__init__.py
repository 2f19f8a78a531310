"""Search spaces: the legal combinations of parameters.

Start at ``space.py``: parameters, attributes and rules define a space. Its schedules are counted and sampled exactly,
without listing them. ``counting/`` counts schedules, ``legality.py`` checks them, and ``neighbourhood.py`` has the
moves of a search (neighbours, mutation, crossover). This package must not import devices, layouts or problems.
"""
