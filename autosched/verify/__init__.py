"""Is this code correct?

Start at ``verdict.py``, the result of every verification. ``launch.py`` is a launch under test, ``launch_plan.py`` its
runs, ``oracle.py`` what it should compute, and ``launches.py`` turns the three into a verdict. Schedules have plans of
many launches (``plan.py``, ``schedules.py``); ``emulate/`` reads any CUDA source or PTX. This room must not import
``triton`` or ``tuning``: those produce launches and consume verdicts.
"""
