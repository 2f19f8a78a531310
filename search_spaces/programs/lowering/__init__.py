"""Lowering of a planned schedule to CUDA C++.

Start at ``lowering.py``. Each file ``emit_*.py`` generates code for one kind of operation. ``refs.py`` represents
values in the generated code, and ``elements.py`` generates loops over registers. All decisions are made in
``planning``; ``lowering`` decides nothing. This package must not import ``schedules``.
"""
