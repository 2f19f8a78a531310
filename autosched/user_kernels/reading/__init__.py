"""Reader of kernel files. Start at ``kernel_files.py``: from a document of tables to a KernelFile.

``kernel_tuner_files.py`` converts Kernel Tuner's files to this format. The package is independent of templates and
problems.
"""
