"""How are matrices multiplied by tcgen05, on GPUs with tensor memory?

Start at ``template.py``. ``space.py`` has parameters and rules, ``lowering.py`` makes the kernel and ``counts.py``
counts its work; ``transposed.py`` exchanges sides for few rows. The device code is
``autosched/kernels/tcgen05_matmul.cuh``. This room must not import another template.
"""
