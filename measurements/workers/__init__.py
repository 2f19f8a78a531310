"""Worker processes that answer requests.

Start at ``worker.py``: requests, replies, time limits, and large values that are sent once. ``resource_watch.py``
limits CPU time and memory. This package does not depend on the kind of request: it must not import compilers or
runners.
"""
