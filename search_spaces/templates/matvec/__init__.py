"""How is a matrix multiplied by few vectors?

Start at ``template.py``. ``space.py`` has parameters and rules, among them the distribution over threads as a
lowering config states it; ``lowering.py`` makes the kernel, and ``counts.py`` counts its work. The device code is
``autosched/kernels/matvec.cuh``. This room must not import another template.
"""
