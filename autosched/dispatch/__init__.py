"""Which kernel computes these arrays?

Start at ``functions.py`` (``autosched.matmul``), then ``database.py`` and ``lookup.py``. ``staleness.py`` and
``validity.py`` decide which stored schedules may be used. Programs that only call kernels import this room, so it
must not import the search or ``verify``.
"""
