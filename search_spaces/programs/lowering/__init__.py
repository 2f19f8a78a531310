"""What CUDA C++ does a planned schedule become?

Start at ``lowering.py``. The files ``emit_*.py`` write the code of one kind of operation each, ``refs.py`` names
values, and ``elements.py`` writes element-wise code. All decisions were made in ``planning``; nothing is chosen here.
This room must not import ``schedules``.
"""
