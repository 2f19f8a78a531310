"""Reading of kernel files.

Start at ``kernel_files.py``. ``launches.py``, ``arguments.py`` and ``sources.py`` read one part each, and
``kernel_tuner_files.py`` converts Kernel Tuner's files to this format. This package must not import kernel templates.
"""
