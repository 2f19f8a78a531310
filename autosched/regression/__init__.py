"""Regression checks of tuned kernels: validity, correctness and speed.

Start at ``check.py``, which checks every entry of a database. ``slowdown.py`` has the statistics, ``pytest_plugin.py``
runs the checks in a test suite, and ``report.py`` defines the classes of the results. An entry that cannot be checked
is reported as uncertain, and the check continues. This package must not import the command line, ``suites`` or
``judge``.
"""
