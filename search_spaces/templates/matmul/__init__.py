"""Kernel template of matmul with CUDA cores, wmma, or ldmatrix and mma.sync.

Start at ``template.py``. ``space.py`` has parameters and rules, ``pruning.py`` has the pruning rules, ``lowering.py``
generates the kernel and ``counts.py`` counts its work. The device code is ``autosched/kernels/matmul.cuh``. This
package must not import another template.
"""
