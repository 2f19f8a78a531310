"""How is a matrix transposed, through registers or shared memory?

Start at ``template.py``. ``space.py`` has parameters and rules, ``lowering.py`` makes the kernel and ``counts.py``
counts its work. The device code is ``autosched/kernels/transpose.cuh``. This room must not import another template.
"""
