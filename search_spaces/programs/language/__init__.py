"""Operations of a tile program.

Start at ``operations.py`` (operations), ``ir.py`` (a whole program) and ``tracing.py`` (records a program).
``interpret.py`` executes a program in numpy, ``bounded.py`` does so with error bounds, and ``padding.py`` tracks the
values that fill the ends of arrays.
This package must not import devices, schedules or another package of ``programs``.
"""
