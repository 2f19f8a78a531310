"""Where do elements lie, and which thread holds which?

Start at ``shared_layout.py`` (swizzle, padding, transpose) and ``nested_layout.py`` (distributions over threads).
``wg_map.py`` is XeTile's tiling of a workgroup, ``lowering_config.py`` IREE's configuration of reductions. Layouts
are pure mathematics: this room must not import devices (``hardware``), spaces or problems.
"""
