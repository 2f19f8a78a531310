"""Layouts: locations of elements in memory, and their distribution over threads.

Start at ``shared_layout.py`` (swizzle, padding, transpose) and ``nested_layout.py`` (distributions over threads).
``wg_map.py`` is XeTile's tiling of a workgroup, ``lowering_config.py`` IREE's configuration of reductions. Layouts do
not depend on hardware: this package must not import devices (``hardware``), spaces or problems.
"""
