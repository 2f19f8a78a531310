"""Matrix multiplication by mma.sync from stages that TMA fills.

Start at ``template.py``. ``space.py`` has parameters and rules, ``lowering.py`` makes the kernel and ``counts.py``
counts its work. The device code is ``autosched/kernels/tma_matmul.cuh``.
"""
