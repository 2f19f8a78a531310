"""Plan the kernel of one schedule of a tile program: sizes, distributions and resources.

Start at ``choices.py``. Other files compute the distributions, copies, shared memory, registers and splits of one
schedule. The search space and the lowering use the same ``memory.py``, so that they agree on bytes of shared memory.
This package generates no kernel bodies, and must not import ``lowering``.
"""
