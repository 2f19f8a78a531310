"""Lowering of a planned schedule to CUDA C++.

Start at ``lowering.py``. Each file ``emit_*.py`` generates code for one kind of operation, ``refs.py`` names values,
and ``elements.py`` generates element-wise code. All decisions are made in ``planning``; nothing is chosen here. This
package must not import ``schedules``.
"""
