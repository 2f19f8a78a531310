"""How are rows or columns reduced, and rows normalised?

Start at ``template.py``. ``space.py`` has parameters and rules, among them how blocks share a row and where the row
stays between two passes; ``lowering.py`` makes the kernel, and ``counts.py`` counts its work. The device code is
``autosched/kernels/row_reduction.cuh``. This room must not import another template.
"""
