"""Reading of kernel files.

Start at ``kernel_files.py``. ``launches.py``, ``arguments.py`` and ``sources.py`` each read one section of a file.
``kernel_tuner_files.py`` converts Kernel Tuner's files to documents of the same format. This package must not import
kernel templates.
"""
