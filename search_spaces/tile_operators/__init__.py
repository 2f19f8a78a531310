"""Operators whose kernels are tile programs.

Start at ``tile_problem.py``: a problem defines its arrays, its reference and its tile program. The compiler of tile
programs derives the space, the kernels, the time model, the reduced problems and the inputs from them. Each other
module defines one operator. This package must not import the catalogue, which lists these operators.
"""
