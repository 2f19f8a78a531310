"""How are matrices multiplied by mma.sync from stages that TMA fills?

Start at ``template.py``. ``space.py`` has parameters and rules, ``lowering.py`` makes the kernel and ``counts.py``
counts its work. The device code is ``autosched/kernels/tma_matmul.cuh``. This room must not import another template
except ``matmul``, whose decisions and rules it shares.
"""
