"""What is wrong with one launch of anyone's kernel? Start at ``emulate.py``.

``kernel_files.py`` tells what a file is, ``kernel_signature.py`` what its parameters are, ``launch_memory.py`` makes
its arguments. Knows nothing of templates, problems or schedules.
"""
