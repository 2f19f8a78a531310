"""Infer how the elements of each value are distributed over threads.

Start at ``infer.py``, which propagates distributions from anchors (loads, products, stores) through a program.
``staged_loads.py`` decides which loads go through shared memory. Distributions are expressions over parameters; a
schedule assigns these parameters later. This package must not import ``planning`` or ``schedules``.
"""
