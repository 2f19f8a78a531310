"""Compilation of one configuration by Triton.

Start at ``candidate.py``, the compiled configuration. ``processes.py`` compiles in advance in worker processes
(``worker.py``), which isolate crashes of the compiler. This package must not import the search (``search.py``).
"""
