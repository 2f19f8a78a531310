"""Calls of tuned kernels on arrays, with selection of the kernel.

Start at ``functions.py`` (``autosched.matmul``), then ``database.py`` and ``lookup.py``. ``staleness.py`` and
``validity.py`` decide whether a stored schedule may be used. This package must not import the search or ``verify``,
because programs that only call kernels import it.
"""
