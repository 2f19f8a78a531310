"""Measure on a GPU.

Start at ``runner.py``. ``worker.py`` is the process that launches kernels, ``supervisor.py`` restarts it, and
``launch_timer.py`` takes times. ``libraries/`` measures cuBLAS and others on the same arrays. This
room knows nothing of clusters (``fleet/``).
"""
