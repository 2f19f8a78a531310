"""How do two processes talk?

Start at ``worker.py``: requests, answers, time limits, and large values that are sent once. ``resource_watch.py``
limits CPU time and memory. This room must not know what is asked; compilers and GPUs are other rooms.
"""
