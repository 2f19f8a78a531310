"""Operations of a tile program.

Start at ``ir.py``, the operations, and ``tracing.py``, which records them. ``interpret.py`` executes a program in
numpy, ``bounded.py`` does so with error bounds, and ``padding.py`` tracks the values that fill the ends of arrays.
This package must not import devices, schedules or another package of ``programs``.
"""
