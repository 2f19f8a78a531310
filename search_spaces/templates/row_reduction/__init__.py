"""Kernel template that reduces rows or columns, and normalises rows.

Start at ``template.py``. ``space.py`` has parameters and rules, for example on how blocks share a row and where the
row is kept between two passes; ``lowering.py`` generates the kernel, and ``counts.py`` counts its work. The device
code is ``autosched/kernels/row_reduction.cuh``. This package must not import another template.
"""
