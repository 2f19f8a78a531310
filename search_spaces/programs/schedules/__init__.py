"""Search space of a tile program: the decisions that it leaves open.

Start at ``space.py``, which builds the space; ``decisions.py`` has the parameters, ``sizes.py`` the sizes of tiles,
and ``tile_pruning.py`` the rules on them. ``work.py`` counts the work of a block, from which ``counts.py`` computes
the work of a launch for the time model; ``proxy.py`` reduces a problem for the emulator.
This package must not import ``lowering`` or the kernel template of programs.
"""
