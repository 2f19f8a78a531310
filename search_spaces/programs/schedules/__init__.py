"""Search space of a tile program: the decisions that it leaves open.

Start at ``space.py``, which builds the space; ``decisions.py`` has the parameters, ``sizes.py`` the sizes of tiles,
and ``tile_pruning.py`` the rules on them. ``counts.py`` counts the work of a schedule for the time model, from that of
a block in ``work.py``; ``proxy.py`` cuts a problem for the emulator.
This package must not import ``lowering`` or the kernel template of programs.
"""
