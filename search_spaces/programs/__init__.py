"""Compiler of tile programs: users' operators, written as operations on tiles.

Start at ``builder.py``, the public language. A program is traced (``language``), given distributions (``inference``),
planned (``planning``), lowered to CUDA C++ (``lowering``), and its open decisions are a space (``schedules``).
``text`` reads and prints programs as listings. This package must not import ``tile_operators`` or the catalogue.
"""
