"""What does a kernel file say? Start at ``kernel_files.py``: from a document of tables to a KernelFile.

``kernel_tuner_files.py`` reads those of Kernel Tuner as if they were ours. Knows nothing of templates and problems.
"""
