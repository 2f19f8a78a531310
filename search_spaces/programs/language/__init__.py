"""Operations of a tile program.

Start at ``operations.py``, the operations, ``ir.py``, a whole program, and ``tracing.py``, which records it.
``interpret.py`` executes a program in numpy, ``bounded.py`` does so with error bounds, and ``padding.py`` tracks the
values that fill the ends of arrays.
This package must not import devices, schedules or another package of ``programs``.
"""
