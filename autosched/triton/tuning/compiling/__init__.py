"""What does Triton's compiler make of one configuration? Start at ``candidate.py``.

``processes.py`` compiles ahead in processes (``worker.py``), so that a compiler that crashes ends none but its own.
Knows nothing of a search.
"""
