"""What does a kernel do, how long does it take, and what is stored of it?

Start at ``runners/`` (times), ``emulator/`` (correctness without a GPU) and ``store/`` (the database). ``compiler/``
makes PTX and cubins, ``workers/`` are the processes that do risky work. This package imports ``search_spaces`` only,
and must not import ``cost_models`` or ``autosched``.
"""
