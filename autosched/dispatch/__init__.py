"""Calls of tuned kernels: selection of the kernel for given arrays.

Start at ``functions.py`` (``autosched.matmul``), then ``database.py`` and ``lookup.py``. ``staleness.py`` and
``validity.py`` decide which stored schedules may be used. Programs that only call kernels import this package, so it
must not import the search or ``verify``.
"""
