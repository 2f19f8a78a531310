"""Worker processes that answer requests.

Start at ``worker.py``, which handles requests, replies, time limits, and large values that are sent once.
``resource_watch.py`` limits CPU time and memory. This package works with any requests: it must not import compilers or
runners.
"""
