"""Kernel template that copies a contiguous range of bytes.

Start at ``template.py``. ``space.py`` has parameters and rules, ``lowering.py`` generates the kernel and
``counts.py`` counts its work. The device code is ``autosched/kernels/copy.cuh``. This package must not import another
template.
"""
