"""From a planned schedule to CUDA C++.

Start at ``lowering.py``. The files ``emit_*.py`` write the code of one kind of operation each, ``refs.py`` names
values, and ``elements.py`` writes element-wise code. All decisions were made in ``planning``; nothing is chosen here.
"""
