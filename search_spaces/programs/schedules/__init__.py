"""The search space of a tile program.

Start at ``space.py``, which builds the space. ``decisions.py`` has the parameters, ``sizes.py`` the sizes of tiles, and
``tile_pruning.py`` pruning rules on tiles. ``work.py`` counts the work of a block, and ``counts.py`` the work of a
launch, for the time model. ``proxy.py`` reduces a problem for the emulator. This package must not import ``lowering``
or the kernel template of programs.
"""
