"""Verification of code without a GPU.

Start at ``verdict.py``, the result of every verification. ``launch.py`` is a launch under test, ``launch_plan.py`` its
runs, ``oracle.py`` what it should compute, and ``launches.py`` turns the three into a verdict. All runs are made by one
loop (``planned_run.py``). Schedules need many launches (``schedule_runs.py``, ``schedules.py``), as do executables
(``executables.py``); ``emulate/`` reads any CUDA source or PTX. This room must not import ``triton`` or ``tuning``:
those produce launches and consume verdicts.
"""
