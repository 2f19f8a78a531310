"""Compare samplers by searches of recorded measurements.

Start at ``search.py``, which runs samplers on tables of recorded measurements; ``curves.py`` draws the results. No
GPU and no compiler is needed. The recordings themselves are in ``measurements.trials`` and ``measurements.tables``.
This package must not import the command line or ``autosched.tuning``.
"""
