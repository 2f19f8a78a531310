"""Is a submitted Triton kernel correct for a task?

Start at ``judging.py``, which returns a verdict: right, wrong, racing, out of bounds, cheating or unverified.
``task.py`` reads KernelBench and kernelbot tasks, ``worker.py`` runs the submission in a process of its own. This
room imports ``autosched.triton`` and must not import ``tuning``.
"""
