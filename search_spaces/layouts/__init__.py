"""Layouts: where elements are in memory, and how they are distributed over threads.

Start at ``shared_layout.py`` (swizzle, padding, transpose) and ``nested_layout.py`` (distributions over threads).
``wg_map.py`` implements XeTile's tiling of a workgroup, and ``lowering_config.py`` IREE's configuration of reductions.
Layouts do not depend on hardware: this package must not import ``hardware``, spaces or problems.
"""
