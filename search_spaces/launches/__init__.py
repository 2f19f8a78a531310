"""Descriptions of kernel launches.

Start at ``launch.py``. The arguments of a launch are operands (``operand.py``), scalars, tensor maps
(``tensor_map.py``) and textures (``texture.py``). ``generated_kernel.py`` adds the CUDA C++ of a launch, and
``headers.py`` the include files. The emulator, runners, ahead-of-time export and Triton describe their launches by
these classes. This package must not import operators or kernel templates.
"""
