"""Kernel template of matmul with wgmma on Hopper.

Start at ``template.py``. ``space.py`` has parameters and rules, ``registers.py`` has the rules for registers, and
``movement.py`` has the rules for copies. ``lowering.py`` generates the kernel, ``counts.py`` counts its work, and
``transposed.py`` exchanges the operands a and b. The device code is ``autosched/kernels/wgmma_matmul.cuh``. This
package must not import another template.
"""
