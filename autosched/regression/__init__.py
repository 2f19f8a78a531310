"""Regression checks of tuned kernels: validity, correctness and speed.

Start at ``check.py``, which checks every entry of a database for validity, correctness and speed. ``slowdown.py`` has
the statistics, ``pytest_plugin.py`` runs the checks in a test suite, and ``report.py`` writes JUnit and Markdown. An
entry that cannot be checked is uncertain; it never ends the check. This package must not import the command line,
``suites`` or ``judge``.
"""
