"""What does one launch of any kernel do?

Start at ``emulate.py``. ``kernel_files.py`` recognises file types, ``kernel_signature.py`` finds parameters, and
``launch_memory.py`` makes arguments. ``tile_program.py`` compiles one schedule of a tile program to a launch. This
room must not import ``verify.schedules``, which plans many launches of a schedule.
"""
