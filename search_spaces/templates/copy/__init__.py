"""How is a contiguous run of bytes copied?

Start at ``template.py``. ``space.py`` has parameters and rules, ``lowering.py`` makes the kernel and ``counts.py``
counts its work. The device code is ``autosched/kernels/copy.cuh``. This room must not import another template.
"""
