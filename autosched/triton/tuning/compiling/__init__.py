"""Compilation of one configuration by Triton. Start at ``candidate.py``.

``processes.py`` compiles ahead in worker processes (``worker.py``), so that a crash of the compiler only ends a worker.
Knows nothing of a search.
"""
