"""What CUDA C++ does a planned schedule become?

Start at ``lowering.py``. Each file ``emit_*.py`` generates code for one kind of operation, ``refs.py`` names values,
and ``elements.py`` generates element-wise code. All decisions are made in ``planning``; nothing is chosen here. This
room must not import ``schedules``.
"""
