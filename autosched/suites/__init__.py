"""Which problems should be tuned one after another?

Start at ``suite.py``, which reads a suite file; ``logged_calls.py`` reads the log of a program's calls. Logs of other
projects are read by integrations, which this room never imports. Each yields problems; tuning them is the job of
``autosched.tuning``.
"""
