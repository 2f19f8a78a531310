"""Execution, timing, emulation and storage of kernels.

Start at ``runners/`` (times), ``emulator/`` (correctness without a GPU) and ``store/`` (the database). ``compiler/``
makes PTX and cubins, ``workers/`` are the processes that do risky work. This package imports ``search_spaces`` only,
and must not import ``cost_models`` or ``autosched``.
"""
