"""Operators whose kernels are tile programs.

Start at ``tile_problem.py``: a problem states its arrays, its reference and its tile program, and gets space, kernels,
time model, reduced problems and inputs from the compiler of tile programs. Each further module is one operator.
"""
