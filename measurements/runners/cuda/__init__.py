"""Measurement of kernels on local GPUs.

Start at ``runner.py``. ``worker.py`` is the process that launches kernels, ``supervisor.py`` restarts it, and
``launch_timer.py`` times launches. ``libraries/`` measures cuBLAS and other libraries on the same arrays. This package
must not import ``fleet/``, which measures on many machines.
"""
