"""Which operators have tile programs as their kernels?

Start at ``tile_problem.py``: a problem states its arrays, its reference and its tile program. It gets space, kernels,
time model, reduced problems and inputs from the compiler of tile programs. Each further module is one operator. This
room must not import the catalogue, which lists it.
"""
