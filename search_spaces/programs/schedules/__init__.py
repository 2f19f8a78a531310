"""The search space of a tile program.

Start at ``space.py``, which builds the space. ``decisions.py`` has the parameters, ``sizes.py`` has the sizes of tiles,
and ``tile_pruning.py`` has the pruning rules on tiles. For the time model, ``work.py`` counts the work of a block, and
``counts.py`` the work of a launch. ``proxy.py`` reduces a problem for the emulator. This package must not import
``lowering`` or the kernel template of programs.
"""
