"""Execution, timing, emulation and storage of kernels.

Start at ``runners/`` (times), ``emulator/`` (correctness without a GPU) and ``store/`` (the database). ``compiler/``
compiles CUDA C++ to PTX and cubins. ``workers/`` uses separate processes to run work that may crash or hang. Of the
project's packages, this package may import only ``search_spaces``, not ``cost_models`` or ``autosched``.
"""
