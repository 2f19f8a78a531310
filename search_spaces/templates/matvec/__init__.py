"""A matrix times few vectors, with threads distributed as a lowering config says.

Start at ``template.py``. ``space.py`` has parameters and rules, ``lowering.py`` makes the kernel and ``counts.py``
counts its work. The device code is ``autosched/kernels/matvec.cuh``.
"""
