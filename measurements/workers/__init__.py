"""How do two processes talk?

Start at ``worker.py``: requests, answers, time limits, and large values that are sent once. ``resource_watch.py``
limits CPU time and memory. This room does not know what is asked: it must not import compilers or runners.
"""
