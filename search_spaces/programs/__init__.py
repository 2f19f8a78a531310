"""Compiler of tile programs: users' operators, written as operations on tiles.

Start at ``builder.py``, the public language. The compiler's steps are:

- ``language``: traces a program
- ``inference``: distributes values over threads
- ``schedules``: builds the space of the decisions that the program leaves open
- ``planning``: plans a kernel for one schedule
- ``lowering``: writes the kernel in CUDA C++

``text`` reads and prints programs as listings. This package must not import ``tile_operators`` or the catalogue.
"""
