"""Descriptions of kernel launches.

Start at ``launch.py``; its arguments are operands (``operand.py``), scalars, tensor maps (``tensor_map.py``) and
textures (``texture.py``). ``generated_kernel.py`` adds the CUDA C++ of a launch, and ``headers.py`` its include
files. Emulator, runners, ahead-of-time export and Triton describe their launches with these classes. This package
must not import operators or kernel templates.
"""
