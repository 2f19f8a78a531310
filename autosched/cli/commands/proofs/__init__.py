"""Is this kernel correct?

Start at ``verify.py`` (schedules of operators, own kernels and tile programs). ``emulate.py`` runs one launch of any
kernel, ``run.py`` a whole CUDA program, ``judge.py`` a submission for a task. None of them needs a GPU.
"""
