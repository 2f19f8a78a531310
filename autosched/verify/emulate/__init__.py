"""Emulation of a single launch of any kernel.

Start at ``emulate.py``. ``kernel_files.py`` recognises file types, ``kernel_signature.py`` finds parameters, and
``launch_memory.py`` lays out the arguments in memory. ``tile_program.py`` compiles one schedule of a tile program to a
launch. This package must not import ``verify.schedules``, which plans many launches of a schedule.
"""
