"""Kernel template that transposes a matrix through registers or shared memory.

Start at ``template.py``. ``space.py`` has parameters and rules, ``lowering.py`` generates the kernel and
``counts.py`` counts its work. The device code is ``autosched/kernels/transpose.cuh``. This package must not import
another template.
"""
