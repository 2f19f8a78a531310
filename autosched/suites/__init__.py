"""Suites of problems that are tuned one after another.

Start at ``suite.py``, which reads a suite file; ``logged_calls.py`` reads the log of a program's calls. Both yield
problems, which ``autosched.tuning`` tunes. Logs of other projects are read by ``integrations``, which this package
must not import.
"""
