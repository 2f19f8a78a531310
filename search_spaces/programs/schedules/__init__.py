"""The decisions that a program leaves open.

Start at ``space.py``, which builds the space; ``decisions.py`` has the parameters and ``sizes.py`` the rules on
tiles. ``counts.py`` counts the work of a schedule for the time model, ``proxy.py`` cuts a problem for the emulator.
"""
