"""Compile one configuration with Triton.

Start at ``candidate.py``, the compiled configuration. ``processes.py`` compiles configurations in advance, in worker
processes (``worker.py``) that isolate crashes of the compiler. This package must not import the search (``search.py``).
"""
