"""Kernel template of matmul with mma.sync, in which TMA copies operands to shared memory.

Start at ``template.py``. ``space.py`` has parameters and rules, ``lowering.py`` generates the kernel and
``counts.py`` counts its work. The device code is ``autosched/kernels/tma_matmul.cuh``. This package must not import
another template except ``matmul``, whose decisions and rules it shares.
"""
