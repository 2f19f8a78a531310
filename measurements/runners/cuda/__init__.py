"""How long does a kernel take on a local GPU?

Start at ``runner.py``. ``worker.py`` is the process that launches kernels, ``supervisor.py`` restarts it, and
``launch_timer.py`` times launches. ``libraries/`` measures cuBLAS and others on the same arrays. This room must not
import clusters (``fleet/``).
"""
