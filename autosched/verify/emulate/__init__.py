"""Emulation of one launch of any kernel, with its findings.

Start at ``emulate.py``. ``kernel_files.py`` recognises file types, ``kernel_signature.py`` finds its parameters and
``launch_memory.py`` makes its arguments. This room knows nothing of templates, problems or schedules.
"""
