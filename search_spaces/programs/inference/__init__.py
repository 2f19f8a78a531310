"""Distribution of each value's elements over threads.

Start at ``infer.py``, which propagates distributions from anchors (loads, products, stores) through a program.
``staged_loads.py`` decides which loads go through shared memory. Results are expressions over parameters that a
schedule fixes later. This package must not import ``planning`` or ``schedules``.
"""
