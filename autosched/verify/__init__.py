"""Verification that code is correct.

Verification needs no GPU. Start at ``verdict.py``, which defines the result of every verification. ``launch.py``
describes a launch under test, ``launch_plan.py`` plans its runs, and ``oracle.py`` provides the expected outputs.
``launches.py`` makes the planned runs and returns a verdict. The loop in ``planned_run.py`` makes the runs of schedules
(``schedule_runs.py``, ``schedules.py``), of executables (``executables.py``) and of any CUDA source or PTX
(``emulate/``). This package must not import ``triton`` or ``tuning``: these two packages produce launches and consume
verdicts.
"""
