"""How is a kernel launch described?

Start at ``launch.py``; its arguments are operands (``operand.py``), scalars, tensor maps (``tensor_map.py``) and
textures (``texture.py``). ``generated_kernel.py`` adds the CUDA C++ of a launch, ``headers.py`` what this includes.
Emulator, runners, ahead-of-time export and Triton describe their launches with these classes. This room must not
import operators or kernel templates.
"""
