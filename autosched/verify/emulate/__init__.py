"""What is wrong with one launch of any kernel?

Start at ``emulate.py``. ``kernel_files.py`` recognises what a file is, ``kernel_signature.py`` finds its parameters
and ``launch_memory.py`` makes its arguments. This room knows nothing of templates, problems or schedules.
"""
