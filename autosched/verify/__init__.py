"""Is this code correct?

Start at ``verdict.py``, the result of every verification. ``plan.py`` names the runs of a schedule, ``schedules.py``
makes them, ``emulate/`` reads any CUDA source or PTX, and ``stored.py`` decides when a stored verdict has gone stale.
This room must not import ``triton`` or ``tuning``: those produce launches and consume verdicts.
"""
