"""Kernel template of a matrix times a few vectors.

Start at ``template.py``. ``space.py`` has parameters and rules, including the distribution over threads (a lowering
config); ``lowering.py`` generates the kernel, and ``counts.py`` counts its work. The device code is
``autosched/kernels/matvec.cuh``. This package must not import another template.
"""
