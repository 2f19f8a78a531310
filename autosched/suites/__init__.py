"""Which problems should be tuned one after another?

``suite.py`` reads a suite file and ``logged_calls.py`` the log of a program's calls. Logs of other
projects are read by integrations. Each yields problems; tuning them is the job of ``autosched.tuning``.
"""
