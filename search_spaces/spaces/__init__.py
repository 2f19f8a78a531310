"""Search spaces: parameters, and the rules for legal combinations.

Start at ``space.py``: parameters, attributes and rules make a space that is counted and sampled exactly, never listed.
``counting/`` counts, ``legality.py`` explains refusals, ``neighbourhood.py`` has the moves of a search. Spaces know
neither devices nor problems.
"""
