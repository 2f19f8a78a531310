"""What does one schedule of a program come to, in numbers?

Start at ``choices.py``. The files compute the distributions, copies, shared memory, registers and splits of one
schedule. Space and lowering both use ``memory.py``, so they count the same bytes. Nothing here generates code: this
room must not import ``lowering``.
"""
