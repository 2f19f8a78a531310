"""Compilation of one configuration by Triton.

Start at ``candidate.py``, the compiled configuration. ``processes.py`` compiles in advance in worker processes
(``worker.py``), so that a crash of the compiler only ends a worker. This package must not import the search
(``search.py``).
"""
