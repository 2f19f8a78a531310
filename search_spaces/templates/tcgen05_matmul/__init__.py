"""Kernel template of matmul with tcgen05, for GPUs with tensor memory.

Start at ``template.py``. ``space.py`` has parameters and rules, ``lowering.py`` generates the kernel and
``counts.py`` counts its work; ``transposed.py`` exchanges the sides of problems with few rows. The device code is
``autosched/kernels/tcgen05_matmul.cuh``. This package must not import another template.
"""
