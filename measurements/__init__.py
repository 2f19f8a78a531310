"""Evidence: compile, run, emulate, compare and store.

Start at ``runners/`` (times), ``emulator/`` (correctness without a GPU) and ``store/`` (the database). ``compiler/``
makes PTX and cubins, ``workers/`` are the processes that do risky work. This package imports ``search_spaces`` only,
and never ``cost_models``.
"""
