"""Verification that code is correct.

Start at ``verdict.py``, the result of every verification, which needs no GPU. ``launch.py`` is a launch under test,
``launch_plan.py`` its runs, ``oracle.py`` its expected outputs, and ``launches.py`` converts the three to a verdict.
One loop (``planned_run.py``) makes the runs of schedules (``schedule_runs.py``, ``schedules.py``), of executables
(``executables.py``) and of any CUDA source or PTX (``emulate/``). This package must not import ``triton`` or
``tuning``: those produce launches and consume verdicts.
"""
